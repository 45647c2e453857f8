"""Validates the steps that servers recorded in a run, if they did: `--set trace=yes`.

Each server writes logs/SERVER/trace.jsonl (`clusters/systems/reference/service/trace_file.py`).
All processes of a host share the clock of its events, and an event is in the file before anything
of it is sent, so the order of time is one in which each message comes after its cause.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import count
from operator import attrgetter
from pathlib import Path

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.runs import files
from holdfast.harness.verdicts.judged import Judged, Traced
from holdfast.harness.verdicts.specification import TRACE, Specification, TraceEvent, Unreadable

MOST_LINE = 1 << 24
Rows = Iterator[Mapping[str, Json]]
Reader = Callable[[Rows], Iterator[TraceEvent]]
"""Rows of one server's trace -> its events. Unreadable ends the trace of all."""


def validated(
    run: Path,
    judged: Judged,
    specification: Specification,
    recorded: Reader,
    options: Mapping[str, str],
    traits: Mapping[str, Traits],
) -> Traced:
    """Steps in the order of time, up to the first that departs.

    UsageError if the files of the trace are damaged.
    """
    if judged.clocks:
        return Traced(why="the servers ran on several hosts, whose steps have no common order")
    found = [f"logs/{server}/{TRACE}" for server in judged.servers]
    found = [name for name in found if files.is_file(run, name)]
    if not found:
        return Traced(why="no server recorded its steps")
    until_ns, why = _until(judged, traits)
    steps = _Counted([recorded(_rows(run, name)) for name in found], until_ns)
    with files.shaped(run / "logs"):
        departure = specification(steps, nodes=len(judged.servers), options=options)
    return Traced(steps=steps.count, departure=departure, why=steps.why or why)


def _until(judged: Judged, traits: Mapping[str, Traits]) -> tuple[int, str]:
    """The time up to which a specification says what servers do, and why not longer."""
    for fault in sorted(judged.faults, key=attrgetter("from_ns")):
        does = traits.get(fault.do)
        if does is None or does.lies or does.lies_if is not None or does.reverts:
            at_s = judged.at(fault.from_ns) / SECOND
            return fault.from_ns, (
                f"not validated from {at_s:.1f} s on: {fault.id} ({fault.do}) may put other data on"
                " the servers' disks than they wrote"
            )
    return 1 << 63, ""


class _Counted:
    """The events of all servers before a time, counted while they are taken."""

    def __init__(self, servers: Iterable[Iterator[TraceEvent]], until_ns: int) -> None:
        self.count, self.why = 0, ""
        self._servers, self._until_ns = servers, until_ns

    def __iter__(self) -> Iterator[object]:
        try:
            for event in merge(*self._servers, key=attrgetter("t_ns")):
                if event.t_ns >= self._until_ns:
                    return
                self.count += 1
                yield event
        except Unreadable as end:
            self.why = str(end)


def _rows(run: Path, name: str) -> Rows:
    """The complete lines of a trace, each an object, in order of their times; one at a time, since
    a trace may be larger than the memory."""
    last_ns = 0
    with files.opened(run, name) as file, os.fdopen(os.dup(file), "rb") as stream:
        for number in count(1):
            line = stream.readline(MOST_LINE)
            if not line.endswith(b"\n") and len(line) < MOST_LINE:
                return  # the server was killed while it wrote it
            try:
                row = files.row(line)
                at_ns = row["t_ns"]
                if not isinstance(at_ns, int) or at_ns < last_ns:
                    raise ValueError("its time is earlier than that of the line before")
            except (KeyError, ValueError, UsageError) as error:
                where = f"{run / name}, line {number}"
                raise UsageError(f"{where}: no step of a trace: {error}") from error
            last_ns = at_ns
            yield row
