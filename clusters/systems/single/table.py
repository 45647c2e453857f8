"""The lease table of one server, in memory: a restart loses it.

`answer(now_ns, question)` decides everything; the clock is an argument. An owner is an attempt: a
number that no two acquires share. There is no queue: a client that waits polls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.clusters.systems.reference.service.request_validation import (
    MAX_NS,
    command,
    list_of,
    text,
    whole,
)
from holdfast.clusters.systems.reference.wire.frames import Frame

MAX_ENDED = 16384
"""attempts whose end is remembered: to return the reason, and to reject late requests"""

_BIG = 1 << 63


def _is_hold(value: object) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [str, int]


_HOLD = {"lock": text, "attempt": whole(0, _BIG)}
REQUESTS = {
    "acquire": {**_HOLD, "ttl_ns": whole(1, MAX_NS), "owner": text},
    "renew": {**_HOLD, "ttl_ns": whole(1, MAX_NS)},
    "release": {**_HOLD, "call": whole(0, _BIG)},
    "ask": {"holds": list_of(_is_hold)},
    "status": {},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """One grant in force until `ends_ns` on the server's monotonic clock."""

    lock: str
    attempt: int
    owner: str
    token: int
    ends_ns: int


class Table:
    """All leases of one server, and the counter of its tokens.

    leases   whether holds expire; else they end only by their release, even if the client died
    """

    def __init__(self, name: str, *, leases: bool = True) -> None:
        self.name = name
        self.leases = leases
        self.token = 0
        self._leases: dict[str, Lease] = {}
        self._ended: dict[tuple[str, int], tuple[str, int]] = {}

    def answer(self, now_ns: int, question: Frame) -> Frame:
        """The response to one request; anything malformed is "bad-request"."""
        asked, wrong = command(question, REQUESTS)
        if wrong:
            return {"is": "bad-request", "why": wrong}
        match asked["op"]:
            case "acquire":
                return self._acquire(now_ns, asked)
            case "renew":
                return self._renew(now_ns, asked)
            case "release":
                return self._release(now_ns, asked)
            case "ask":
                fates = [self._fate(now_ns, lock, n) for lock, n in asked["holds"]]
                return {"is": "state", "holds": fates}
        return {"is": "status", "name": self.name, "token": self.token}

    def _acquire(self, now_ns: int, asked: Frame) -> Frame:
        lock, attempt = asked["lock"], asked["attempt"]
        lease = self._live(now_ns, lock)
        if lease is None and (lock, attempt) in self._ended:
            return {"is": "stale", "why": self._ended[lock, attempt][0]}
        if lease is None:
            self.token += 1
            lease = Lease(
                lock=lock,
                attempt=attempt,
                owner=asked["owner"],
                token=self.token,
                ends_ns=self._ends_ns(now_ns, asked["ttl_ns"]),
            )
            self._leases[lock] = lease
        if lease.attempt != attempt:
            return {"is": "held", "owner": lease.owner}
        return {"is": "granted", "token": lease.token}

    def _renew(self, now_ns: int, asked: Frame) -> Frame:
        lease = self._live(now_ns, asked["lock"])
        if lease is None or lease.attempt != asked["attempt"]:
            return self._not_holder(now_ns, asked)
        self._leases[lease.lock] = replace(lease, ends_ns=self._ends_ns(now_ns, asked["ttl_ns"]))
        return {"is": "renewed", "token": lease.token}

    def _ends_ns(self, now_ns: int, ttl_ns: int) -> int:
        return now_ns + ttl_ns if self.leases else _BIG

    def _release(self, now_ns: int, asked: Frame) -> Frame:
        lock, attempt = asked["lock"], asked["attempt"]
        lease = self._live(now_ns, lock)
        if lease is not None and lease.attempt == attempt:
            self._end(lease, "released", asked["call"])
            return {"is": "released", "token": lease.token}
        if self._ended.get((lock, attempt)) == ("released", asked["call"]):
            return {"is": "released", "token": -1}
        answer = self._not_holder(now_ns, asked)
        # Any request of this attempt still in flight comes too late.
        self._note(lock, attempt, "given up", -1)
        return answer

    def _live(self, now_ns: int, lock: str) -> Lease | None:
        lease = self._leases.get(lock)
        if lease is not None and now_ns >= lease.ends_ns:
            self._end(lease, "expired", -1)
            return None
        return lease

    def _end(self, lease: Lease, reason: str, call: int) -> None:
        del self._leases[lease.lock]
        self._note(lease.lock, lease.attempt, reason, call)

    def _note(self, lock: str, attempt: int, reason: str, call: int) -> None:
        self._ended.setdefault((lock, attempt), (reason, call))
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def _not_holder(self, now_ns: int, asked: Frame) -> Frame:
        fate = self._fate(now_ns, asked["lock"], asked["attempt"])
        return {"is": "not-holder", "reason": fate}

    def _fate(self, now_ns: int, lock: str, attempt: int) -> str:
        lease = self._live(now_ns, lock)
        if lease is not None and lease.attempt == attempt:
            return "held"
        return self._ended.get((lock, attempt), ("unknown", -1))[0]
