"""The gate beside plain rules: whom a known issue covers, what is compared, what is worst."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import pytest

from holdfast.harness.campaigns import baseline as baselines
from holdfast.harness.campaigns import gate
from holdfast.harness.campaigns.baseline import Baseline, KnownIssue
from holdfast.harness.campaigns.gate import ENVIRONMENT, FAILED, INCONCLUSIVE, NO_RULES, PASSED
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.core.verdict import Verdict

TODAY = date(2027, 1, 31)
HOLDS, VIOLATED, UNKNOWN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN
MUTEX, OWNER = "mutual-exclusion", "ownership"


def run(seed: int, system: str = "mine", exit_code: int = 0, **told: Outcome) -> Result:
    return Result(
        key=f"k{seed}", system=system, backend="local", workload="try-lock", nemesis="pause",
        seed=seed, verdict="HOLDS", exit_code=exit_code, command=f"run {seed}",
        properties={name.replace("_", "-"): one for name, one in told.items()},
    )  # fmt: skip


def told(verdict: Verdict, promised: bool = True) -> Outcome:
    return Outcome(verdict=verdict, promised=promised, reason="idle", sentence="two held")


def known(system: str = "mine", prop: str = MUTEX, cell: str = "", days: int = 0) -> KnownIssue:
    return KnownIssue(
        system=system, property=prop, cell=cell, reason="why", expires=TODAY + timedelta(days)
    )


def kinds(results: Sequence[Result], baseline: Baseline | None = None) -> list[tuple[int, str]]:
    found = gate.judge(results, baseline or Baseline(), NO_RULES, TODAY)
    return [(one.code, one.kind) for one in found]


HASHED = "mine@0123abcd queue=fifo"


@pytest.mark.parametrize(
    ("system", "cell", "covered"),
    [
        ("mine", "", False),
        ("mine queue=fifo", "", True),
        (HASHED, "", True),
        ("mine@ffffffff queue=fifo", "", False),
        ("mine queue=fifo", "mine queue=fifo / local / try-lock / pause", True),
        ("mine queue=fifo", f"{HASHED} / local / try-lock / pause", True),
        (HASHED, "mine queue=fifo / local / try-lock / pause", True),
        ("mine queue=fifo", "mine queue=fifo / local / try-lock / kill", False),
        ("other", "mine queue=fifo / local / try-lock / pause", False),
    ],
)
def test_a_known_issue_covers_a_description_by_its_name_or_its_hash(
    system: str, cell: str, covered: bool
) -> None:
    assert known(system, cell=cell).covers(run(1, HASHED)) is covered


@pytest.mark.parametrize("days", [-400, -1, 0, 1, 400])
def test_a_suppression_ends_after_its_day(days: int) -> None:
    results = [run(1, mutual_exclusion=told(VIOLATED))]
    (trouble,) = gate.alone(results, [known(days=days)], TODAY)
    assert (trouble.code, trouble.kind) == (
        (PASSED, "excused") if days >= 0 else (FAILED, "expired-excuse")
    )
    day = TODAY + timedelta(days)
    first = "violated in 1 of 1 runs, first with seed 1: two held; known issue, "
    assert trouble.sentence == first + (
        f"suppressed until {day}: why" if days >= 0 else f"suppression expired on {day} (why)"
    )


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        ([HOLDS, UNKNOWN, HOLDS], (FAILED, "held in 2 runs: remove its [[known]] entry")),
        ([UNKNOWN, UNKNOWN], (INCONCLUSIVE, "known issue, but not tested in any run")),
        ([], (INCONCLUSIVE, "known issue, but not tested in any run")),
        ([HOLDS, VIOLATED], None),
    ],
)
def test_a_suppression_that_nothing_needs_is_a_problem(
    verdicts: list[Verdict], says: tuple[int, str] | None
) -> None:
    results = [run(n, mutual_exclusion=told(one, False)) for n, one in enumerate(verdicts)]
    others = [run(9, system="other", mutual_exclusion=told(HOLDS, False)), run(8)]
    found = gate.alone([*results, *others], [known(), known(prop=OWNER)], TODAY)
    mutex = [(one.code, one.sentence) for one in found if one.property == MUTEX]
    assert mutex == ([says] if says else [])
    assert [one.kind for one in found if one.property == OWNER] == ["untried-excuse"]


def exercised(results: Sequence[Result], prop: str) -> set[str]:
    """Plainly: what of a promise some run exercised; "" stands for the promise itself."""
    found = set[str]()
    for one in (result.properties[prop] for result in results):
        found |= {""} if one.verdict is not UNKNOWN else set()
        found |= {kind for kind, verdict in one.under.items() if verdict is not UNKNOWN}
    return found


def test_a_promise_and_each_kind_of_fault_must_be_exercised_by_some_run() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        results = []
        for n in range(rng.randrange(1, 4)):
            under = {kind: rng.choice([HOLDS, UNKNOWN]) for kind in rng.sample("pkc", 2)}
            lacks = {kind: "idle" for kind, verdict in under.items() if verdict is UNKNOWN}
            verdict = HOLDS if HOLDS in under.values() else UNKNOWN
            one = Outcome(verdict=verdict, promised=True, under=under, lacks=lacks)
            results.append(run(n, mutual_exclusion=one))
        open_ = {kind for one in results for kind in one.properties[MUTEX].lacks}
        seen = exercised(results, MUTEX)
        wanted = open_ - seen if "" in seen else {""}
        found = [one.sentence for one in gate.alone(results, (), TODAY)]
        assert len(found) == bool(wanted), "they all have one cause, which is reported once"
        for sentence in found:
            told = re.fullmatch(
                "promised, but not tested(?: under (.+))? in (?:any|the) .+", sentence
            )
            assert told, sentence
            assert set(re.split(", | and ", told[1] or "")) == wanted, seed


def test_coverage_is_compared_with_executed_runs_of_the_same_cell_only() -> None:
    good = [run(n, mutual_exclusion=told(HOLDS)) for n in range(3)]
    before = baselines.of_results(good, ())
    idle = run(1, mutual_exclusion=told(UNKNOWN, False))
    assert kinds(good, before) == []
    assert kinds([idle], before) == [(INCONCLUSIVE, "lost-exercise")]
    assert kinds([idle, good[0]], before) == [], "one run that exercises it is enough"
    assert kinds([run(1)], before) == [(INCONCLUSIVE, "lost-exercise")], "not judged"
    dead = replace(good[0], exit_code=4)
    assert kinds([dead], before) == [(ENVIRONMENT, "environment"), (INCONCLUSIVE, "lost-exercise")]


def test_the_worst_problem_comes_first_and_decides() -> None:
    broken = run(1, mutual_exclusion=told(VIOLATED))
    dead = run(2, exit_code=4)
    half = replace(run(3), problems=("torn",))
    limit = run(4, ownership=told(VIOLATED, False))
    codes = {"broken": FAILED, "dead": ENVIRONMENT, "half": INCONCLUSIVE, "limit": PASSED}
    order = [FAILED, ENVIRONMENT, INCONCLUSIVE, PASSED]
    runs = {"broken": broken, "dead": dead, "half": half, "limit": limit}
    for names in itertools.chain.from_iterable(
        itertools.permutations(runs, count) for count in range(1, 5)
    ):
        found = gate.judge([runs[name] for name in names], Baseline(), NO_RULES, TODAY)
        wanted = sorted((codes[name] for name in names), key=order.index)
        assert [one.code for one in found] == wanted
        assert gate.exit_code(found) == wanted[0]
        table = gate.table(found, [runs[name] for name in names])
        words = {FAILED: "FAILED", ENVIRONMENT: "NOT RUN", INCONCLUSIVE: "INCONCLUSIVE"}
        assert (table["outcome"], table["runs"]) == (words.get(wanted[0], "passed"), len(names))


def test_each_limit_is_told_once_per_cell_and_property() -> None:
    limit = run(1, mutual_exclusion=told(VIOLATED, False), ownership=told(VIOLATED, False))
    results = [limit, replace(limit, seed=2), replace(limit, system="other", seed=3),
               run(4, ownership=told(HOLDS))]  # fmt: skip
    found = gate.judge(results, Baseline(), NO_RULES, TODAY)
    assert [(one.kind, one.cell.split()[0], one.property, one.result and one.result.seed)
            for one in found] == [
        ("limit", "mine", MUTEX, 1), ("limit", "mine", OWNER, 1),
        ("limit", "other", MUTEX, 3), ("limit", "other", OWNER, 3),
    ]  # fmt: skip


def test_a_changed_description_is_told_once_for_all_its_cells() -> None:
    """Also that of a known issue only; a system without a hash has no description."""
    old = [replace(run(n, "mine@aaaaaaaa", mutual_exclusion=told(HOLDS)), nemesis=kind)
           for n, kind in enumerate(("pause", "kill"))]  # fmt: skip
    new = [replace(one, system="mine@bbbbbbbb") for one in old]
    assert kinds(new, baselines.of_results(old, ())) == [(INCONCLUSIVE, "changed-description")]
    issue = Baseline(known=[known("mine@aaaaaaaa", prop=OWNER)])
    (_, changed) = sorted(kinds(new, issue), key=lambda one: one[1], reverse=True)
    assert changed == (INCONCLUSIVE, "changed-description")
    plain = [replace(one, system="mine") for one in old]
    assert kinds(plain, Baseline(known=[known("mine", prop=OWNER)])) == [
        (INCONCLUSIVE, "untried-excuse")
    ]


def test_a_baseline_written_twice_is_the_same_text_in_any_order_of_its_runs() -> None:
    rng = random.Random(3)
    results = [
        replace(
            run(n, rng.choice(["a", "b"]), mutual_exclusion=told(rng.choice([HOLDS, UNKNOWN]))),
            measures={"p99": float(n), "mine": 1.0},
        )
        for n in range(8)
    ]
    texts = set()
    for _ in range(5):
        results.sort(key=lambda one: (rng.random(), one.seed))
        made = baselines.of_results(results, [known()])
        ordered = {key: sorted(values) for key, values in made.measures.items()}
        texts.add(baselines.to_toml(replace(made, measures=ordered)))
    (text,) = texts
    assert text.count("[[cell]]") == text.count("[[measure]]") == 2 and text.count("expires") == 1
