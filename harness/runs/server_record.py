"""Reads the servers' record of a run, line by line; the file is untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from holdfast.harness.core.clock import LARGEST
from holdfast.harness.core.errors import UsageError
from holdfast.harness.recording.server_record import EVENTS, MOST_BYTES, MOST_LINE, RecordEvent
from holdfast.harness.runs import files
from holdfast.harness.runs.directory import RunDir

TYPES = {one.name: str if one.type == "str" else int for one in fields(RecordEvent)}


def events(run: RunDir) -> Iterator[RecordEvent]:
    """The events in order. An incomplete last line is ignored; UsageError names a damaged line."""
    data = files.read(run.path, run.server_record.name, MOST_BYTES)
    for n, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield parsed(line)
        except ValueError as error:
            raise UsageError(f"{run.server_record}, line {n}: damaged: {error}") from error


def parsed(line: bytes) -> RecordEvent:
    """One line; ValueError says what is wrong with it. Keys of newer versions are ignored."""
    if len(line) > MOST_LINE:
        raise ValueError(f"{len(line)} bytes, more than the limit of {MOST_LINE}")
    row = files.table(line)
    for name in ("event", "t_ns"):
        if name not in row:
            raise ValueError(f"{name} is missing")
    known = {name: row[name] for name in TYPES if name in row}
    for name, value in known.items():
        fits = isinstance(value, str) if TYPES[name] is str else files.number(value)
        if not fits:
            raise ValueError(f"{name} is {str(value)[:60]!r}")
    event = RecordEvent(**known)  # type: ignore[arg-type]
    if event.event not in EVENTS:
        raise ValueError(f"event is {event.event[:60]!r}")
    if not 0 <= event.from_ns <= event.t_ns < LARGEST:
        raise ValueError(f"from_ns is {event.from_ns}, t_ns {event.t_ns}")
    return event
