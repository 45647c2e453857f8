"""Events of a run for which a fault may wait: `acquire:ok`, `release:sent`, `lost`.

An event is what a client recorded: that it made a call, or how a call was answered. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.harness.core.operations import Op, Status

CALLS: Mapping[str, tuple[Op, ...]] = {
    "acquire": (Op.ACQUIRE, Op.TRY),
    "renew": (Op.RENEW,),
    "release": (Op.RELEASE,),
    "heartbeat": (Op.HEARTBEAT,),
    "read": (Op.READ,),
    "write": (Op.WRITE,),
}
ANSWERS: Mapping[str, tuple[Status, ...]] = {
    "sent": (Status.INVOKED,),
    "ok": (Status.OK,),
    "fail": (Status.FAIL, Status.NOT_OWNER),
    "info": (Status.INFO,),
}
NOTICES: Mapping[str, Op] = {"waiting": Op.WAITING, "lost": Op.LOST}
KNOWN = (*(f"{call}:{answer}" for call in CALLS for answer in ANSWERS), *NOTICES)


class Event(NamedTuple):
    """Rows of these kinds that reach one of these outcomes."""

    ops: tuple[Op, ...]
    outcomes: tuple[Status, ...]


def event(text: str) -> Event:
    """The event of a name in `KNOWN`. Errors: KeyError."""
    if text in NOTICES:
        return Event((NOTICES[text],), (Status.INVOKED,))
    call, _, answer = text.partition(":")
    return Event(CALLS[call], ANSWERS[answer])


class Events:
    """How often each event happened in a run so far, and when it did last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, op: int, outcome: int, t_ns: int) -> None:
        """A row was begun (`Status.INVOKED`) or answered, at `t_ns` on the clock of the run."""
        count, last_ns = self._seen.get((op, outcome), (0, 0))
        self._seen[op, outcome] = count + 1, max(last_ns, t_ns)

    def happened(self, what: Event) -> tuple[int, int]:
        """(how often, time of the last one in ns, 0 if none)."""
        found = list(self._of(what))
        return sum(count for count, _ in found), max((t_ns for _, t_ns in found), default=0)

    def _of(self, what: Event) -> Iterator[tuple[int, int]]:
        for op in what.ops:
            for outcome in what.outcomes:
                yield self._seen.get((op, outcome), (0, 0))
