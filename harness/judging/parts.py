"""Judges a run part by part, in bounded memory: what a history larger than memory is judged by.

Each part is judged like a run that had ended with it, and so is what it takes over to the next one.
A count of the whole run is the sum over the parts, less what was counted twice; a finding counts
once no later row can change it (docs/decisions/0045).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import (
    MERGED_DTYPE,
    AcrossParts,
    Case,
    Checker,
    Contradicted,
    Contradiction,
    History,
    among,
    by_column,
    room,
)
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.history import reader
from holdfast.harness.history.calls import due, every_acquire_failed, too_few
from holdfast.harness.history.distinct_values import distinct
from holdfast.harness.history.parts import LONGEST_NS, Part, Parts
from holdfast.harness.judging.judge import judge_one, judged_of
from holdfast.harness.judging.run_case import case_of, options_of
from holdfast.harness.judging.settled_findings import Settled, renumbered
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs import files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.evidence import Asked, Evidence
from holdfast.harness.verdicts.judged import InParts, Judged, Shown, Verified

Numbers = npt.NDArray[np.int64]

MOST_ROWS = 1_300_000
"""New rows of a part: with what it takes over, and with what is derived, about 600 MiB."""
MOST_PASSES = 3
"""How often all parts are judged, with what the last time contradicted."""
WHOLE = frozenset({"no-lost-update", "applied-once", "exactly-once-job", "durable-grants"})
"""Properties that compare rows at any distance: an update and the version that it builds on, the
two times at which one command was applied."""


class SoFar(NamedTuple):
    """How far a history has been judged.

    rows       of `total` at most
    until_ns   how far that is, from the start of the workload
    findings   so far, promised or not
    """

    rows: int
    total: int
    until_ns: int
    findings: int


class _Judge:
    """Judges the parts of one run, one after the other.

    elsewhere  what earlier passes found contradicted in some part
    """

    def __init__(
        self,
        base: Case,
        checkers: Mapping[str, Checker],
        across: AcrossParts,
        elsewhere: Contradicted,
        margin_ns: int,
    ) -> None:
        self.base = base
        self.checkers = checkers
        self.across = across
        self.elsewhere = elsewhere
        self.margin_ns = margin_ns
        self.coverage = {prop: across.coverage(prop) for prop in checkers}
        self.contradicted: dict[str, dict[int, Contradiction]] = {}
        self.stood: list[tuple[set[int], set[tuple[str, int]]]] = []
        self.failing: list[str] = []
        self.asked = np.zeros(3, np.int64)
        self.late = self.parts = 0
        self._before_ns = -1
        self._rows: dict[int, np.void] = {}
        strings = base.history.strings
        self.settled = {prop: Settled(prop, strings, self._rows) for prop in checkers}

    def add(self, part: Part) -> None:
        """Judge one part."""
        self.parts += 1
        self.late += part.late
        case = self._case(part)
        verdicts = self._judged(case)
        self.asked += _asked(case)
        fallen = self.across.contradicted(case)
        for name, by_lock in fallen.items():
            self.contradicted.setdefault(name, {}).update(by_lock)
        locks = set(distinct(part.rows["key"]).tolist())
        self.stood.append((locks, {(name, key) for name in fallen for key in fallen[name]}))
        self.failing.append(every_acquire_failed(case.history, case.start_ns, case.nodes))
        until_ns = reader.LAST_NS if part.last else part.until_ns - self.margin_ns
        to_come = {one.do for one in self.base.windows if one.from_ns >= part.until_ns}
        again, twice = None, dict[str, PropertyVerdict]()
        if not part.last:
            again = self._case(part, carried=True)
            twice = self._judged(again)
            self.asked -= _asked(again)
        for prop, verdict in verdicts.items():
            later = None if again is None else (again, twice[prop])
            self.coverage[prop].add((case, verdict), later, to_come)
            self.settled[prop].take(verdict, part, until_ns, self._before_ns)
        self._before_ns = until_ns
        for one in (case, again):
            if one is not None:
                # Its tables refer to it in turn: without this the collector frees them much later.
                one.memo.clear()

    def relied_too_much(self) -> bool:
        """Whether a part relied on an assumption about a lock that another part contradicts."""
        every = {(name, key) for name, by_lock in self.contradicted.items() for key in by_lock}
        return any(
            key in locks and (name, key) not in fallen
            for locks, fallen in self.stood
            for name, key in every
        )

    def _case(self, part: Part, carried: bool = False) -> Case:
        """A part as a run that ended with it. carried: only the rows that the next part has too."""
        rows, (count, number), until_ns = part.rows, part.attempts, part.until_ns
        if carried:
            rows, number = rows[part.carried], number[part.carried]
        history = replace(self.base.history, rows=rows, attempts=(count, number))
        windows = [window for window in self.base.windows if window.from_ns < until_ns]
        end_ns = min(self.base.end_ns, until_ns)
        if until_ns == reader.LAST_NS and len(rows):
            end_ns = max(end_ns, int(rows["t_inv"].max()), int(rows["t_ret"].max()))
        return replace(
            self.base,
            history=history,
            windows=windows,
            end_ns=end_ns,
            since_ns=part.next_since_ns if carried else part.since_ns,
            contradicted=self.elsewhere,
            memo={},
        )

    def _judged(self, case: Case) -> dict[str, PropertyVerdict]:
        return {prop: judge_one(prop, check, case) for prop, check in self.checkers.items()}

    def kept(self) -> tuple[Case, list[int]]:
        """The whole run with only the rows that its findings rest on, and their numbers in it."""
        rows = by_column(np.array(list(self._rows.values()), MERGED_DTYPE))
        history = replace(self.base.history, rows=rows)
        return replace(self.base, history=history, memo={}), list(self._rows)

    def verdict(self, prop: str, case: Case, doubt: str) -> PropertyVerdict:
        """The verdict on the whole run, for its case with the rows that are kept.

        doubt   why no property can be HOLDS
        """
        settled = self.settled[prop]
        place = {number: at for at, number in enumerate(self._rows)}.__getitem__
        verdict = self.coverage[prop].conclude(
            case,
            [renumbered(one, place) for one in settled.found.values()],
            [renumbered(one, place) for one in settled.notes.values()],
            settled.doubt() or doubt,
        )
        more = settled.more and verdict.verdict is Verdict.VIOLATED
        return replace(
            verdict,
            reason=verdict.reason + ", and more that are not kept" * more,
            # Its proof names no rows (`Settled`), so that it makes no certificate.
            findings=tuple(replace(one, proof=None) for one in verdict.findings),
            notes=tuple(replace(one, proof=None) for one in verdict.notes),
        )


def _asked(case: Case) -> Numbers:
    """Number of acquires that were granted, refused, and of unknown outcome; without probes."""
    rows = case.history.rows
    asked = rows["status"][among(rows["f"], (Op.ACQUIRE, Op.TRY))]
    granted, unknown = asked == Status.OK, (asked == Status.INFO) | (asked == Status.INVOKED)
    return np.array([granted.sum(), (~granted & ~unknown).sum(), unknown.sum()], np.int64)


def judge_in_parts(
    run: RunDir,
    manifest: Manifest,
    checkers: Mapping[str, Checker],
    across: AcrossParts,
    most_rows: int = MOST_ROWS,
    longest_ns: int = LONGEST_NS,
    margin_ns: int | None = None,
    tell: Callable[[SoFar], None] = lambda far: None,
) -> Judged:
    """The judged run, without evidence and certificates; UsageError if its files are damaged.

    The parts are judged again if one of them contradicts an assumption that another relied on.

    most_rows    new rows of a part
    longest_ns   how far back what goes on keeps everything; margin_ns: how long what is over is
                 kept, None: by what the system promises
    tell         is called after each part but the last
    """
    checkers = {prop: checkers[prop] for prop in manifest.asks}
    own = {prop: check for prop, check in checkers.items() if prop not in WHOLE}
    own = {prop: check for prop, check in own.items() if prop not in manifest.checkers}
    elsewhere: Contradicted = {}
    for _ in range(MOST_PASSES):
        parts, base = _parts(run, manifest, most_rows, longest_ns, margin_ns)
        judge = _Judge(base, own, across, elsewhere, parts.margin_ns)
        for part in parts:
            judge.add(part)
            if not part.last:
                found = sum(len(one.found) for one in judge.settled.values())
                at_ns = part.until_ns - base.start_ns
                tell(SoFar(rows=parts.seen, total=parts.total, until_ns=at_ns, findings=found))
            del part  # before the next one is read
        if not judge.relied_too_much():
            break
        elsewhere = judge.contradicted
    return _whole(manifest, checkers, parts, judge)


def _parts(
    run: RunDir, manifest: Manifest, most_rows: int, longest_ns: int, margin_ns: int | None
) -> tuple[Parts, Case]:
    """The parts of a run, and its case without rows."""
    promises, plan = manifest.promises, manifest.plan
    with files.shaped(run.path):
        marks, faults = journal.marks(run), journal.faults(run)
        empty = reader.Recording(
            history=History(rows=room(MERGED_DTYPE, 0), strings=[""], writers=()),
            nodes={},
            states={},
        )
        base = case_of(manifest, empty, marks, faults)
    if margin_ns is None:
        lasts_ns = promises.lasting_ns(plan.lease_ns)
        promised = (promises.recovery_ns, promises.notice_ns, promises.delay_ns, lasts_ns)
        margin_ns = 15 * SECOND + 2 * sum(promised)
    parts = Parts(
        directory=run.history,
        most_rows=most_rows,
        faults=[(window.from_ns, window.to_ns) for window in base.windows],
        margin_ns=margin_ns,
        expires=promises.bound in ("lease", "session"),
        longest_ns=longest_ns,
    )
    nodes = reader.nodes_of(parts.metas)
    parts.kills = {
        process: [w.from_ns for w in base.windows if w.traits.kills and node in w.nodes]
        for process, node in nodes.items()
    }
    history = replace(
        base.history,
        strings=parts.strings,
        writers=parts.writers,
        problems=(*parts.problems, *base.history.problems),
    )
    ends = base.end_ns or reader.LAST_NS
    return parts, replace(
        base,
        history=history,
        nodes=nodes,
        starved=reader.starved(run.path, None),
        stop_ns=base.stop_ns or ends,
        end_ns=ends,
        asked=tuple(manifest.asks),
        # Whether the planned rate was reached is a question to the whole run.
        options={name: value for name, value in base.options.items() if name != "rate"},
    )


def _whole(
    manifest: Manifest, checkers: Mapping[str, Checker], parts: Parts, judge: _Judge
) -> Judged:
    """The judged run of the verdicts of its parts."""
    doubt = ""
    if judge.relied_too_much():
        doubt = "parts contradict what other parts relied on, each time that they were judged again"
    elif judge.late:
        who = "1 attempt went on after it had" if judge.late == 1 else ""
        doubt = (
            f"{who or f'{judge.late} attempts went on after they had'} been over for"
            f" {judge.margin_ns // SECOND} s: judge the history at once, on a larger machine"
        )
    wanted = due(options_of(manifest), judge.base.stop_ns - judge.base.start_ns)
    doubt = doubt or too_few(int(judge.asked.sum()), wanted) or ""
    case, numbers = judge.kept()
    verdicts = [
        judge.verdict(prop, case, doubt)
        if prop in judge.settled
        else PropertyVerdict(
            property=prop,
            verdict=Verdict.UNKNOWN,
            reason="it may compare rows of the whole run, which was judged in parts",
        )
        for prop in checkers
    ]
    failing = judge.failing[0] if all(judge.failing) else ""
    judged = judged_of(manifest, case, verdicts, failing)
    granted, refused, unknown = judge.asked.tolist()
    asked = Asked(
        asked=sum(judge.asked.tolist()), granted=granted, refused=refused, unknown=unknown
    )
    return replace(
        judged,
        verdicts=tuple(
            replace(
                row,
                findings=tuple(_numbered(one, numbers) for one in row.findings),
                notes=tuple(_numbered(one, numbers) for one in row.notes),
            )
            for row in judged.verdicts
        ),
        in_parts=InParts(parts=judge.parts, rows=parts.seen, kept=parts.kept, unsure=parts.unsure),
        evidence=Evidence(acquire=asked),
        verified=Verified(why="the run was judged in parts"),
    )


def _numbered(shown: Shown, numbers: Sequence[int]) -> Shown:
    """With the numbers that its rows have in the whole history."""
    events = tuple(replace(event, row=numbers[event.row]) for event in shown.witnesses)
    return replace(shown, witnesses=events)
