"""Specification of a lease server that keeps nothing on disk, and validation of its trace.

A lease ends at its time on the server's monotonic clock, or by its release; an attempt that ended
never holds again; tokens grow; a restart forgets all. The servers of a majority vote are such
servers, each by itself: that clients combine their votes well is not specified here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from holdfast.harness.verdicts.judged import Departure
from holdfast.harness.verdicts.specification import Settled

Frame = Mapping[str, object]


class Started(NamedTuple):
    """A server has started, with no lease."""

    node: str
    t_ns: int


class Answered(NamedTuple):
    """One request and its answer, at the time of the server's monotonic clock."""

    node: str
    t_ns: int
    now_ns: int
    asked: Frame
    answer: Frame


class Lease(NamedTuple):
    """One grant in force; ends_ns -1: only its release ends it."""

    attempt: int
    owner: str
    token: int
    ends_ns: int


class Server:
    """The state of one server. ended: (lock, attempt) -> why it ended, and by which release."""

    def __init__(self, *, expires: bool) -> None:
        self.expires = expires
        self.token = 0
        self.leases: dict[str, Lease] = {}
        self.ended: dict[tuple[str, int], tuple[str, int]] = {}

    def answers(self, now_ns: int, asked: Frame) -> Frame:
        """What a valid request does, and what its answer must say; it may say more."""
        for lock, lease in list(self.leases.items()):
            if 0 <= lease.ends_ns <= now_ns:
                self._end(lock, "expired", -1)
        if asked["op"] == "ask":
            wanted = cast("list[tuple[str, int]]", asked["holds"])
            return {"is": "state", "holds": [self._fate(*one) for one in wanted]}
        if asked["op"] == "status":
            return {"is": "status", "token": self.token}
        name, attempt = cast(str, asked["lock"]), cast(int, asked["attempt"])
        if asked["op"] == "acquire":
            return self._acquire(now_ns, name, attempt, asked)
        held = self.leases.get(name)
        if held is None or held.attempt != attempt:
            return self._late(name, attempt, asked)
        if asked["op"] == "release":
            self._end(name, "released", cast(int, asked["call"]))
            return {"is": "released", "token": held.token}
        self.leases[name] = held._replace(ends_ns=self._ends(now_ns, asked))
        return {"is": "renewed", "token": held.token}

    def _acquire(self, now_ns: int, name: str, attempt: int, asked: Frame) -> Frame:
        lease = self.leases.get(name)
        if lease is None:
            if (name, attempt) in self.ended:
                return {"is": "stale"}
            self.token += 1
            owner, ends_ns = cast(str, asked["owner"]), self._ends(now_ns, asked)
            lease = self.leases[name] = Lease(attempt, owner, self.token, ends_ns)
        if lease.attempt == attempt:
            return {"is": "granted", "token": lease.token}
        return {"is": "held", "owner": lease.owner}

    def _late(self, name: str, attempt: int, asked: Frame) -> Frame:
        """A renewal or release by an attempt that does not hold; a release keeps it from it."""
        if asked["op"] == "renew":
            return {"is": "not-holder", "reason": self._fate(name, attempt)}
        if self.ended.get((name, attempt)) == ("released", asked["call"]):
            return {"is": "released"}
        reason = self._fate(name, attempt)
        self.ended.setdefault((name, attempt), ("given up", -1))
        return {"is": "not-holder", "reason": reason}

    def _fate(self, name: str, attempt: int) -> str:
        lease = self.leases.get(name)
        if lease is not None and lease.attempt == attempt:
            return "held"
        return self.ended.get((name, attempt), ("unknown", -1))[0]

    def _ends(self, now_ns: int, asked: Frame) -> int:
        return now_ns + cast(int, asked["ttl_ns"]) if self.expires else -1

    def _end(self, name: str, reason: str, call: int) -> None:
        self.ended.setdefault((name, self.leases.pop(name).attempt), (reason, call))

    def __str__(self) -> str:
        held = (
            f"{name}: attempt {lease.attempt}, token {lease.token}, until {lease.ends_ns} ns"
            for name, lease in self.leases.items()
        )
        return "; ".join(held) or "no lease"


def validate(
    events: Iterable[object],
    *,
    nodes: int,
    options: Mapping[str, str],
    settled: Settled | None = None,
) -> Departure | None:
    """The first answer that is not allowed, None if all are. No rule is about the end of a run."""
    expires = options.get("leases") != "none"
    servers: dict[str, Server] = {}
    for event in cast("Iterable[Started | Answered]", events):
        if isinstance(event, Started):
            servers[event.node] = Server(expires=expires)
            continue
        if event.answer["is"] == "bad-request":
            continue
        server = servers[event.node]
        before = str(server)
        wanted = server.answers(event.now_ns, event.asked)
        if any(event.answer.get(name) != value for name, value in wanted.items()):
            return Departure(
                node=event.node,
                t_ns=event.t_ns,
                rule=f"the answer to {dict(event.asked)}",
                before=f"at {event.now_ns} ns: {before}",
                allows=f"{dict(wanted)}",
                happened=f"{dict(event.answer)}",
            )
    return None
