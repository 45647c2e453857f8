"""A step of a simulated run, as observed, and a frame in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

NONE = -1
"""No step: what was scheduled before time began."""
LONGEST = 160
"""Characters of a text about one frame."""
SHOWN = 12
"""Fields of a frame that a text about it has at most."""


class Kind(StrEnum):
    """What the scheduler did in a step."""

    MESSAGE = "message"
    TIMER = "timer"
    CALLBACK = "callback"
    WORLD = "world"


class Fate(StrEnum):
    """What became of a frame when it was due."""

    DELIVERED = "delivered"
    LOST = "lost in a cut"
    BLOCKED = "held up by a cut"
    RESET = "lost, its connection is reset"
    CLOSED = "its connection is closed"
    CHOSEN = "lost, as the branch says"


class Recorded(NamedTuple):
    """An edge of a row that a step recorded: the call, or the return."""

    writer: str
    row: int
    returned: bool


@dataclass(kw_only=True, slots=True)
class Step:
    """One callback of the scheduler.

    number     its place in the run, from 0; a run that is re-executed has the same numbers
    t_ns       on the run's clock; node: where it ran, "" for the world
    cause      the step that scheduled it: sent the message, set the timer, woke the task
    released   the step that let it run where its node stood still; NONE: it did not
    waited_ns  how long it stood ready on a node that stood still
    before     the step before it on its node, NONE for the first of a boot
    source     the sender of a message; fate: what became of it
    text       the message, or the name of the callback
    rows       edges of rows that it recorded
    traced     numbers of the events of the servers' trace that it told
    """

    number: int
    t_ns: int
    node: str
    kind: Kind
    cause: int
    released: int = NONE
    waited_ns: int = 0
    before: int = NONE
    source: str = ""
    fate: Fate = Fate.DELIVERED
    text: str = ""
    rows: list[Recorded] = field(default_factory=list)
    traced: list[int] = field(default_factory=list)


def words(frame: object) -> str:
    """A frame in at most LONGEST characters."""
    if isinstance(frame, Mapping):
        inner = frame.get("message")
        if len(frame) == 1 and inner is not None:
            return words(inner)
        shown = [f"{name}={_value(value)}" for name, value in list(frame.items())[:SHOWN]]
        text = ", ".join(shown)
    elif isinstance(frame, bytes):
        text = frame[:LONGEST].decode("ascii", "backslashreplace").replace("\r\n", " ")
    elif is_dataclass(frame):
        values = ((one.name, attrgetter(one.name)(frame)) for one in fields(frame)[:SHOWN])
        told = ", ".join(f"{name}={_value(value)}" for name, value in values)
        text = f"{type(frame).__name__} {told}"
    else:
        text = type(frame).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _value(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{len(value)}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}"
    if value is None or isinstance(value, str | int | float | bool):
        return str(value)
    return type(value).__name__
