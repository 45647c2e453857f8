"""Reads the traces that servers wrote, and finds out what a kill left of a write to the disk.

A line is an event of `reference/specification/trace.py`, or of `single/specification.py`, as JSON:
its fields by name and its type as "event". `reference/service/trace_file.py` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast, get_type_hints

from holdfast.clusters.systems.reference.specification.trace import (
    Applied,
    Begun,
    Boot,
    Event,
    Save,
    Step,
    TableView,
    Torn,
)
from holdfast.clusters.systems.single.specification import Answered, Started
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.verdicts.specification import Unreadable

Disk = tuple[int, str, int, int, tuple[int, ...]]
"""term, vote, base, base_term, and the terms of the entries after base"""
EMPTY: Disk = (0, "", 0, 0, ())
Row = Mapping[str, Json]
EVENTS: Mapping[str, type[object]] = {one.__name__: one for one in (Begun, Boot, Step, Torn)}
DONE: Mapping[str, type[object]] = {one.__name__: one for one in (TableView, Applied)}
LEASES: Mapping[str, type[object]] = {one.__name__: one for one in (Started, Answered)}
TYPES: Mapping[type[object], Mapping[str, object]] = {
    kind: get_type_hints(kind) for kinds in (EVENTS, DONE, LEASES) for kind in kinds.values()
}
"""Type of an event -> its fields and their types, in order"""
LATER: Row = {"quorum": 0}
"""Fields that an older trace does not have, with what they are then."""


def of_leases(rows: Iterator[Row]) -> Iterator[Started | Answered]:
    """The events of a lease server, in order. UsageError if a row is none."""
    for row in rows:
        kind = LEASES.get(str(row.get("event")))
        if kind is None:
            raise UsageError(f"a trace of leases has no event {row.get('event')!r:.80}")
        yield cast("Started | Answered", _made(kind, [row.get(name) for name in TYPES[kind]]))


def of_reference(rows: Iterator[Row]) -> Iterator[Event]:
    """The events of a server of the reference service, in order. UsageError if a row is none."""
    disk, begun = EMPTY, None
    for row in rows:
        event = event_of(row)
        if isinstance(event, Begun):
            begun = event
            continue
        if isinstance(event, Boot):
            if begun is not None:
                yield Torn(begun.node, begun.t_ns, _left(disk, begun.saves, event))
            disk = _on_disk(event.disk)
        elif isinstance(event, Step):
            for save in event.saves:
                disk = _after(disk, save)
        begun = None
        yield event


def event_of(row: Row) -> Event | Begun:
    """The event of one row. UsageError if it is none."""
    kind = EVENTS.get(str(row.get("event")))
    if kind is None:
        raise UsageError(f"a trace has no event {row.get('event')!r:.80}")
    fields = [row.get(name, LATER.get(name)) for name in TYPES[kind]]
    return cast("Event | Begun", _made(kind, fields))


def _made(kind: type[object], fields: Sequence[Json]) -> object:
    import msgspec

    types = TYPES[kind]
    if len(fields) != len(types):
        raise UsageError(f"{kind.__name__} of a trace has {len(types)} fields")
    try:
        values = [
            _done(field) if name == "done" else msgspec.convert(field, type_, str_keys=True)
            for field, (name, type_) in zip(fields, types.items(), strict=True)
        ]
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind.__name__} of a trace: {error}") from error
    return cast("Callable[..., object]", kind)(*values)


def _done(told: Json) -> tuple[object, ...]:
    """Tables and applied commands: each a list of the name of its type and its fields."""
    made = []
    for one in told if isinstance(told, list) else ():
        kind = DONE.get(str(one[0])) if isinstance(one, list) and one else None
        if kind is None or not isinstance(one, list):
            raise UsageError("a trace loads tables and applies commands, and does nothing else")
        made.append(_made(kind, one[1:]))
    return tuple(made)


def _left(disk: Disk, saves: Sequence[Save], boot: Boot) -> tuple[Save, ...]:
    """What of a write is on the disk from which its server started again.

    Lines of the log are written in order, so it is a beginning: some saves, and of the next one
    some entries. If none is what was found, all of it: the specification tells the difference.
    """
    on_disk = _on_disk(boot.disk)
    for part in _beginnings(saves):
        left = disk
        for save in part:
            left = _after(left, save)
        if left == on_disk:
            return part
    if any(save.what == "all" for save in saves):
        raise Unreadable(f"{boot.node} died while a snapshot replaced its log")
    return tuple(saves)


def _beginnings(saves: Sequence[Save]) -> Iterator[tuple[Save, ...]]:
    """All beginnings of a write, the longest first."""
    yield tuple(saves)
    for number in reversed(range(len(saves))):
        whole, last = tuple(saves[:number]), saves[number]
        for entries in reversed(range(1, len(last.entries) if last.what == "entries" else 1)):
            yield (*whole, last._replace(entries=last.entries[:entries]))
        yield whole


def _after(disk: Disk, save: Save) -> Disk:
    term, vote, base, base_term, terms = disk
    if save.what == "ballot":
        return save.term, save.vote, base, base_term, terms
    if save.what == "entries":
        kept = terms[: save.first - base - 1]
        return term, vote, base, base_term, (*kept, *(one for one, _ in save.entries))
    return _on_disk(save)


def _on_disk(save: Save) -> Disk:
    terms = tuple(term for term, _ in save.entries)
    return save.term, save.vote, save.base, save.base_term, terms
