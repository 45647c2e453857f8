"""The line protocol of client programs: requests, responses and events.

One JSON object per line. Request: id, op (acquire, try, renew, release), lock, attempt, lease_ms
and timeout_ms (-1: no bound); of an acquire or try on terms also those (mode, permits, limit,
reenter, newest, metadata), of a program whose table lists the ability. Response: id, outcome, and
token or error. Further requests of such a program: check (is the attempt's hold in force?) and
query (lock, attempt; 0: none), whose response has holder, place or length.
Event: event (lost or waiting), lock, attempt, and a reason. With `sender=program` also: op send,
with the resource's address, its port, and the line to send to it; the response has the line that
came back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from holdfast.clusters.systems.user_class.terms import QUERIES
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Answer, Status

OUTCOMES = {
    "ok": Status.OK,
    "fail": Status.FAIL,
    "not_owner": Status.NOT_OWNER,
    "info": Status.INFO,
}
EVENTS = ("lost", "waiting")
ANSWER_KEYS = frozenset(("id", "outcome", "token", "error", "answer", *QUERIES))
EVENT_KEYS = frozenset(("event", "lock", "attempt", "reason"))
SHOWN = 200


class Garbage(Exception):
    """An invalid line: says which, and what is accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A notification of the program."""

    kind: str
    lock: str
    attempt: int
    reason: str


def question(
    number: int,
    op: str,
    lock: str,
    attempt: int,
    *,
    wait_ns: int,
    lease_ns: int,
    terms: Mapping[str, Json] | None = None,
) -> bytes:
    """One request line. terms: further keys of it."""
    asked = {
        "id": number,
        "op": op,
        "lock": lock,
        "attempt": attempt,
        "timeout_ms": wait_ns // MILLISECOND if wait_ns > 0 else wait_ns,
        "lease_ms": lease_ns // MILLISECOND,
        **(terms or {}),
    }
    return json.dumps(asked).encode() + b"\n"


def send(number: int, attempt: int, address: str, port: int, line: str) -> bytes:
    """The request line by which the program sends a line to the protected resource."""
    where = {"address": address, "port": port}
    asked = {"id": number, "op": "send", "attempt": attempt, **where, "line": line}
    return json.dumps(asked).encode() + b"\n"


def read(line: bytes) -> tuple[int, dict[str, object]] | Event:
    """A response with its id, or an event. Garbage says what is wrong with the line."""
    shown = line[:SHOWN].decode(errors="replace").rstrip("\n")

    def wrong(what: str) -> Garbage:
        return Garbage(f"{what}: {shown}")

    try:
        message = json.loads(line)
    except ValueError as error:
        raise wrong("a line that is not JSON (print nothing else; logs go to stderr)") from error
    if not isinstance(message, dict):
        raise wrong("a line that is not a JSON object")
    if "event" in message:
        return _event(message, wrong)
    number = message.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise wrong("a response without the id of its request")
    if message.get("outcome") not in OUTCOMES:
        raise wrong(f"a response whose outcome is not one of {', '.join(OUTCOMES)}")
    token = message.get("token")
    if token is not None and (not isinstance(token, int) or isinstance(token, bool) or token < 0):
        raise wrong("a token that is not a whole number >= 0")
    if not isinstance(message.get("answer", ""), str):
        raise wrong("an answer of the resource that is not the line that came, as a string")
    _only(message, ANSWER_KEYS, wrong)
    return number, message


def answer(said: Mapping[str, object], lease_ns: int) -> Answer:
    """The outcome of a response."""
    token = said.get("token")
    return Answer(
        outcome=OUTCOMES[str(said["outcome"])],
        token=token if isinstance(token, int) else NO_TOKEN,
        ttl_ns=lease_ns,
        error=str(said.get("error") or ""),
    )


def _event(said: dict[str, Json], wrong: Callable[[str], Exception]) -> Event:
    kind, lock, attempt = said["event"], said.get("lock"), said.get("attempt")
    if kind not in EVENTS:
        raise wrong(f"an event that is not one of {', '.join(EVENTS)}")
    if not isinstance(lock, str) or not isinstance(attempt, int):
        raise wrong("an event without its lock and attempt")
    _only(said, EVENT_KEYS, wrong)
    return Event(
        kind=str(kind),
        lock=lock,
        attempt=attempt,
        reason=str(said.get("reason", "reported by the client program")),
    )


def _only(said: dict[str, Json], known: Collection[str], wrong: Callable[[str], Exception]) -> None:
    extra = sorted(set(said) - set(known))
    if extra:
        raise wrong(f"an unknown key ({', '.join(extra)})")
