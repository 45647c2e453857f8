"""States of nodes as data: after each step the values that changed, now and then all of them.

A state is what can be reached from the variables of a node's process and from its disk, as one flat
table: path -> text. Nothing of a system has to be written for this.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import attrgetter
from types import CoroutineType, FunctionType, MethodType
from typing import TYPE_CHECKING

from holdfast.clusters.backends.sim.observed.steps import Step

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.backend import Host

State = dict[str, str]
"""path -> value as text"""
Change = tuple[str, str, str]
"""path, value before ("" for none), value after ("" for none)"""

DEPTH, LAST, ITEMS = 7, 4, 40
"""Limits: nested objects; items shown of the end of a sequence; of the beginning of a mapping."""
TEXT, LINE = 60, 200
"""Characters of one value, and of an item with all its values."""
KEYFRAME = 64
"""Captures of one node between two that have all values."""
LEFT_OUT = (
    "asyncio",
    "_asyncio",
    "functools",
    "holdfast.clusters.backends.",
    "holdfast.harness.recording.",
    "holdfast.harness.client.guard",
    "logging",
    "random",
)
"""Modules of what is no state of a system: the simulated world, and what records."""
SCALARS = (str, int, float, bytes)
SKIPPED = (FunctionType, MethodType, partial, type, random.Random, asyncio.Future)


class _Frames:
    """What is known of one node: a list of captures.

    steps   number of the step after which a capture was made, ascending
    full    capture -> all values; changes: capture -> what is new in it
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.full: dict[int, State] = {}
        self.changes: list[tuple[Change, ...]] = []
        self.now: State = {}


class States:
    """States of all nodes after each of their steps."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Frames] = {}

    def take(self, step: Step, host: Host | None) -> None:
        """Keep what a step changed on its node. host: None, where the step is not one of a node."""
        if host is None:
            return
        frames = self._nodes.setdefault(step.node, _Frames())
        now = state_of(host)
        if now == frames.now and frames.steps:
            return
        if not len(frames.steps) % KEYFRAME:
            frames.full[len(frames.steps)] = now
        frames.steps.append(step.number)
        frames.changes.append(changes(frames.now, now))
        frames.now = now

    def at(self, node: str, step: int) -> State:
        """The state of a node after a step of the run; {} before it has one."""
        frames = self._nodes.get(node)
        last = _last(frames.steps, step) if frames else -1
        if frames is None or last < 0:
            return {}
        first = last - last % KEYFRAME
        state = dict(frames.full[first])
        for each in frames.changes[first + 1 : last + 1]:
            for path, _, after in each:
                if after:
                    state[path] = after
                else:
                    state.pop(path, None)
        return state

    def changed(self, node: str, step: int) -> tuple[Change, ...]:
        """What a step changed on its node."""
        frames = self._nodes.get(node)
        last = _last(frames.steps, step) if frames else -1
        return frames.changes[last] if frames and last >= 0 and frames.steps[last] == step else ()

    def wrote(self, node: str, path: str, step: int) -> tuple[int, Change] | None:
        """The last step up to this one that changed a value, and how; None: none did."""
        frames = self._nodes.get(node)
        if frames is None:
            return None
        for at in range(_last(frames.steps, step), -1, -1):
            for each in frames.changes[at]:
                if each[0] == path:
                    return frames.steps[at], each
        return None

    def nodes(self) -> Sequence[str]:
        """The nodes that have a state."""
        return list(self._nodes)


def _last(steps: Sequence[int], step: int) -> int:
    """Index of the last capture up to a step, -1 for none."""
    return bisect_right(steps, step) - 1


def changes(before: State, after: State) -> tuple[Change, ...]:
    """What is different, by path."""
    paths = [*before, *(path for path in after if path not in before)]
    found = ((path, before.get(path, ""), after.get(path, "")) for path in paths)
    return tuple(one for one in found if one[1] != one[2])


def state_of(host: Host) -> State:
    """What is known of a node now: its process, and its disk."""
    found: State = {}
    seen: dict[int, None] = {}
    work = host.work if host.loop is not None else None
    frame = work.cr_frame if isinstance(work, CoroutineType) else None
    found["process"] = "none" if host.loop is None else "stopped" if host.loop.stopped else "runs"
    if frame is not None:
        for name, value in dict(frame.f_locals).items():
            if name != "config" and value is not host and not _left_out(value):
                _walk(name, value, 0, found, seen)
    if host.kept is not None:
        _walk("disk", host.kept, 0, found, seen)
    return found


def _left_out(value: object) -> bool:
    return isinstance(value, SKIPPED) or type(value).__module__.startswith(LEFT_OUT)


def _walk(path: str, value: object, depth: int, found: State, seen: dict[int, None]) -> None:
    """Adds a value, or what is in it. An object that was met before is not walked again."""
    if value is None or isinstance(value, SCALARS):
        found[path] = f"{value!s:.{TEXT}}" or '""'
        return
    if _left_out(value) or id(value) in seen or depth >= DEPTH:
        return
    seen[id(value)] = None
    if isinstance(value, Mapping):
        named = [(key, one) for key, one in value.items() if isinstance(key, str | int | tuple)]
        found[f"{path}.length"] = str(len(value))
        for key, one in named[:ITEMS]:
            _item(f"{path}[{key!s:.{TEXT}}]", one, depth + 1, found, seen)
    elif isinstance(value, AbstractSet):
        found[f"{path}.length"] = str(len(value))
    elif isinstance(value, Sequence):
        found[f"{path}.length"] = str(len(value))
        first = max(0, len(value) - LAST)
        for n in range(first, len(value)):
            _item(f"{path}[{n}]", value[n], depth + 1, found, seen)
    else:
        for name, one in _fields(value):
            _walk(f"{path}.{name.lstrip('_')}", one, depth + 1, found, seen)


def _item(path: str, value: object, depth: int, found: State, seen: dict[int, None]) -> None:
    """An item of a collection: on one line where nothing is nested in it."""
    if value is None or isinstance(value, SCALARS) or _left_out(value):
        _walk(path, value, depth, found, seen)
        return
    if isinstance(value, Mapping):
        parts = [(str(key), one) for key, one in value.items()]
    elif isinstance(value, Sequence):
        parts = [("", one) for one in value]
    else:
        parts = [(name.lstrip("_"), one) for name, one in _fields(value)]
    if all(one is None or isinstance(one, SCALARS) for _, one in parts):
        told = ", ".join(f"{name}={one}" if name else str(one) for name, one in parts)
        found[path] = f"{told:.{LINE}}" or "empty"
    else:
        _walk(path, value, depth, found, seen)


def _fields(value: object) -> Iterator[tuple[str, object]]:
    """The attributes of an object, those of its slots too."""
    if hasattr(value, "__dict__"):
        yield from vars(value).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if isinstance(name, str) and hasattr(value, name) and name != "__dict__":
                yield name, attrgetter(name)(value)
