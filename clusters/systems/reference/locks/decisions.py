"""Commands of the leader, each conditional on the state it saw, and of an operator.

A command that is outdated by an earlier one in the log changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.clusters.systems.reference.locks.state import Answer, Command

if TYPE_CHECKING:
    from holdfast.clusters.systems.reference.locks.state_machine import Locks

OVERTAKEN: Answer = {"is": "overtaken"}


def expire(locks: Locks, index: int, command: Command) -> Answer:
    """Ends a lease, unless it was renewed since the leader saw it expire."""
    hold = locks.held(command)
    if hold is None or hold.renewal != command["renewal"]:
        return OVERTAKEN
    locks.end(index, hold, "expired")
    return {"is": "expired"}


def drop(locks: Locks, index: int, command: Command) -> Answer:
    """Ends a wait that timed out, or whose client is gone."""
    session = locks.sessions.get(command["session"])
    known = session.answers.get(command["seq"]) if session else None
    if session is None or known is None or known["is"] != "queued":
        return OVERTAKEN
    locks.unqueue(index, session, [command["seq"]], command["why"])
    return {"is": "dropped"}


def reopen(locks: Locks, index: int, command: Command) -> Answer:
    """Ends the lock-delay after the death of a holder."""
    lock = locks.locks.get(command["lock"])
    if lock is None or lock.closed != command["since"]:
        return OVERTAKEN
    lock.closed = 0
    locks.serve(index, command["lock"])
    return {"is": "reopened"}


def expire_session(locks: Locks, index: int, command: Command) -> Answer:
    """Ends a session, unless a heartbeat came since the leader saw it time out."""
    session = locks.sessions.get(command["session"])
    if session is None or session.beat != command["beat"]:
        return OVERTAKEN
    locks.end_session(index, session, "session")
    return {"is": "expired"}


def force(locks: Locks, index: int, command: Command) -> Answer:
    """An operator ends a hold, or all holds of the lock (token -1)."""
    lock = locks.locks.get(command["lock"])
    holds = [h for h in (lock.holds if lock else []) if command["token"] in (-1, h.token)]
    if not holds:
        return {"is": "not-held"}
    for hold in holds:
        locks.end(index, hold, "revoked")
    return {"is": "forced", "token": holds[0].token, "owner": holds[0].owner}


COMMANDS: Mapping[str, Callable[[Locks, int, Command], Answer]] = {
    "expire": expire,
    "drop": drop,
    "reopen": reopen,
    "expire-session": expire_session,
    "force": force,
}
