"""The outcome of a run in one word, and what a judged run says of itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.verdicts.judged import Departure, Judged, Judgement, Outcome, UnderKind, read

HOLDS, VIOLATED, UNKNOWN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN
BEST_FIRST = (Outcome.HOLDS, Outcome.LIMIT, Outcome.UNKNOWN, Outcome.BROKEN, Outcome.FAILED)


def row(verdict: Verdict, promised: bool, **under: UnderKind) -> Judgement:
    return Judgement(
        property="ownership", verdict=verdict, promised=promised, severity=Severity.LOW, under=under
    )


def judged(*verdicts: Judgement, exit_code: int = 0) -> Judged:
    return Judged(
        run="run-1", system="redis", backend="local", workload="try-lock", seed=1, verdict=HOLDS,
        exit_code=exit_code, command="", start_ns=1000, stop_ns=2000, end_ns=3000,
        verdicts=verdicts,
    )  # fmt: skip


def outcome(exit_code: int, *rows: tuple[Verdict, bool]) -> Outcome:
    return judged(*(row(*one) for one in rows), exit_code=exit_code).outcome()


ROWS = tuple(itertools.product((HOLDS, VIOLATED, UNKNOWN), (True, False)))


@pytest.mark.parametrize("exit_code", [0, 1, 2, 3, 4])
def test_no_verdict_more_makes_the_outcome_of_a_broken_run_better(exit_code: int) -> None:
    """Of all runs with up to three properties."""
    for count in range(4):
        for rows in itertools.product(ROWS, repeat=count):
            found = outcome(exit_code, *rows)
            if exit_code == 4:
                assert found is Outcome.FAILED
            elif exit_code == 1 or (VIOLATED, True) in rows:
                assert found is Outcome.BROKEN, rows
            elif exit_code or (UNKNOWN, True) in rows or not rows:
                assert found is Outcome.UNKNOWN, rows
            elif (VIOLATED, False) in rows:
                assert found is Outcome.LIMIT, rows
            elif (HOLDS, True) in rows:
                assert found is Outcome.HOLDS, rows
            else:
                unknown = (UNKNOWN, False) in rows
                assert found is (Outcome.UNKNOWN if unknown else Outcome.HOLDS), rows


@pytest.mark.parametrize("rows", [*itertools.product(ROWS, repeat=2)])
def test_the_outcome_is_that_of_its_properties_in_any_order_and_never_better_than_its_exit_code(
    rows: tuple[tuple[Verdict, bool], tuple[Verdict, bool]],
) -> None:
    assert outcome(0, *rows) is outcome(0, *reversed(rows))
    ranks = [BEST_FIRST.index(outcome(code, *rows)) for code in (0, 3, 1, 4)]
    assert ranks == sorted(ranks)


def under(verdict: Verdict, asked: bool, promised: bool) -> UnderKind:
    return UnderKind(verdict=verdict, asked=asked, promised=promised, reason=f"{asked}{promised}")


def test_a_kind_of_fault_is_lacking_if_it_was_planned_and_nothing_is_known_under_it() -> None:
    kinds = {
        f"{verdict}-{asked}-{promised}": under(verdict, asked, promised)
        for verdict in Verdict for asked in (True, False) for promised in (True, False)
    }  # fmt: skip
    found = row(HOLDS, True, **kinds)
    both = {f"{UNKNOWN}-True-True": "TrueTrue", f"{UNKNOWN}-True-False": "TrueFalse"}
    assert found.lacks() == both
    assert found.not_exercised() == {f"{UNKNOWN}-True-True": "TrueTrue"}


def test_times_and_clients_are_those_of_the_run() -> None:
    run = replace(judged(), nodes={"1": "c1", "2": "c1", "9": "probe"})
    assert [run.at(t_ns) for t_ns in (1000, 2500, 999.5)] == [0, 1500, -0.5]
    assert [run.client(process) for process in (1, 2, 9, 3)] == ["c1", "c1", "probe", "process 3"]
    assert run.clients() == 2 and judged().clients() == 0
    assert run.report_path() == ".holdfast/runs/run-1/report.html"
    assert replace(run, report="/tmp/r.html").report_path() == "/tmp/r.html"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "x"}, "verdicts.json: Expected `int`, got `str` - at `$.seed`"),
        ({"verdicts": 3}, "verdicts.json: Expected `array`, got `int` - at `$.verdicts`"),
        ({"run": None}, "verdicts.json: Expected `str`, got `null` - at `$.run`"),
        ({"evidence": {"timeouts": "many"}}, "at `$.evidence.timeouts`"),
        ({"faults": [{"id": "f1", "do": "kill", "from_ns": 1, "to_ns": 2, "bit": 7}]},
         "at `$.faults[0].effective`"),
    ],
)  # fmt: skip
def test_an_invalid_verdicts_file_is_told_with_its_key_and_the_next_step(
    change: dict[str, object], said: str
) -> None:
    table = plain(judged(row(HOLDS, True)))
    assert read(table).verdicts == (row(HOLDS, True),)
    with pytest.raises(UsageError) as told:
        read({**table, **change})  # type: ignore[dict-item]
    (problem,) = told.value.problems
    assert problem.startswith("verdicts.json: ") and said in problem
    assert problem.endswith("; judge the run again (holdfast check RUN)")


def test_a_departure_names_the_step_and_the_rule_it_breaks() -> None:
    found = Departure(
        node="n2", t_ns=1_234_567_890, rule="one vote per term", before="term 3, voted for n1",
        allows="a vote for n1", happened="it voted for n3",
    )  # fmt: skip
    assert found.sentence == "n2 at 1.234568 s: one vote per term: it voted for n3"
