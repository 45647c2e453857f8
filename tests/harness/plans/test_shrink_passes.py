"""Each pass of shrinking by itself: what it tries, in which order, and where it stops."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import pytest

from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans import shrink as shrinking
from holdfast.harness.plans.plan import Plan
from holdfast.harness.plans.shrink import FEW, LEAST, MANY, NETWORK, Attempt, Failing, shrink

PASSES: Mapping[str, Callable[[Failing, Attempt], Iterator[Failing]]] = {
    "cut_time": shrinking.cut_time,
    "drop_faults": shrinking.drop_faults,
    "earlier": shrinking.earlier,
    "fewer_parties": shrinking.fewer_parties,
    "shorter_faults": shrinking.shorter_faults,
    "common_faults": partial(shrinking.common_faults, {"freeze": "pause"}),
    "round_times": shrinking.round_times,
    "fewer_options": shrinking.fewer_options,
}


class Tries:
    """Fails where `breaks` is true; remembers every plan and its number of tries."""

    def __init__(self, breaks: Callable[[Plan], bool], after_ns: int = SECOND) -> None:
        self.breaks, self.after_ns = breaks, after_ns
        self.tried: list[tuple[Plan, int]] = []

    def __call__(self, plan: Plan, tries: int) -> Failing | None:
        self.tried.append((plan, tries))
        if not self.breaks(plan):
            return None
        return Failing(plan=plan, after_ns=self.after_ns, sentence="x")


def fault(n: int, at_ns: int, for_ns: int = SECOND, do: str = "kill") -> Fault:
    return Fault(id=f"f{n}", do=do, target="one", at_ns=at_ns, for_ns=for_ns, params={"a": "1"})


def passed(name: str, plan: Plan, tries: Tries) -> list[Plan]:
    first = Failing(plan=plan, after_ns=tries.after_ns, sentence="x")
    return [step.plan for step in PASSES[name](first, tries)]


PLAN = Plan(system="reference", backend="sim", time_ns=20 * SECOND, lease_ns=2 * SECOND)


def always(plan: Plan) -> bool:
    return True


def never(plan: Plan) -> bool:
    return False


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_ends_and_yields_nothing_where_no_candidate_fails(name: str) -> None:
    faults = (fault(1, 3 * SECOND, 333_333_333, "freeze"), fault(2, 5 * SECOND))
    plan = replace(PLAN, faults=faults, locks=2, options={"queue": "fifo", "sim_loss": "1"})
    tries = Tries(never)
    assert passed(name, plan, tries) == []
    assert tries.tried and all(one != plan for one, _ in tries.tried)


def test_a_run_is_cut_right_after_the_finding_or_a_lease_after_it_or_in_half() -> None:
    plan = replace(PLAN, faults=(fault(1, SECOND), fault(2, 1_100_000_000), fault(3, 9 * SECOND)))
    tries = Tries(never)
    passed("cut_time", plan, tries)
    assert [(one.time_ns / SECOND, len(one.faults), n) for one, n in tries.tried] == [
        (1.1, 1, FEW), (3.0, 2, FEW), (10.0, 3, FEW),
    ]  # fmt: skip
    shorter = passed("cut_time", plan, Tries(lambda one: one.time_ns >= 5 * SECOND))
    assert [one.time_ns / SECOND for one in shorter] == [10.0, 5.0]


@pytest.mark.parametrize(("time_ns", "cuts"), [(1_220_000_000, 0), (1_230_000_000, 1)])
def test_a_cut_that_spares_less_than_a_tenth_is_not_tried(time_ns: int, cuts: int) -> None:
    tries = Tries(never, after_ns=1_020_000_000)
    passed("cut_time", replace(PLAN, time_ns=time_ns, faults=()), tries)
    assert [one.time_ns for one, _ in tries.tried if one.time_ns > time_ns // 2 + SECOND // 10] == [
        1_100_000_000
    ] * cuts


def test_parts_of_the_faults_are_left_out_before_single_ones() -> None:
    plan = replace(PLAN, time_ns=2 * SECOND, faults=tuple(fault(n, n * SECOND) for n in range(4)))
    tries = Tries(never)
    passed("drop_faults", plan, tries)
    assert [("".join(one.id[1] for one in plan.faults), n) for plan, n in tries.tried] == [
        ("", FEW),
        ("23", FEW), ("01", FEW),
        ("123", MANY), ("023", MANY), ("013", MANY), ("012", MANY),
        ("3", MANY), ("2", MANY), ("1", MANY), ("0", MANY),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gone", "tries_of_first", "sizes"),
    [("2", MANY, [6] * 7 + [1] * 7), ("67", FEW, [4] * 3 + [2] * 3 + [5] * 6 + [1] * 6)],
)
def test_after_a_part_was_left_out_there_is_one_part_fewer_and_no_new_beginning(
    gone: str, tries_of_first: int, sizes: list[int]
) -> None:
    plan = replace(PLAN, faults=tuple(fault(n, n) for n in range(8)))
    needed = {one.id for one in plan.faults if one.id[1] not in gone}
    tries = Tries(lambda one: {f.id for f in one.faults} >= needed and one.time_ns == PLAN.time_ns)
    (left,) = passed("drop_faults", plan, tries)
    assert {one.id for one in left.faults} == needed
    after = [one for one, _ in tries.tried[tries.tried.index((left, tries_of_first)) + 1 :]]
    assert [len(one.faults) for one in after if one.time_ns == PLAN.time_ns] == sizes


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("pieces", range(1, 9))
def test_every_fault_is_in_one_part_and_missing_from_one_complement(
    count: int, pieces: int
) -> None:
    faults = [fault(n, n) for n in range(count)]
    pieces = min(pieces, count)
    every = list(shrinking._rests(faults, pieces))
    without, alone = every[:pieces], every[pieces:]
    for one in faults:
        assert sum(one not in rest for rest in without) == 1
        assert sum(one in rest for rest in alone) == (pieces > 2)
    assert all(rest == sorted(rest, key=lambda one: one.at_ns) for rest in every)
    assert max(map(len, without)) - min(map(len, without)) <= 1


def test_a_set_of_faults_that_is_needed_is_what_is_left_and_each_is_needed() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        needed = {f"f{n}" for n in rng.sample(range(9), rng.randrange(4))}
        plan = replace(PLAN, faults=tuple(fault(n, n * SECOND) for n in range(9)))
        tries = Tries(lambda one: {f.id for f in one.faults} >= needed, 15 * SECOND)  # noqa: B023
        left = passed("drop_faults", plan, tries)[-1]
        assert {one.id for one in left.faults} == needed, seed


def test_faults_are_moved_by_half_of_the_first_down_to_a_tenth_of_a_second() -> None:
    plan = replace(PLAN, faults=(fault(1, 1_000_001_000), fault(2, 3 * SECOND)))
    moved = passed("earlier", plan, Tries(always))
    first = [one.faults[0].at_ns for one in moved]
    assert first == [500_001_000, 250_001_000, 125_001_000], "by whole milliseconds"
    for one in moved:
        assert one.faults[1].at_ns - one.faults[0].at_ns == 3 * SECOND - 1_000_001_000
        assert one.time_ns - one.faults[0].at_ns == PLAN.time_ns - 1_000_001_000
    at_once = replace(PLAN, time_ns=150 * MILLISECOND, faults=(fault(1, 300 * MILLISECOND),))
    assert passed("earlier", at_once, Tries(always))[0].time_ns == shrinking.SHORT_NS
    assert passed("earlier", replace(PLAN, faults=(fault(1, 199_999_999),)), Tries(always)) == []
    assert passed("earlier", replace(PLAN, faults=()), Tries(always)) == []


def test_a_number_of_parties_is_the_smallest_of_a_few_that_still_fails() -> None:
    plan = replace(PLAN, locks=1, clients=9, nodes=5)
    left = passed("fewer_parties", plan, Tries(lambda one: one.clients >= 8 and one.nodes != 1))
    assert [(one.locks, one.clients, one.nodes) for one in left] == [(1, 8, 5), (1, 8, 2)]
    tries = Tries(never)
    passed("fewer_parties", plan, tries)
    assert [(one.clients, one.nodes) for one, _ in tries.tried] == [
        (1, 5), (2, 5), (3, 5), (8, 5), (9, 1), (9, 2), (9, 3), (9, 4),
    ]  # fmt: skip
    none = replace(plan, nodes=0, clients=1)
    assert passed("fewer_parties", none, Tries(always)) == [], "a system may have no servers"


def test_each_fault_is_halved_by_itself_down_to_twice_the_shortest() -> None:
    lasts = 40 * MILLISECOND
    plan = replace(
        PLAN, faults=(fault(1, 0, 4 * lasts), fault(2, 0, lasts), fault(3, 0, lasts - 1))
    )
    halved = passed("shorter_faults", plan, Tries(always))
    assert [tuple(one.for_ns // MILLISECOND for one in step.faults) for step in halved] == [
        (80, 40, 39), (40, 40, 39), (20, 40, 39), (20, 20, 39),
    ]  # fmt: skip
    long = Tries(lambda one: one.faults[0].for_ns >= 80 * MILLISECOND)
    assert len(passed("shorter_faults", plan, long)) == 2, "the second is halved all the same"


def test_a_stand_in_keeps_the_id_and_the_times_and_loses_the_options() -> None:
    plan = replace(
        PLAN, faults=(fault(1, 1, 2, "freeze"), fault(2, 3, 4), fault(3, 5, 6, "freeze"))
    )
    first, second = passed("common_faults", plan, Tries(always))
    assert first.faults[0] == replace(plan.faults[0], do="pause", params={})
    assert first.faults[1:] == plan.faults[1:] and second.faults[:2] == first.faults[:2]
    last = passed("common_faults", plan, Tries(lambda one: one.faults[0].do == "freeze"))
    assert [one.do for one in last[-1].faults] == ["freeze", "kill", "pause"]


@pytest.mark.parametrize(
    ("finest_ns", "at_ns"),
    [
        (100 * MILLISECOND, 1_300_000_000),
        (10 * MILLISECOND, 1_240_000_000),
        (MILLISECOND, 1_235_000_000),
    ],
)
def test_times_are_rounded_up_to_the_coarsest_step_that_still_fails(
    finest_ns: int, at_ns: int
) -> None:
    plan = replace(PLAN, faults=(fault(1, 1_234_567_890, 1_234_567_890),))
    tries = Tries(lambda one: one.faults[0].at_ns <= 1_234_567_890 + finest_ns)
    (rounded,) = passed("round_times", plan, tries)
    assert rounded.faults[0].at_ns == rounded.faults[0].for_ns == at_ns
    assert {n for _, n in tries.tried} == {LEAST}


def test_options_go_all_at_once_then_those_of_the_simulator_then_one_by_one() -> None:
    given = {"mutant": "m", NETWORK: "3", "sim_loss": "1", "queue": "fifo", "sim_delay": "2"}
    tries = Tries(never)
    passed("fewer_options", replace(PLAN, options=given), tries)
    gone = [sorted(set(given) - set(one.options)) for one, _ in tries.tried]
    assert gone == [
        ["queue", "sim_delay", "sim_loss"], ["sim_delay", "sim_loss"],
        ["sim_loss"], ["queue"], ["sim_delay"],
    ]  # fmt: skip
    needs = Tries(lambda one: "queue" in one.options)
    (left,) = passed("fewer_options", replace(PLAN, options=given), needs)
    assert dict(left.options) == {"mutant": "m", NETWORK: "3", "queue": "fifo"}
    # Without its library a plan is one of the servers' own client, which lacks the options.
    kept = replace(PLAN, options={"mutant": "m", "library": "redis==8.1.0", NETWORK: "3"})
    assert passed("fewer_options", kept, Tries(always)) == []


def test_a_candidate_that_did_not_fail_is_tried_again_only_with_more_tries() -> None:
    tries = Tries(never)
    known = shrinking._Remembering(tries)
    on = [replace(PLAN, options={NETWORK: text}) for text in "12"]
    assert [known(one, n) for one, n in ((on[0], 4), (on[1], 4), (on[0], 2))] == [None] * 3
    assert len(tries.tried) == 1, "another network is the same candidate"
    known(on[1], 5)
    known(replace(PLAN, seed=1), 1)
    assert [n for _, n in tries.tried] == [4, 5, 1]
    tries.breaks = always
    assert all(known(replace(PLAN, seed=2), 1) is not None for _ in range(3))
    assert len(tries.tried) == 6, "one that failed is asked again"


@pytest.mark.parametrize(("faults", "rounds"), [(2, 2), (1, 1), (0, 1)])
def test_a_second_round_is_made_only_while_there_are_several_faults(
    faults: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def shortens(best: Failing, attempt: Attempt) -> Iterator[Failing]:
        begun.append(best.plan.time_ns)
        yield replace(best, plan=replace(best.plan, time_ns=best.plan.time_ns - 1))

    monkeypatch.setattr(shrinking, "_passes", lambda stand_ins: (shortens,))
    plan = replace(PLAN, faults=tuple(fault(n, n) for n in range(faults)))
    list(shrink(Failing(plan=plan, after_ns=1, sentence="x"), Tries(always)))
    assert begun == [PLAN.time_ns - n for n in range(rounds)]
