"""The summary of a campaign: counts per cell, its state in one word, the exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.campaigns.summary import first_failure, summary, tally
from holdfast.harness.core.verdict import Verdict

WORDS = {"+": Verdict.HOLDS, "x": Verdict.VIOLATED, "?": Verdict.UNKNOWN}


def outcome(verdict: str, *, promised: bool = True, under: str = "", lacks: str = "") -> Outcome:
    """under, lacks: kinds of fault by their first letters, as in "p+k?"; those not exercised."""
    pairs = zip(under[::2], under[1::2], strict=True)
    return Outcome(
        verdict=WORDS[verdict],
        promised=promised,
        reason="told",
        under={kind: WORDS[sign] for kind, sign in pairs},
        lacks=dict.fromkeys(lacks, "took no effect"),
    )


def run(seed: int, exit_code: int = 0, cell: str = "pause", **properties: Outcome) -> Result:
    return Result(
        key=f"run-{seed}",
        system="mine",
        backend="local",
        workload="critical-section",
        nemesis=cell,
        seed=seed,
        verdict="HOLDS",
        exit_code=exit_code,
        command=f"holdfast run --seed {seed}",
        properties=properties,
    )


@pytest.mark.parametrize(
    ("results", "code", "word"),
    [
        ([run(1, mutex=outcome("+"))], 0, "HOLDS"),
        ([run(1, mutex=outcome("+")), run(2, mutex=outcome("?"))], 0, "HOLDS"),
        ([run(1, mutex=outcome("?"))], 3, "UNKNOWN"),
        ([run(1, mutex=outcome("?", promised=False))], 0, "HOLDS"),
        ([run(1, mutex=outcome("x", promised=False))], 0, "LIMIT"),
        ([run(1, mutex=outcome("x")), run(2, mutex=outcome("?"))], 1, "VIOLATED"),
        ([run(1, exit_code=4), run(2, mutex=outcome("x"))], 1, "VIOLATED"),
        ([run(1, exit_code=4), run(2, mutex=outcome("+"))], 4, "ENVIRONMENT"),
        ([run(1, exit_code=4), run(2, mutex=outcome("?"))], 4, "ENVIRONMENT"),
        ([replace(run(1, mutex=outcome("+")), problems=("c1 exited",))], 3, "UNKNOWN"),
        ([replace(run(1, exit_code=4), problems=("no engine",))], 4, "ENVIRONMENT"),
    ],
)
def test_a_broken_promise_outranks_a_failed_run_and_that_an_open_question(
    results: list[Result], code: int, word: str
) -> None:
    (cell,) = tally(results)
    assert (cell.exit_code(), cell.word(), cell.runs) == (code, word, len(results))


def test_a_kind_of_fault_is_open_until_one_run_exercised_the_promise_under_it() -> None:
    lacking = run(1, mutex=outcome("+", under="p+k?", lacks="k"), order=outcome("?"))
    (cell,) = tally([lacking])
    assert cell.unexercised() == ["mutex under k", "order"] and cell.exit_code() == 3
    (cell,) = tally([lacking, run(2, mutex=outcome("+", under="k+"), order=outcome("+"))])
    assert cell.unexercised() == [] and cell.exit_code() == 0
    (cell,) = tally([run(2, mutex=outcome("+", under="k+"), order=outcome("+")), lacking])
    assert cell.unexercised() == []
    (cell,) = tally([run(1, mutex=outcome("+", promised=False, lacks="k"))])
    assert cell.unexercised() == []


def test_cells_are_counted_apart_in_the_order_of_their_first_runs() -> None:
    results = [
        run(1, cell="kill", mutex=outcome("+")),
        run(2, mutex=outcome("x"), order=outcome("x", promised=False)),
        run(3, cell="kill", mutex=outcome("?")),
    ]
    killed, paused = tally(results)
    assert (killed.says, killed.runs, dict(killed.verdicts["mutex"])) == (
        "mine / local / critical-section / kill",
        2,
        {"HOLDS": 1, "UNKNOWN": 1},
    )
    assert dict(paused.broken) == {"mutex": 1} and dict(paused.limits) == {"order": 1}


def test_the_first_failure_is_the_first_run_that_broke_a_promise() -> None:
    kept = run(1, mutex=outcome("x", promised=False))
    broken = run(2, order=outcome("+"), mutex=replace(outcome("x"), kind="double-grant"))
    assert first_failure([kept]) is None
    found = first_failure([kept, broken, run(3, mutex=outcome("x"))])
    assert found is not None
    assert (found["key"], found["seed"], found["property"]) == ("run-2", 2, "mutex")
    assert found["kind"] == "double-grant" and found["commands"] == ["holdfast run --seed 2"]


@pytest.mark.parametrize(
    ("verdicts", "not_run", "code"),
    [("+", (), 0), ("+", ("mine / sim",), 3), ("x", ("mine / sim",), 1), ("?", (), 3)],
)
def test_a_campaign_is_as_bad_as_its_worst_cell(
    verdicts: str, not_run: tuple[str, ...], code: int
) -> None:
    results = [run(n, mutex=outcome(sign)) for n, sign in enumerate(verdicts)]
    made = summary("night", 9, results, not_run)
    assert (made["exit_code"], made["runs"], made["of"]) == (code, len(results), 9)
    assert [row["key"] for row in made["results"]] == [one.key for one in results]
    assert made["not_run"] == list(not_run) and made["cells"][0]["runs"] == len(results)
