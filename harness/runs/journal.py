"""The journals of a run: a row per event of a fault, and a row per stage of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from holdfast.harness.core.json_value import OMITTED, Json
from holdfast.harness.runs import directory, files
from holdfast.harness.runs.directory import RunDir

WAITED = "waited_ns"
"""Evidence of an operation that waited, up to its beginning: its fault lasts that much longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultRow:
    """One event of a fault, a line of faults.jsonl. None: the event has no such value.

    event       "planned", "injected", "healed", "skipped" or "failed"
    at_ns, for_ns, params   planned: as in the plan
    t_ns        of the event: injected and healed as the fault agent reports it
    before_ns   injected: just before the request to the agent
    nodes       injected: those that it acts on; holder: the client whose hold was the target
    leader      injected: who led just before, if the target depends on it; term: of this leader
    evidence    injected, healed: what the agent measured
    effective   healed: whether it took effect
    reason      skipped, failed: why
    """

    id: str
    event: str
    do: str = ""
    target: str = ""
    at_ns: int | None = field(default=None, metadata=OMITTED)
    for_ns: int | None = field(default=None, metadata=OMITTED)
    params: Mapping[str, Json] | None = field(default=None, metadata=OMITTED)
    t_ns: int | None = field(default=None, metadata=OMITTED)
    before_ns: int | None = field(default=None, metadata=OMITTED)
    nodes: Sequence[str] | None = field(default=None, metadata=OMITTED)
    holder: str | None = field(default=None, metadata=OMITTED)
    leader: str | None = field(default=None, metadata=OMITTED)
    term: int | None = field(default=None, metadata=OMITTED)
    evidence: Mapping[str, Json] | None = field(default=None, metadata=OMITTED)
    effective: bool | None = field(default=None, metadata=OMITTED)
    reason: str | None = field(default=None, metadata=OMITTED)

    def time_ns(self) -> int:
        """When it was; ValueError in a damaged row."""
        return _whole(self.t_ns, "t_ns")

    def requested_ns(self) -> int:
        """Just before the injection was requested; ValueError in a damaged row."""
        return _whole(self.before_ns, "before_ns")


ELECTED = "elected"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One stage of a run, a line of times.jsonl. None: the stage has no such value.

    mark      "deployed", "start", "stop", "probe", "end", "failed"; in the simulator also "elected"
    leader    elected: the server that leads from now on; term: its term
    took_ns   deployed: the time that it took
    problems  end: why the history may be incomplete; reason: of a failed run
    """

    mark: str
    t_ns: int
    took_ns: int | None = field(default=None, metadata=OMITTED)
    problems: Sequence[str] | None = field(default=None, metadata=OMITTED)
    reason: str | None = field(default=None, metadata=OMITTED)
    leader: str | None = field(default=None, metadata=OMITTED)
    term: int | None = field(default=None, metadata=OMITTED)


R = TypeVar("R", FaultRow, Mark)


def faults(run: RunDir) -> Iterator[FaultRow]:
    """The events of a run's faults; UsageError names a damaged line."""
    return directory.read_lines(run.faults, lambda line: _of(FaultRow, files.row(line)))


def marks(run: RunDir) -> Iterator[Mark]:
    """The stages of a run; UsageError names a damaged line."""
    return directory.read_lines(run.times, lambda line: _of(Mark, files.row(line)))


def _of(kind: type[R], row: Mapping[str, Any]) -> R:
    """A row whose fields `files.row` has checked; keys of newer versions are ignored."""
    every = fields(kind)
    for one in every:
        if one.default is MISSING and one.name not in row:
            raise ValueError(f"{one.name} is missing")
    return kind(**{one.name: row[one.name] for one in every if one.name in row})


def _whole(number: int | None, name: str) -> int:
    if number is None:
        raise ValueError(f"{name} is missing")
    return number
