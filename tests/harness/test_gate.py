"""The gate: what fails it, what leaves it inconclusive, and that neither can be waved through."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from holdfast.harness.campaigns import baseline as baselines
from holdfast.harness.campaigns.baseline import Baseline, KnownIssue
from holdfast.harness.campaigns.gate import Rules, Trouble, exit_code, judge, rules
from holdfast.harness.campaigns.results import Outcome, Result, read, table
from holdfast.harness.campaigns.summary import tally
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Verdict

TODAY = date(2027, 1, 31)
NOTHING = Rules(slower={})
MUTEX = "mutual-exclusion"
SLOWER = Rules(slower={"p99": 25.0})
WORDS = {"+": Verdict.HOLDS, "x": Verdict.VIOLATED, "?": Verdict.UNKNOWN}


def run(
    seed: int,
    verdict: str,
    *,
    promised: bool = True,
    p99_ms: float | None = None,
    grants: float | None = None,
    problems: tuple[str, ...] = (),
    exit_code: int = 0,
    prop: str = MUTEX,
) -> Result:
    """One run: "+" held, "x" violated, "?" not exercised."""
    measures = {"p99": p99_ms and p99_ms * 1e6, "grants": grants}
    return Result(
        key=f"run-{seed}",
        system="mine",
        backend="local",
        workload="critical-section",
        nemesis="pause",
        seed=seed,
        verdict=str(WORDS[verdict]),
        exit_code=exit_code,
        command=f"holdfast run --seed {seed}",
        properties={
            prop: Outcome(
                verdict=WORDS[verdict], promised=promised, reason="told", sentence="two held"
            )
        },
        measures={name: value for name, value in measures.items() if value},
        problems=problems,
    )


def runs(verdicts: str) -> list[Result]:
    return [run(seed, verdict) for seed, verdict in enumerate(verdicts)]


def against(
    results: list[Result], baseline: Baseline | None = None, given: Rules = NOTHING
) -> list[Trouble]:
    return judge(results, baseline or Baseline(), given, TODAY)


def outcome(troubles: list[Trouble]) -> tuple[int, list[str]]:
    return exit_code(troubles), [trouble.kind for trouble in troubles]


def excused(expires: date = TODAY, cell: str = "") -> Baseline:
    known = KnownIssue(system="mine", property=MUTEX, reason="issue 12", expires=expires, cell=cell)
    return Baseline(known=[known])


def test_runs_that_hold_as_before_pass() -> None:
    before = baselines.of_results(runs("+++"), ())
    assert outcome(against(runs("++?"), before)) == (0, [])


def test_a_violation_fails_once_per_cell_and_says_how_often() -> None:
    (trouble,) = against(runs("+xx"))
    assert (trouble.code, trouble.kind) == (1, "violation")
    assert "in 2 of 3 runs, first with seed 1: two held" in trouble.sentence


def test_a_baseline_has_no_place_for_a_violation() -> None:
    before = baselines.of_results(runs("xxx"), ())
    assert outcome(against(runs("xxx"), before))[0] == 1


def test_an_excuse_counts_up_to_its_day_and_only_where_it_says() -> None:
    assert outcome(against(runs("+x"), excused())) == (0, ["excused"])
    yesterday = date(2027, 1, 30)
    assert outcome(against(runs("+x"), excused(yesterday))) == (1, ["expired-excuse"])
    elsewhere = excused(cell="mine / docker / critical-section / pause")
    assert outcome(against(runs("+x"), elsewhere)) == (1, ["violation", "untried-excuse"])


def test_an_excuse_for_what_no_longer_fails_is_itself_a_failure() -> None:
    assert outcome(against(runs("++"), excused())) == (1, ["stale-excuse"])
    code, kinds = outcome(against(runs("??"), excused()))
    assert code == 3 and "untried-excuse" in kinds


def test_a_promise_that_no_run_put_to_the_test_is_inconclusive() -> None:
    assert outcome(against(runs("??"))) == (3, ["not-exercised"])
    assert outcome(against([run(1, "?", promised=False)])) == (0, [])
    assert outcome(against([])) == (3, ["no-runs"])


def test_what_was_exercised_before_and_is_not_now_is_inconclusive() -> None:
    before = baselines.of_results(runs("++?"), ())
    assert outcome(against(runs("??"), before))[1] == ["not-exercised", "lost-exercise"]
    gone = against([run(1, "+", prop="token-order")], before)
    assert outcome(gone) == (3, ["lost-exercise"])
    seldom = baselines.of_results([run(n, v, promised=False) for n, v in enumerate("+??")], ())
    assert outcome(against([run(1, "?", promised=False)], seldom)) == (0, [])


def test_incomplete_runs_and_failed_ones_never_turn_green() -> None:
    assert outcome(against([*runs("++"), run(9, "+", problems=("torn",))]))[0] == 3
    broken = run(9, "?", exit_code=4, problems=("no engine",))
    assert outcome(against([*runs("++"), broken])) == (4, ["environment"])
    assert outcome(against([*runs("+x"), broken]))[0] == 1


def timed(*p99_ms: float) -> list[Result]:
    return [run(seed, "+", p99_ms=ms) for seed, ms in enumerate(p99_ms)]


def test_slower_needs_several_runs_that_rank_worse_and_a_median_that_is_worse() -> None:
    before = baselines.of_results(timed(100, 104, 96, 101), ())
    assert outcome(against(timed(150, 160, 140, 155), before, SLOWER)) == (1, ["slower"])
    assert outcome(against(timed(110, 112, 114, 111), before, SLOWER)) == (0, [])
    assert outcome(against(timed(99, 900, 100, 103), before, SLOWER)) == (0, [])
    assert outcome(against(timed(900), before, SLOWER)) == (3, ["too-few-runs"])
    assert outcome(against(timed(900, 900, 900), Baseline(), SLOWER)) == (3, ["too-few-runs"])


def test_fewer_grants_are_worse() -> None:
    def rates(*values: float) -> list[Result]:
        return [run(seed, "+", grants=value) for seed, value in enumerate(values)]

    before = baselines.of_results(rates(50, 52, 49), ())
    given = rules(["grants:10%"])
    assert outcome(against(rates(30, 31, 29), before, given)) == (1, ["slower"])
    assert outcome(against(rates(80, 81, 90), before, given)) == (0, [])


def test_a_limit_is_a_note_unless_it_is_asked_to_fail() -> None:
    limit = [run(1, "x", promised=False)]
    assert outcome(against(limit)) == (0, ["limit"])
    assert outcome(against(limit, given=rules(["limits"]))) == (1, ["limit"])


def test_rules_are_read_with_every_mistake_told() -> None:
    assert rules(["p99:25%,grants:10%", "limits"]) == Rules(
        slower={"p99": 25.0, "grants": 10.0}, limits=True
    )
    with pytest.raises(UsageError) as caught:
        rules(["p98:25%", "p50:fast"])
    assert "did you mean 'p99'?" in str(caught.value)
    assert "expected p50:PERCENT, like p50:25%" in str(caught.value)


def test_a_baseline_written_reads_back_the_same(tmp_path: Path) -> None:
    known = [
        KnownIssue(system="mine", property=MUTEX, reason='say "why"', expires=TODAY, cell="a / b")
    ]
    before = baselines.of_results([*timed(100, 104), *runs("+?")], known)
    file = tmp_path / "baseline.toml"
    file.write_text(baselines.to_toml(before))
    assert baselines.read(file) == before
    assert baselines.to_toml(baselines.read(file)) == file.read_text()


def test_a_baseline_without_reason_or_with_unknown_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "baseline.toml"
    file.write_text(
        'schema = "holdfast-baseline/1"\n[[known]]\nsystem = "mine"\n'
        'property = "mutual-exclusoin"\nexpires = "soon"\nreson = "because"\n[[cel]]\n'
    )
    with pytest.raises(UsageError) as caught:
        baselines.read(file)
    text = str(caught.value)
    for part in ("missing reason", "did you mean 'mutual-exclusion'?", "expected a day",
                 "did you mean 'reason'?", "did you mean 'cell'?"):  # fmt: skip
        assert part in text
    with pytest.raises(UsageError, match="--update-baseline"):
        baselines.read(tmp_path / "absent.toml")


def under(seed: int, *, pause: str, reset: str) -> Result:
    """A run that held, and per kind of fault that it asked for whether it did under that."""
    kinds = {"pause": WORDS[pause], "reset": WORDS[reset]}
    lacks = {kind: "idle" for kind, verdict in kinds.items() if verdict is Verdict.UNKNOWN}
    told = Outcome(verdict=Verdict.HOLDS, promised=True, under=kinds, lacks=lacks)
    return replace(run(seed, "+"), properties={MUTEX: told})


def test_a_kind_of_fault_that_no_run_exercised_leaves_the_gate_open() -> None:
    lacking = [under(seed, pause="+", reset="?") for seed in range(3)]
    (trouble,) = against(lacking)
    assert (trouble.code, trouble.kind) == (3, "not-exercised")
    assert trouble.sentence == "promised, but not tested under reset in any of 3 runs: idle"
    assert not against([*lacking, under(3, pause="?", reset="+")])


def test_a_baseline_of_every_kind_is_not_met_by_some_of_them() -> None:
    before = baselines.of_results([under(seed, pause="+", reset="+") for seed in range(3)], ())
    now = [under(seed, pause="+", reset="?") for seed in range(3)]
    assert outcome(against(now, before)) == (3, ["not-exercised", "lost-exercise"])
    assert tally(now)[0].unexercised() == ["mutual-exclusion under reset"]
    assert tally(now)[0].exit_code() == 3


def test_results_of_an_older_holdfast_have_no_kinds() -> None:
    row = table(run(1, "+"))
    for one in row["properties"].values():
        del one["under"], one["lacks"]
    assert read(row, "old").properties[MUTEX].exercised


def described(description: str, verdicts: str = "++++") -> list[Result]:
    return [replace(run(n, v, p99_ms=5.0), system=f"mine@{description} unfenced")
            for n, v in enumerate(verdicts)]  # fmt: skip


def test_another_description_of_a_lock_is_told_as_that_and_compared_with_nothing() -> None:
    before = baselines.of_results(described("aaaa0000"), ())
    given = Rules(slower={"p99": 25.0})
    assert outcome(against(described("aaaa0000"), before, given)) == (0, [])
    found = against(described("bbbb0000"), before, given)
    assert outcome(found) == (3, ["changed-description"])
    assert "mine@aaaa0000" in found[0].sentence and "mine@bbbb0000" in found[0].sentence
    assert "--update-baseline" in found[0].sentence
    # A lock of another name is no other description of it.
    others = [replace(one, system="other@bbbb0000 unfenced") for one in described("bbbb0000")]
    assert outcome(against(others, before)) == (3, ["lost-exercise"])


def test_an_excuse_of_a_name_covers_every_description_and_one_of_a_hash_only_that() -> None:
    def excused(system: str) -> list[Trouble]:
        known = KnownIssue(system=system, property=MUTEX, reason="issue 12", expires=TODAY)
        return against(described("bbbb0000", "x"), Baseline(known=[known]))

    assert outcome(excused("mine unfenced")) == (0, ["excused"])
    assert outcome(excused("mine@bbbb0000 unfenced")) == (0, ["excused"])
    code, kinds = outcome(excused("mine@aaaa0000 unfenced"))
    assert code == 1 and "violation" in kinds and "changed-description" in kinds
