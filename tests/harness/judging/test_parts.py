"""A run judged in parts: the verdicts, counts and findings are those of the whole history."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.commands import main
from holdfast.engine.checkers import with_named
from holdfast.engine.judging import judge_run
from holdfast.engine.reporting import report_run
from holdfast.harness.client.context import GUARD_NS
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import NO_TOKEN, ROW_BYTES, Op, Status
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.history import reader
from holdfast.harness.history.parts import Parts
from holdfast.harness.history.reader import ROW_DTYPE
from holdfast.harness.judging import parts as judging_parts
from holdfast.harness.judging import settled_findings
from holdfast.harness.judging.judge import OWNERS_ADMITTED
from holdfast.harness.judging.parts import WHOLE, judge_in_parts
from holdfast.harness.recording.segments import HEADER_BYTES
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Judgement
from holdfast.reports.text.progress import Progress

RUNS: dict[str, tuple[str, ...]] = {
    "calm": (),
    "faults": ("--nemesis", "kill,partition", "--locks", "2"),
    "owners that outlive their lease": (
        "--nemesis",
        "pause:target=holder",
        "--workload",
        "renewal",
    ),
    "tokens out of order": ("--system", "majority", "--nemesis", "kill", "--locks", "2"),
    "tokens that begin again": ("--system", "single", "--nemesis", "kill"),
    "stale writes": ("--system", "redlock", "--nemesis", "clock:step=60s,pause"),
    "queries": ("--workload", "queries", "--mutant", "stale-metadata"),
    "two owners": (
        "--nemesis",
        "pause:target=holder,partition",
        "--mutant",
        "early-expiry",
        "--set",
        "lazy_pct=0",
    ),
    "a wrong assumption": ("--system", "majority", "--mutant", "wide-quorum"),
}
QUICK = ("faults", "two owners")
MARGIN_NS, LONGEST_NS = 3 * SECOND, 6 * SECOND
"""Short, so that a run of 15 s has to drop rows."""
MOST_ROWS = 250


@dataclass(frozen=True, slots=True)
class Both:
    """A run judged at once and in parts."""

    whole: Judged
    parts: Judged

    def rows(self) -> list[tuple[Judgement, Judgement]]:
        """Per property that parts can judge: not one that the run did not ask for, which a refusal
        of an owner adds to the whole."""
        parts = {one.property: one for one in self.parts.verdicts}
        added = {one.property for one in self.whole.verdicts} - set(parts)
        assert added <= {OWNERS_ADMITTED}
        pairs = [(one, parts[one.property]) for one in self.whole.verdicts if one.property in parts]
        return [(a, b) for a, b in pairs if a.property not in WHOLE]


def simulated(folder: Path, *words: str, time: str = "15s", seed: int = 3) -> RunDir:
    argv = ["run", "--backend", "sim", "--lease", "500ms", "--clients", "4", "--time", time]
    with pytest.raises(SystemExit):
        main([*argv, *words, "--seed", str(seed), "--out", str(folder)])
    return RunDir((folder / "latest").resolve())


def judged_in_parts(run: RunDir, most_rows: int = MOST_ROWS) -> Judged:
    manifest, checkers = with_named(run.read_manifest(), (), run.own)
    across = load(catalogue.ACROSS_PARTS)
    return judge_in_parts(run, manifest, checkers, across, most_rows, LONGEST_NS, MARGIN_NS)


def both(run: RunDir) -> Both:
    return Both(judge_run(run), judged_in_parts(run))


def shown(row: Judgement) -> set[tuple[str, str, int, tuple[int, ...]]]:
    """The findings of a property: kind, lock, time, and numbers of the witnesses."""
    return {
        (one.kind, one.lock, one.t_ns, tuple(event.row for event in one.witnesses))
        for one in row.findings
    }


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS if name not in QUICK)],
)
def test_the_parts_say_what_the_whole_says(name: str, tmp_path: Path) -> None:
    told = both(simulated(tmp_path, *RUNS[name]))
    assert told.parts.in_parts is not None and told.parts.in_parts.parts > 5
    assert told.parts.in_parts.kept < told.parts.in_parts.rows
    assert told.parts.evidence.acquire == told.whole.evidence.acquire
    for whole, parts in told.rows():
        assert (parts.property, parts.verdict) == (whole.property, whole.verdict), parts.reason
        assert parts.exercised == whole.exercised, whole.property
        assert {k: u.verdict for k, u in parts.under.items()} == {
            k: u.verdict for k, u in whole.under.items()
        }
        if parts.property != "token-order":
            assert shown(parts) == shown(whole)
    assert (told.parts.verdict, told.parts.exit_code) == (told.whole.verdict, told.whole.exit_code)


@pytest.mark.slow
def test_a_fault_without_a_grant_is_none_with_a_grant_in_another_part(tmp_path: Path) -> None:
    """One window in which a grant could be expected, and none was, is not excused by a window of
    another part in which none could be expected."""
    faults = ("--nemesis", "kill:target=holder,for=1500ms", "--mutant", "late-word")
    work = ("--workload", "slow-dependency", "--locks", "2", "--lease", "1s", "--clients", "3")
    run = simulated(tmp_path, *faults, *work, time="30s", seed=246692)
    for rows in (40, 120):
        told = Both(judge_run(run), judged_in_parts(run, rows))
        for whole, parts in told.rows():
            assert (parts.property, parts.verdict) == (whole.property, whole.verdict)
        reasons = {parts.property: parts.reason for _, parts in told.rows()}
        assert "no grant during a kill" in reasons["mutual-exclusion"]


def test_a_planned_rate_is_one_of_the_whole_run(tmp_path: Path) -> None:
    for rate, slow in (("5", False), ("4000", True)):
        told = both(simulated(tmp_path / rate, "--workload", "paced", "--rate", rate))
        for whole, parts in told.rows():
            assert (parts.property, parts.verdict) == (whole.property, whole.verdict)
        assert ("of the planned rate" in told.parts.verdicts[0].reason) == slow


def test_of_a_lock_that_does_not_work_some_findings_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated(tmp_path, *RUNS["two owners"], time="10s")
    monkeypatch.setattr(settled_findings, "MOST_FINDINGS", 3)
    words = {row.property: row for row in judged_in_parts(run).verdicts}
    assert words["mutual-exclusion"].reason == "3 findings, and more that are not kept"
    assert words["mutual-exclusion"].verdict is Verdict.VIOLATED


def test_notes_take_no_place_of_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulated(tmp_path, *RUNS["stale writes"])
    monkeypatch.setattr(settled_findings, "MOST_FINDINGS", 1)
    found = {row.property: row for row in judged_in_parts(run).verdicts}
    assert found["mutual-exclusion"].notes
    for whole in judge_run(run).verdicts:
        assert whole.property in WHOLE or found[whole.property].verdict is whole.verdict


def test_what_is_contradicted_in_every_pass_leaves_nothing_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated(tmp_path, "--nemesis", "kill", time="8s")
    assert Verdict.HOLDS in {row.verdict for row in judged_in_parts(run).verdicts}
    monkeypatch.setattr(judging_parts._Judge, "relied_too_much", lambda judge: True)
    judged = judged_in_parts(run)
    assert Verdict.HOLDS not in {row.verdict for row in judged.verdicts}


def test_a_checker_that_crashes_in_one_part_leaves_its_property_unknown(tmp_path: Path) -> None:
    """Also after it had come to a verdict there, which `conclude` keeps with its coverage."""
    run = simulated(tmp_path, time="8s")
    manifest, checkers = with_named(run.read_manifest(), (), run.own)

    def crashes(case: Case) -> PropertyVerdict:
        verdict = checkers["mutual-exclusion"](case)
        if case.since_ns > 3 * SECOND:
            raise RuntimeError("too late")
        return verdict

    for check, verdict in (checkers["mutual-exclusion"], Verdict.HOLDS), (crashes, Verdict.UNKNOWN):
        found = {**checkers, "mutual-exclusion": check}
        judged = judge_in_parts(
            run, manifest, found, load(catalogue.ACROSS_PARTS), MOST_ROWS, LONGEST_NS, SECOND
        )
        (row,) = (one for one in judged.verdicts if one.property == "mutual-exclusion")
        assert row.verdict is verdict, row.reason
    assert "the checker crashed: RuntimeError: too late" in row.reason


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (("--workload", "queries", "--mutant", "silent-renewal"), "truthful-queries"),
        (RUNS["stale writes"], "no-expired-write"),
    ],
)
def test_what_a_lost_row_could_explain_is_unknown_in_parts_too(
    words: tuple[str, ...], unknown: str, tmp_path: Path
) -> None:
    """By its rule, or by its kind; other findings count."""
    run = simulated(tmp_path, *words, time="10s")
    text = run.times.read_text()
    run.times.write_text(text.replace('"problems": []', '"problems": ["c1 lost rows"]'))
    told = both(run)
    for whole, parts in told.rows():
        assert (parts.property, parts.verdict) == (whole.property, whole.verdict), parts.reason
        assert len(parts.findings) == len(whole.findings)
        assert {k: u.verdict for k, u in parts.under.items()} == {
            k: u.verdict for k, u in whole.under.items()
        }
    (reason,) = (row.reason for row in told.parts.verdicts if row.property == unknown)
    assert "that a lost row could explain, and the history may be incomplete: c1" in reason


def test_one_part_is_the_whole(tmp_path: Path) -> None:
    run = simulated(tmp_path, *RUNS["two owners"], time="5s")
    whole, once = judge_run(run), judged_in_parts(run, 1 << 30)
    assert once.in_parts is not None and once.in_parts.parts == 1
    for a, b in zip(whole.verdicts, once.verdicts, strict=True):
        if a.property not in WHOLE:
            assert (a.verdict, a.exercised, shown(a)) == (b.verdict, b.exercised, shown(b))


def test_properties_that_compare_rows_at_any_distance_are_unknown(tmp_path: Path) -> None:
    run = simulated(tmp_path, "--workload", "lost-update", time="5s")
    words = {row.property: row for row in judged_in_parts(run).verdicts}
    assert words["no-lost-update"].verdict is Verdict.UNKNOWN
    assert "may compare rows of the whole run" in words["no-lost-update"].reason


def test_an_attempt_that_goes_on_after_it_was_dropped_leaves_nothing_sure(tmp_path: Path) -> None:
    run = simulated(tmp_path)
    assert Verdict.HOLDS in {row.verdict for row in judged_in_parts(run).verdicts}
    path = next(run.history.glob("c1.seg"))
    data = bytearray(path.read_bytes())
    rows = np.frombuffer(data, ROW_DTYPE, offset=HEADER_BYTES)
    releases = np.flatnonzero((rows["f"] == Op.RELEASE) & (rows["status"] == Status.OK))
    # Its last release is said to be of its first attempt, which ended long before.
    rows["attempt"][releases[-1]] = rows["attempt"][releases[0]]
    path.write_bytes(data)
    judged = judged_in_parts(run)
    assert Verdict.HOLDS not in {row.verdict for row in judged.verdicts}
    reasons = [row.reason for row in judged.verdicts if row.verdict is Verdict.UNKNOWN]
    assert any("1 attempt went on after it had been over" in reason for reason in reasons)


def test_a_dropped_attempt_of_unknown_outcome_may_explain_findings_of_its_own_lock_only(
    tmp_path: Path,
) -> None:
    run = simulated(tmp_path, "--locks", "2", time="40s")
    manifest, checkers = with_named(run.read_manifest(), (), run.own)
    across, path = load(catalogue.ACROSS_PARTS), next(run.history.glob("c1.seg"))
    recorded = path.read_bytes()
    for same, verdict in (True, Verdict.UNKNOWN), (False, Verdict.VIOLATED):
        data = bytearray(recorded)
        rows = np.frombuffer(data, ROW_DTYPE, offset=HEADER_BYTES)
        granted = (rows["f"] == Op.ACQUIRE) & (rows["status"] == Status.OK)
        first = np.flatnonzero(granted)[0]
        rows["status"][first], rows["token"][first] = Status.INFO, NO_TOKEN
        late = (rows["f"] == Op.RELEASE) & (rows["t_inv"] > rows["t_inv"][0] + 20 * SECOND)
        hung = np.flatnonzero(late & ((rows["key"] == rows["key"][first]) == same))[0]
        rows["t_ret"][hung] = rows["t_inv"][hung] + GUARD_NS
        path.write_bytes(data)
        judged = judge_in_parts(
            run, manifest, checkers, across, MOST_ROWS, longest_ns=14 * SECOND, margin_ns=SECOND
        )
        assert judged.in_parts is not None and judged.in_parts.unsure
        (row,) = (one for one in judged.verdicts if one.property == "no-hung-request")
        assert row.verdict is verdict, (same, row.reason)
        assert ("1 finding may rest on rows that no part has" in row.reason) == same
        assert len(row.findings) == (not same)


def test_a_part_begins_with_what_goes_on(tmp_path: Path) -> None:
    """Each row is new in one part, and what a part takes over is what the one before it kept."""
    run = simulated(tmp_path, "--nemesis", "kill")
    whole = reader.load(run.history).history.rows
    pieces = Parts(
        directory=run.history, most_rows=MOST_ROWS, faults=[], margin_ns=SECOND, expires=True
    )
    new, carried = list[int](), set[int]()
    for part in pieces:
        numbers = part.numbers.tolist()
        assert set(numbers) & set(new) == carried
        new += [number for number in numbers if number not in carried]
        carried = set(part.numbers[part.carried].tolist())
        assert (part.rows["t_inv"] < part.until_ns).all()
        assert (part.rows["t_ret"] < part.until_ns).all()
        assert (part.rows["t_inv"] == whole["t_inv"][part.numbers]).all()
    # A notice is new in the part in which it was received, which is later than its row's place.
    assert sorted(new) == list(range(len(whole)))


def test_rows_that_are_not_in_order_of_time_are_refused(tmp_path: Path) -> None:
    run = simulated(tmp_path)
    path = next(run.history.glob("c1.seg"))
    data = bytearray(path.read_bytes())
    rows = np.frombuffer(data, ROW_DTYPE, offset=HEADER_BYTES)
    rows[-1]["t_inv"] = rows[0]["t_inv"]
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not in order of time"):
        judged_in_parts(run, 100)


def test_an_attempt_that_no_client_can_have_counted_to_is_refused(tmp_path: Path) -> None:
    run = simulated(tmp_path, time="5s")
    path = next(run.history.glob("c1.seg"))
    data = bytearray(path.read_bytes())
    # It would take four gigabytes to remember which attempts up to that one were dropped.
    np.frombuffer(data, ROW_DTYPE, offset=HEADER_BYTES)["attempt"][-1] |= (1 << 32) - 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no client can have counted to; it is damaged"):
        judged_in_parts(run, 100)


def test_a_segment_that_lacks_rows_is_refused(tmp_path: Path) -> None:
    run = simulated(tmp_path, time="5s")
    path = next(run.history.glob("c1.seg"))
    path.write_bytes(path.read_bytes()[: -3 * ROW_BYTES])
    with pytest.raises(UsageError, match=r"rows that its writer recorded; copy the run"):
        judged_in_parts(run)


def test_check_judges_in_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulated(tmp_path, time="5s")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["check", str(run.path), "--in-parts", "100", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["in_parts"]["parts"] > 3 and told["exit_code"] == ended.value.code
    assert told["verified"]["why"] == "the run was judged in parts"
    with pytest.raises(SystemExit):
        main(["check", str(run.path), "--in-parts", "100"])
    page = (run.path / "report.html").read_text()
    assert "durations, rates and logs were not measured" in page
    assert "rows were judged in" in " ".join(capsys.readouterr().out.split())


def test_what_was_judged_so_far_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated(tmp_path, *RUNS["two owners"], time="5s")
    monkeypatch.setattr(Progress, "EVERY_S", 0)
    judge_run(run, in_parts=200)
    lines = [line for line in capsys.readouterr().err.splitlines() if "judged" in line]
    far = [int(line.split()[2].replace(",", "")) for line in lines]
    assert len(far) > 1 and far == sorted(far)
    assert "rows, to" in lines[0] and all(re.search(r"\d violated", line) for line in lines)


def test_what_does_not_fit_in_memory_is_judged_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated(tmp_path, time="5s")
    monkeypatch.setattr(os, "sysconf", lambda name: 1)
    judged = judge_run(run)
    assert judged.in_parts is not None and judged.in_parts.rows > 500
    page = Path(report_run(run, judged)).read_text()
    assert "durations, rates and logs were not measured" in page
    assert "more than a quarter" in page
    with pytest.raises(UsageError, match="holdfast check judges it in parts"):
        reader.load(run.history)
