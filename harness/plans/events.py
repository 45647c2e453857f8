"""Events of a run for which a fault may wait: `acquire:ok`, `release:sent`, `lost`.

An event is what a client recorded: that it made a call, or how a call was answered. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Mapping
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
