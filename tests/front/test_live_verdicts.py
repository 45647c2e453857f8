"""Violations that are told while a run goes on: each is one of the whole history too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.commands import main
from holdfast.harness.core.case import Case, Rows
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import ROW_BYTES, Op, Status
from holdfast.harness.core.verdict import Finding
from holdfast.harness.history import reader
from holdfast.harness.history.growing import Growing
from holdfast.harness.history.reader import ROW_DTYPE
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.plan import Plan
from holdfast.harness.recording.segments import HEADER_BYTES, Recorder
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from holdfast.lenses.live_verdicts import (
    BEFORE_THE_END,
    NEEDS_ALL_ROWS,
    case_so_far,
    judged_early,
)
from holdfast.planning import prepare, run_folder

Found = tuple[str, str, str, int]
"""Of a finding: property, kind, lock, and one of its attempts. Which other attempt it is told with
depends on the rows that are there."""


def simulated(folder: Path, *words: str, seed: int = 7) -> RunDir:
    """A run of the simulator with its rows on the disk."""
    argv = ["run", "--backend", "sim", "--time", "5s", "--lease", "500ms", "--clients", "4"]
    with pytest.raises(SystemExit):
        main([*argv, *words, "--seed", str(seed), "--out", str(folder)])
    return RunDir((folder / "latest").resolve())


def grown(run: RunDir, folder: Path, steps: int) -> Iterator[int]:
    """Writes the run's segments into a folder as they were at times during the run."""
    folder.mkdir()
    whole = {path.name: path.read_bytes() for path in run.history.iterdir()}
    stamps = reader.load(run.history).history.rows["t_inv"]
    for cut_ns in np.linspace(stamps.min(), stamps.max() + 1, steps).astype(np.int64).tolist():
        for name, data in whole.items():
            if name.endswith(".seg"):
                data = data[:HEADER_BYTES] + _as_of(data[HEADER_BYTES:], cut_ns)
            (folder / name).write_bytes(data)
        yield cut_ns


def _as_of(data: bytes, cut_ns: int) -> bytes:
    rows = np.frombuffer(data[: len(data) // ROW_BYTES * ROW_BYTES], ROW_DTYPE).copy()
    late = rows["t_ret"] > cut_ns
    rows["status"][late] = Status.INVOKED
    rows["t_ret"][late] = 0
    rows[rows["t_inv"] > cut_ns] = np.zeros(1, ROW_DTYPE)
    return rows.tobytes()


def found(case: Case, props: tuple[str, ...]) -> list[set[Found]]:
    """What the checkers of these properties find."""
    checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in props if prop in case.asked}
    return [
        {(prop, one.kind, one.lock, attempt) for attempt in _attempts(case, one)}
        for prop, checker in checkers.items()
        for one in checker(case).findings
    ]


def _attempts(case: Case, finding: Finding) -> list[int]:
    attempts: list[int] = case.history.rows["attempt"][list(finding.witnesses)].tolist()
    return attempts


def live(
    run: RunDir, folder: Path, most_rows: int, steps: int = 40
) -> tuple[list[set[Found]], Growing]:
    """All that is found in a run's history while it grows."""
    manifest, history = run.read_manifest(), Growing(folder, most_rows)
    told: list[set[Found]] = []
    for cut_ns in grown(run, folder, steps):
        recording = history.until(cut_ns)
        if recording is None or not len(recording.history.rows):
            continue
        judged = tuple(p for p in BEFORE_THE_END if not history.dropped or p not in NEEDS_ALL_ROWS)
        told += found(case_so_far(run, manifest, recording, cut_ns), judged)
    return told, history


def at_the_end(run: RunDir) -> set[Found]:
    """What is found in the whole history."""
    recording = reader.load(run.history)
    case = case_of(run.read_manifest(), recording, journal.marks(run), journal.faults(run))
    return set[Found]().union(*found(case, BEFORE_THE_END))


BROKEN = {
    "early-expiry": ("--nemesis", "pause:target=holder,partition", "--mutant", "early-expiry"),
    "unfenced": ("--nemesis", "pause:target=holder,kill", "--resource", "unfenced"),
    "single": ("--system", "single", "--nemesis", "kill,partition"),
    "redlock": ("--system", "redlock", "--nemesis", "clock,pause"),
}
"""Runs with violations of mutual exclusion, of tokens, and of the resource."""


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_found_early_is_found_at_the_end(name: str, tmp_path: Path) -> None:
    run = simulated(tmp_path, *BROKEN[name], seed=3)
    whole = at_the_end(run)
    assert whole
    for most_rows in (40, 1 << 30):
        told, history = live(run, tmp_path / f"grown-{most_rows}", most_rows, steps=8)
        assert all(one & whole for one in told)
        assert bool(history.dropped) == (most_rows < 1000)
    assert told, "with all rows kept, the violations are found"


def test_nothing_is_found_in_a_correct_lock_however_many_rows_are_dropped(tmp_path: Path) -> None:
    run = simulated(tmp_path, "--nemesis", "kill,partition,pause", seed=5)
    for most_rows in (40, 1 << 30):
        assert live(run, tmp_path / f"grown-{most_rows}", most_rows, steps=8)[0] == []


def test_a_row_counts_only_as_far_as_it_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer goes on between two readings of a row."""
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        history = Growing(tmp_path)
        assert history.until(now_ns()) is None
        row = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=5)
        whole, returns = reader.rows_at, [lambda: recorder.complete(row, Status.OK, token=9)]

        def rows_at(path: Path, at: int, count: int) -> Rows:
            rows = whole(path, at, count).copy()
            if returns:
                returns.pop()()
            return rows

        monkeypatch.setattr("holdfast.harness.history.growing.rows_at", rows_at)
        seen = [history.until(now_ns()) for _ in range(2)]
    rows = [one.history.rows for one in seen if one is not None]
    assert [int(one["status"][0]) for one in rows] == [Status.INVOKED, Status.OK]
    assert [(int(one["token"][0]), bool(one["t_ret"][0])) for one in rows] == [
        (-1, False),
        (9, True),
    ]


def test_times_are_those_of_the_call_whatever_the_kernel_said(tmp_path: Path) -> None:
    """A reader that adds `tx` to get the call's time needs a history narrowed by it."""
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        row = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=5)
        done_ns = recorder.complete(row, Status.OK, stamped=lambda inv, ret: (inv + 1, ret - 1))
        found = Growing(tmp_path).until(now_ns())
    assert found is not None and int(found.history.rows["t_ret"][0]) == done_ns
    assert [int(found.history.rows[column][0]) for column in ("tx", "rx", "flags")] == [0, 0, 0]


