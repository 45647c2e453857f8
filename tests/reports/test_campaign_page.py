"""The index page of a campaign: states, bounds and links, and nothing in it that runs."""

from __future__ import annotations

from dataclasses import replace

from holdfast.campaigns.progress import counts
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.campaigns.summary import Summary, first_failure, summary, tally
from holdfast.harness.core.verdict import Verdict
from holdfast.reports.many import worst_first
from holdfast.reports.many.campaign import answer, bound, headline, page
from tests.reports.specimens import HOSTILE
from tests.reports.test_matrix import run


def told(*results: Result, not_run: tuple[str, ...] = ()) -> Summary:
    return summary("night", 9, results, not_run)


def test_the_state_of_a_campaign_is_that_of_its_worst_cell() -> None:
    broken = run("x", exit_code=1)
    assert headline(told(run("+"), run("?"))) == "HOLDS"
    assert headline(told(run("?"))) == "UNKNOWN"
    assert headline(told(run("+"), not_run=("redis",))) == "UNKNOWN"
    assert headline(told(run("+"), run("?", exit_code=4))) == "ENVIRONMENT"
    assert headline(told(broken, run("?", exit_code=4), run("+"))) == "VIOLATED"
    assert headline(told()) == "UNKNOWN"


def test_it_says_how_far_it_reaches_and_what_was_left_out() -> None:
    says = bound(told(run("+"), run("+"), not_run=("redis / docker",)))
    assert "0 of 2 runs broke a promise (rate below 78%, 95% confidence)" in says
    assert "7 of 9 runs were not started" in says and "redis / docker" in says


def test_runs_that_could_not_be_carried_out_kept_no_promise() -> None:
    lost = run("?", exit_code=4, problems=("no engine",))
    says = bound(told(lost, lost))
    assert says == ("None of 2 runs could be executed, so no promise was tested: no engine.")
    assert "0 broke" not in counts([lost, lost], 9)
    assert counts([lost, run("x", exit_code=1)], 9) == (
        "2 of 9 runs, 1 broke a promise, 1 could not be executed"
    )
    says = bound(told(lost, run("+"), run("+")))
    assert "0 of 2 runs broke a promise (rate below 78%, 95% confidence)" in says
    assert "1 of 3 runs could not be executed" in says


def test_a_limit_is_not_a_broken_promise() -> None:
    (cell,) = tally([run("x", promised=False)])
    assert (cell.word(), cell.exit_code(), dict(cell.broken)) == ("LIMIT", 0, {})
    assert first_failure([run("x", promised=False)]) is None


def test_the_first_failure_is_the_first_in_order() -> None:
    found = first_failure([run("+"), run("x", text="b"), run("x", text="c")])
    assert found is not None and found["commands"] == ["holdfast run b"]


def test_nothing_hostile_runs_on_the_page() -> None:
    bad = run("x", HOSTILE, system=HOSTILE, text=HOSTILE, problems=(HOSTILE,), exit_code=1)
    text = page(told(bad, not_run=(HOSTILE,)))
    assert "<script" not in text and "<img" not in text and "\x1b" not in text
    assert text.count("<h1") == 1 and "VIOLATED" in text
    maps = text[text.index('id="map-title"') : text.index('id="worst-title"')]
    assert 'class="cell broken"' in maps and "javascript:" not in maps


def test_broken_cells_come_first_and_the_trend_names_flaky_ones() -> None:
    text = page(
        told(
            run("+", system="etcd"),
            run("x", system="redis", exit_code=1, path="runs/a"),
            run("+", system="redis"),
        )
    )
    cells = text[text.index('id="cells-title"') :]
    rows = cells[cells.index("<tbody>") : cells.index("</tbody>")]
    assert rows.index("redis / sim") < rows.index("etcd / sim")
    trend = text[text.index('id="trend-title"') : text.index('id="runs-title"')]
    assert "flaky: seed 1 broke a promise in one run and kept it in another" in trend
    assert '<a href="runs/a/report.html">seed 1</a>' in trend
    assert "2 runs, the newest on the right: 1 broke a promise and 1 held" in trend
    assert '#system-2:checked) tr[data-system]:not([data-system="2"])' in text


def test_the_answer_names_the_locks_that_broke_a_promise_or_what_is_open() -> None:
    def answered(*results: Result) -> str:
        return answer(told(*results), worst_first.failures(results))

    broken, kept = run("x", exit_code=1), run("+", system="etcd")
    assert answered(broken, kept) == "1 of 2 locks broke a promise: redis."
    many = [run("x", system=f"lock{n}", exit_code=1) for n in range(5)]
    assert answered(*many).endswith("lock0, lock1 and lock2 and 2 more.")
    assert answered(kept, run("+")) == "No lock broke a promise in 2 runs."
    assert answered(run("?"), run("x", promised=False)).startswith("No lock broke a promise")
    assert answered(run("?", exit_code=3)) == "No answer yet: 1 question not tested."
    assert answered(run("?", exit_code=4)).startswith("No answer: not all runs")


def test_a_failure_is_listed_once_with_its_runs_and_what_else_its_cause_violates() -> None:
    def both(cause: str, *, seed: int, nemesis: str = "pause") -> Result:
        stale = Outcome(verdict=Verdict.VIOLATED, promised=False, kind="stale", cause=cause)
        mutex = Outcome(verdict=Verdict.VIOLATED, promised=True, kind="double", cause=cause)
        properties = {"no-stale-write": stale, "mutual-exclusion": mutex}
        return replace(run("x", exit_code=1), properties=properties, seed=seed, nemesis=nemesis)

    runs = [both("a", seed=1), both("b", seed=2, nemesis="kill"), replace(run("+"), nemesis="kill")]
    (one,) = worst_first.failures([*runs, replace(run("+"), nemesis="clock")])
    assert (one.word, one.title, len(one.runs), one.of) == (
        "VIOLATED", "mutual-exclusion: double", 2, 3,
    )  # fmt: skip
    assert (list(one.also), list(one.faults), one.sentence) == (
        ["no-stale-write"], ["pause", "kill"], "a",
    )  # fmt: skip
    assert one.extent == "2 of 3 runs under pause, kill."
    stale = replace(runs[0].properties["no-stale-write"], cause="c")
    apart = replace(runs[0], properties={**runs[0].properties, "no-stale-write": stale})
    assert [one.word for one in worst_first.failures([apart])] == ["VIOLATED", "LIMIT"]
