"""`holdfast.Run`: one recorded run."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.api import history_frame, parquet_file, plot, tables
from holdfast.engine import judging, reporting
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.verdict import Promises, Verdict
from holdfast.harness.history import reader
from holdfast.harness.history.reader import Recording
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs import files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.harness.verdicts.judged import (
    NO_REPORT,
    Cause,
    Judged,
    Opportunities,
    Outcome,
    to_table,
)
from holdfast.harness.verdicts.left_unknown import LeftUnknown, of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from pyarrow import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What a run left behind, wherever it is read from.

    times, faults   rows of times.jsonl and faults.jsonl
    verdicts        the judged run; None: not judged yet
    """

    manifest: Manifest
    recording: Recording
    times: Sequence[Mark]
    faults: Sequence[FaultRow]
    verdicts: Judged | None


class Run:
    """A recorded run: read when first needed, never changed, each frame a fresh copy.

    path: the run's directory; `latest` in the folder of runs is the newest. A run that was not
    judged yet is judged when its verdict is asked for, which writes verdicts.json.
    Raises UsageError for a directory that holds no run, or is damaged. Frames need pandas (extra
    `frame`), else EnvironmentFailed.
    """

    def __init__(self, path: str | PathLike[str] = ".holdfast/runs/latest") -> None:
        self._dir: RunDir | None = RunDir(Path(path).resolve())
        self._manifest = self._dir.read_manifest()
        self._given: Recorded | None = None

    @classmethod
    def _of(cls, recorded: Recorded) -> Run:
        run = cls.__new__(cls)
        run._dir, run._manifest, run._given = None, recorded.manifest, recorded
        return run

    # What it is.

    @property
    def path(self) -> Path | None:
        """Its directory; None for a run from a Parquet file."""
        return self._dir.path if self._dir else None

    @property
    def id(self) -> str:
        """Its name, unique by time."""
        return self._manifest.run

    @property
    def plan(self) -> Mapping[str, Any]:
        """Its plan, every default filled in: system, backend, nodes, time_ns, faults, ..."""
        return asdict(self._manifest.plan)

    @property
    def system(self) -> str:
        """The lock service under test."""
        return self._manifest.plan.system

    @property
    def seed(self) -> int:
        """The seed of all its randomness."""
        return self._manifest.plan.seed

    @property
    def lease(self) -> float:
        """The lease that clients requested, in seconds."""
        return self._manifest.plan.lease_ns / SECOND

    @property
    def promises(self) -> Promises:
        """What the system promises, by which it is judged."""
        return self.case.promises

    @property
    def start_ns(self) -> int:
        """When the workload began, in ns of the run's clock: time 0 of every frame."""
        return self.case.start_ns

    # How it was judged.

    @property
    def judgement(self) -> Mapping[str, Any]:
        """The content of verdicts.json (docs/reference), for what no frame has."""
        content: dict[str, object] = dict(to_table(self._judged))
        return content

    @cached_property
    def _judged(self) -> Judged:
        if self._given is not None:
            if self._given.verdicts is None:
                raise UsageError(f"{self.id}: was not judged before it was written to this file")
            return self._given.verdicts
        assert self._dir is not None
        if self._dir.has(self._dir.verdicts):
            return stored(self._dir)
        return judging.judge_run(self._dir)

    @property
    def verdict(self) -> Verdict:
        """Of the whole run: VIOLATED, UNKNOWN or HOLDS of what the system promises."""
        return self._judged.verdict

    @property
    def state(self) -> Outcome:
        """Of the whole run in one word: VIOLATED, LIMIT (violated, never promised), UNKNOWN (could
        not have failed), HOLDS; ENVIRONMENT if it could not be carried out."""
        return self._judged.outcome()

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Property -> its verdict, promised or not."""
        return {row.property: row.verdict for row in self._judged.verdicts}

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Its findings by cause, across properties, broken promises first: `sentence` (the fault,
        the calls, what followed), `times`, `under` (kinds of fault that were in effect each time),
        `broken` (whether a promise is), `findings` (property -> places in its findings)."""
        return self._judged.causes

    @property
    def unknown(self) -> tuple[LeftUnknown, ...]:
        """What it left unknown, each cause once: `properties`, `faults` (kinds of fault), `cause`
        (the nearest miss in numbers), `rows` of the table of opportunities and what one is
        (`wanted`), and `command`, which exercises it; str() is the whole as sentences."""
        return of_run(self._judged)

    @property
    def opportunities(self) -> dict[str, dict[str, tuple[Opportunities, ...]]]:
        """Property -> kind of fault -> how often a lock with a typical defect would have been seen,
        one entry per defect: `count`, `sentence`, `witnesses` of the first, or `nearest` miss."""
        return {
            row.property: counted
            for row in self._judged.verdicts
            if (
                counted := {
                    kind: one.opportunities for kind, one in row.under.items() if one.opportunities
                }
            )
        }

    def properties(self) -> DataFrame:
        """One row per property: state (LIMIT: violated, never promised), verdict, promised,
        severity, reason, number of findings, and a column per count that the verdicts rest on; NA
        where a count does not apply."""
        return tables.properties(self._judged)

    def findings(self) -> DataFrame:
        """One row per finding: property, kind, promised, severity, t, lock, sentence, and
        `witnesses`, the rows of `frame()` that prove it."""
        return tables.findings(self.case, self._judged)

    # What was recorded.

    @cached_property
    def case(self) -> Case:
        """What checkers are given: the history, the faults as observed, the promises."""
        recorded = self._recorded
        with files.shaped(self._dir.path if self._dir else Path(self.id)):
            return case_of(recorded.manifest, recorded.recording, recorded.times, recorded.faults)

    @cached_property
    def _recorded(self) -> Recorded:
        if self._given is not None:
            return self._given
        assert self._dir is not None
        return Recorded(
            manifest=self._manifest,
            recording=reader.load(self._dir.history),
            times=list(journal.marks(self._dir)),
            faults=list(journal.faults(self._dir)),
            verdicts=self._judged if self._dir.has(self._dir.verdicts) else None,
        )

    def frame(
        self,
        *,
        columns: Collection[str] | None = None,
        ops: Collection[str] | None = None,
        lock: str | None = None,
        client: str | None = None,
        between: tuple[float, float] | None = None,
        raw: bool = False,
    ) -> DataFrame:
        """One row per recorded operation, in order of time; the index is what witnesses name.

        Times are seconds since the workload began, durations seconds, unknown values NA or NaN;
        `holdfast.api.history_frame.COLUMNS` lists the columns. Filters: ops ("acquire",
        "served-write", ...), lock, client, between (seconds, of the call). raw: the recorded
        numbers, ns of the run's clock.
        """
        chosen = history_frame.rows_where(self.case, ops, lock, client, between)
        if raw:
            return history_frame.raw(self.case, chosen)
        return history_frame.frame(self.case, chosen, columns)

    def holds(self, kind: tables.Hold = "certain") -> DataFrame:
        """One row per hold: client, lock, mode, token, from, to, end_reason, rows `acquire`, `end`.

        kind: "possible" (the service may have thought so), "certain" (the client was owner as far
        as it knew), "proved" (the service itself said so), "contract" (the lease it had granted).
        """
        return tables.holds(self.case, kind)

    def faults(self) -> DataFrame:
        """One row per fault: id, kind, target, nodes, requested, from, to, effective, reason,
        evidence. It was injected between requested (NaN: not recorded) and from, when it was
        certainly in effect."""
        return tables.faults(self.case)

    def resource_log(self) -> DataFrame:
        """One row per write that reached the resource, in its order: t, client, lock, token,
        highest_token_before, version, accepted, stale, `request` (row of the client's call).

        stale: accepted although a newer owner had been admitted, as no-stale-write judges it, or
        rejected because its token was outdated.
        """
        return tables.resource_log(self.case)

    def errors(self) -> DataFrame:
        """Errors that clients received: op, client, status, error, n, first, last; most first."""
        return tables.errors(self.case)

    # Other tools.

    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Write the whole recording to one Parquet file, without loss: every recorded column, and
        plan, faults, clocks and verdicts as metadata. `read_parquet` reads it. Needs pyarrow."""
        return parquet_file.write(self._recorded, Path(path))

    def to_arrow(self) -> Table:
        """`frame()` as a pyarrow.Table. Needs pyarrow (extra `parquet`)."""
        return parquet_file.arrow(self.frame())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def report(self) -> Path:
        """Write report.html into the run's directory; its path. EnvironmentFailed if it cannot be
        written."""
        if self._dir is None:
            raise UsageError(f"{self.id}: a report needs the run's directory")
        path = reporting.report_run(self._dir, self._judged)
        if path == NO_REPORT:
            raise EnvironmentFailed(f"{self._dir.path}: the report cannot be written there")
        return Path(path)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        between: tuple[float, float] | None = None,
        lanes: Literal["client", "lock"] = "client",
    ) -> Axes:
        """Draw holds as bars, faults as shaded spans and findings as lines; the matplotlib Axes.
        Needs matplotlib (extra `plot`)."""
        return plot.draw(self, ax, between, lanes)

    def __repr__(self) -> str:
        judged = self._dir is None or self._dir.has(self._dir.verdicts)
        word = self.state.value if judged else "not judged"
        return f"<Run {self.id}: {self.system} on {self._manifest.plan.backend}, {word}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(row.property)}</td><td>{row.outcome().value}</td></tr>"
            for row in self._judged.verdicts
        )
        return f"<p><b>{html.escape(repr(self)[1:-1])}</b></p><table>{rows}</table>"


def read_parquet(path: str | PathLike[str]) -> Run:
    """The run that `Run.to_parquet` wrote. UsageError if the file is not one. Needs pyarrow."""
    return Run._of(Recorded(**parquet_file.read(Path(path))))
