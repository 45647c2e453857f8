"""What a gate writes for machines: JUnit, annotations, a step summary; escaped and in bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from holdfast.harness.campaigns.baseline import Baseline, of_results
from holdfast.harness.campaigns.gate import judge, rules
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.core.verdict import Verdict
from holdfast.reports.outputs.gate import SUMMARY_BYTES, github_lines, junit, step_summary, terminal
from tests.harness.test_gate import TODAY, run, runs
from tests.reports.test_matrix import run as named


def suite(path: Path, results: list[Result]) -> ET.Element:
    troubles = judge(results, Baseline(), rules([]), TODAY)
    found = ET.parse(junit(path / "gate.xml", troubles, results)).getroot().find("testsuite")
    assert found is not None
    return found


def test_a_violation_is_a_failure_and_silence_an_error(tmp_path: Path) -> None:
    other = run(7, "?", prop="token-order")
    found = suite(tmp_path, [*runs("+x"), other])
    # What was tested in no run is the error alone, and no passed case beside it.
    assert [found.get(name) for name in ("tests", "failures", "errors")] == ["2", "1", "1"]
    failure = found.find("testcase/failure")
    assert failure is not None and "again: holdfast run --seed 1" in (failure.text or "")
    assert suite(tmp_path, runs("++")).get("failures") == "0"


def test_annotations_are_escaped_and_no_more_than_are_shown() -> None:
    result = named("x", text="50% done,\nnext: %0A::error::")
    (line,) = github_lines(judge([result], Baseline(), rules([]), TODAY))
    assert line.startswith("::error title=holdfast%3A violation mutual-exclusion::redis / sim")
    assert "50%25 done" in line and "\n" not in line and "%250A" in line
    many = [named("x", system=f"s{n}") for n in range(30)]
    lines = github_lines(judge(many, Baseline(), rules([]), TODAY))
    assert len(lines) == 10 and "21 more problems" in lines[-1]


def test_a_step_summary_stays_in_its_bound_and_says_the_outcome_first() -> None:
    many = [named("x", system=f"s{n}", text="|" + "A" * 500) for n in range(2200)]
    text = step_summary(judge(many, Baseline(), rules([]), TODAY), many)
    assert len(text.encode()) <= SUMMARY_BYTES
    assert text.startswith("## Holdfast: gate FAILED: 2,200 problems in 2,200 runs")
    assert "\\|AAAA" in text
    good = runs("+++")
    assert "failure rate below 63%, 95% confidence" in step_summary([], good)


def test_the_terminal_tells_how_to_see_it_again() -> None:
    results = runs("+x")
    text = terminal(judge(results, Baseline(), rules([]), TODAY), results)
    assert "again: holdfast run --seed 1" in text
    assert text.splitlines()[-1] == "gate FAILED: 1 problem in 2 runs"


def test_violations_of_one_cause_are_one_line_and_one_annotation() -> None:
    cause = "c2 was stopped (pause) at 1.000 s; c2's release freed the hold of c5."
    broken = Outcome(verdict=Verdict.VIOLATED, promised=True, sentence="it was held twice")
    result = run(3, "x")
    for causes, lines in (((cause, cause), 1), ((cause, "n1 was killed."), 2), (("", ""), 2)):
        names = ("mutual-exclusion", "ownership")
        outcomes = {
            prop: replace(broken, cause=one) for prop, one in zip(names, causes, strict=True)
        }
        of_run = replace(result, properties=outcomes)
        troubles = judge([of_run], Baseline(), rules([]), TODAY)
        text = terminal(troubles, [of_run])
        assert len([line for line in text.splitlines() if line.startswith("violation: ")]) == lines
        annotations = github_lines(troubles)
        assert len(annotations) == lines
        assert all("again: holdfast run --seed 3" in line for line in annotations)
        assert (f"mutual-exclusion, ownership: violated in 1 of 1 runs, first with seed 3: {cause}"
                in text) == (lines == 1)  # fmt: skip


def test_a_cause_is_one_failed_case_and_what_one_command_exercises_one_error(
    tmp_path: Path,
) -> None:
    cause = "c2 was stopped (pause) at 1.000 s; c2's release freed the hold of c5."
    broken = Outcome(verdict=Verdict.VIOLATED, promised=True, sentence="held twice", cause=cause)
    silent = Outcome(verdict=Verdict.UNKNOWN, promised=True, reason="no acquire waited: 0 of 9")
    held = Outcome(verdict=Verdict.HOLDS, promised=True)
    properties = {
        "mutual-exclusion": broken,
        "ownership": broken,
        "token-order": silent,
        "no-stale-write": silent,
        "deadlock-freedom": held,
    }
    result = replace(
        run(3, "x"), properties=properties, remedy="holdfast run --time 60s", seconds=12.5
    )
    troubles = judge([result], Baseline(), rules([]), TODAY)
    path = junit(tmp_path / "gate.xml", troubles, [result], "nightly")
    found = ET.parse(path).getroot().find("testsuite")
    assert found is not None
    assert {found.get("time"), *(case.get("time") for case in found)} == {"12.500"}
    names = [(case.get("name") or "").rpartition(" / ")[2] for case in found]
    counts = [found.get(name) for name in ("tests", "failures", "errors")]
    assert names[:2] == ["deadlock-freedom", "mutual-exclusion, ownership"]
    # What was not exercised is no passed case.
    assert names[2:] == ["token-order, no-stale-write"]
    assert {case.get("classname") for case in found} == {"holdfast.nightly"}
    failure = found.find("testcase/failure")
    assert failure is not None and cause in failure.get("message", "")
    assert "again: holdfast run --seed 3" in (failure.text or "")
    assert counts == ["3", "1", "1"]
    assert terminal(troubles, [result]).count("holdfast run --time 60s") == 1


def test_a_gate_has_at_most_25_lines_and_says_what_is_left_out() -> None:
    """Many cells, each with two causes, a limit and properties that are no longer exercised."""
    promised = Outcome(verdict=Verdict.VIOLATED, promised=True, sentence="held twice")
    results = []
    for n in range(9):
        outcomes = {
            "mutual-exclusion": replace(promised, cause=f"n{n} was killed."),
            "token-order": replace(promised, cause=f"n{n} was killed."),
            "ownership": replace(promised, cause=f"c{n} was stopped."),
            "no-stale-write": replace(promised, promised=False, cause=f"c{n} wrote late."),
            "no-expired-write": replace(promised, promised=False, cause=f"c{n} wrote late."),
        }
        results.append(replace(run(n, "x"), system=f"lock{n}", properties=outcomes))
    troubles = judge(results, Baseline(), rules([]), TODAY)
    narrow = terminal(troubles, results, 80).splitlines()
    assert len(narrow) <= 25 and " more: " in "\n".join(narrow)
    assert all(len(line) <= 80 for line in narrow if not line.startswith("  again: "))
    lines = terminal(troubles, results).splitlines()
    assert len(lines) <= 25
    assert lines[-1] == "gate FAILED: 27 problems in 9 runs"
    violations = [line for line in lines if line.startswith("violation: ")]
    assert violations[0].startswith("violation: lock0 ")
    assert ": mutual-exclusion, token-order: " in violations[0]
    limits = [line for line in lines if line.startswith("LIMIT: ")]
    more = next(line for line in lines if " more: " in line)
    assert len(violations) + len(limits) + int(more.split()[0]) == 27
    assert "LIMIT" in more and more.endswith("--json and --junit have all")


@pytest.mark.parametrize("columns", [0, 80, 100])
def test_a_gate_that_passed_has_ten_lines_and_names_each_limit(columns: int) -> None:
    """Limits with long causes: their causes go first."""
    cause = "; ".join(f"c{n} was stopped (pause) at {n}.000 s" for n in range(12))
    held = Outcome(verdict=Verdict.HOLDS, promised=True)
    limit = Outcome(verdict=Verdict.VIOLATED, promised=False, sentence="late", cause=cause)
    outcomes = {"token-order": held, "no-stale-write": limit}
    results = [replace(run(n, "+"), system=f"lock{n}", properties=outcomes) for n in range(3)]
    troubles = judge(results, Baseline(), rules([]), TODAY)
    lines = terminal(troubles, results, columns).splitlines()
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= 10 and "gate passed: 0 of 3 runs" in text, text
    assert text.count("no-stale-write: violated, never promised") == 3
    assert (cause in text) == (columns == 0)


def test_of_what_was_not_exercised_each_cause_keeps_its_first_reason() -> None:
    reasons = "; ".join(f"no grant near fault {n}: 0 of 0 in the run" for n in range(8))
    properties = {
        name: Outcome(verdict=Verdict.UNKNOWN, promised=True, reason=f"{name} idle: 0; {reasons}")
        for name in ("token-order", "ownership", "loss-notice", "no-stale-write", "no-hung-request")
    }
    result = replace(run(3, "?"), properties=properties, remedy="holdfast run --time 60s")
    troubles = judge([result], Baseline(), rules([]), TODAY)
    lines = terminal(troubles, [result], 80).splitlines()
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= 16 and " more: " not in text
    assert all(f"{name} idle: 0; more in --json" in text for name in properties)
    assert "tested in the only run: " in text


def test_what_is_said_of_several_properties_of_a_cell_is_said_once() -> None:
    kept = Outcome(verdict=Verdict.HOLDS, promised=True)
    names = ("mutual-exclusion", "token-order", "ownership")
    good = [replace(run(n, "x"), properties=dict.fromkeys(names, kept)) for n in range(5)]
    baseline = of_results(good, [])
    other = [replace(one, workload="another") for one in good]
    text = terminal(judge(other, baseline, rules([]), TODAY), other)
    (line,) = (one for one in text.splitlines() if one.startswith("no longer exercised: "))
    assert all(name in line for name in names)