def test_a_new_segment_is_read_when_its_writer_has_begun_it(tmp_path: Path) -> None:
    history = Growing(tmp_path)
    (tmp_path / "c2.seg").write_bytes(b"")
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        recorder.complete(
            recorder.invoke(Op.TRY, 1, recorder.intern("lock-1"), attempt=1), Status.OK
        )
        assert (found := history.until(now_ns())) is not None
        assert found.history.strings[int(found.history.rows["key"][0])] == "lock-1"
        recorder.invoke(Op.RELEASE, 1, 0, attempt=1)
        cut_ns = now_ns()
        recorder.invoke(Op.RELEASE, 1, 0, attempt=1)
        assert (found := history.until(cut_ns)) is not None
    assert found.history.rows["f"].tolist() == [Op.TRY, Op.RELEASE]
    assert found.history.rows["row"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--backend", "sim"), "runs on backend sim are judged at their end only"),
        ((), ""),
    ],
)
def test_a_run_that_cannot_end_at_a_violation_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: Sequence[str], why: str
) -> None:
    argv = ["run", "--time", "300ms", "--lease", "300ms", "--until-violation", *words]
    with pytest.raises(SystemExit):
        main([*argv, "--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert (f"note: --until-violation has no effect: {why}" in said) == bool(why)


def test_only_what_is_promised_under_all_faults_of_the_plan_is_judged_early(tmp_path: Path) -> None:
    def judged(*kinds: str) -> list[str]:
        plan = Plan(system="redis", nodes=1, seed=1, nemeses=tuple((kind, {}) for kind in kinds))
        run = run_folder.create(
            prepare.prepared(plan), tmp_path / "-".join(("runs", *kinds)), "again"
        )
        return judged_early(run.read_manifest())

    assert judged() == judged("pause") == ["mutual-exclusion"]
    assert judged("clock", "pause") == []


@pytest.mark.slow
def test_a_run_ends_soon_after_its_violation_and_is_judged_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "--mutant", "early-expiry", "--nemesis", "pause:target=holder,for=2s,every=4s"]
    argv += ["--workload", "renewal", "--lease", "1s", "--time", "10m", "--until-violation"]
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--out", str(tmp_path)])
    said = capsys.readouterr().err
    told = re.search(
        r"violated at ([\d.]+) s, seen ([\d.]+) s later in \d+ operations: (\S+):", said
    )
    assert told is not None and said.count("; the workload ends") >= 1
    run = RunDir((tmp_path / "latest").resolve())
    marks = {row.mark: row.t_ns for row in journal.marks(run)}
    assert marks["stop"] - marks["start"] < 300 * SECOND
    assert ended.value.code == 1
    assert told[3] in {row.property for row in stored(run).verdicts if row.findings}
