"""What the swarm draws: every fault that the simulator has, and plans that fit."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast import catalogue
from holdfast.engine import swarm
from holdfast.engine.swarm import Way
from holdfast.harness.core.durations import duration_ns
from holdfast.harness.plans.plan import Plan
from holdfast.planning import checks, prepare

SEEDS = range(600)


def test_every_fault_that_the_simulator_has_is_drawn() -> None:
    able = {
        name
        for name in catalogue.NEMESES
        if not checks.out_of_reach(Plan(system="reference", backend="sim", nemeses=((name, {}),)))
    }
    # Its faults there are freeze, freeze-write and torn-write, which are drawn; power is a kill.
    able -= {"syscall", "power"}
    # No service promises what it promises across a state that went back.
    able -= {"backup-restore", "rollback"}
    # One kind more would give every seed that tests and findings name another plan.
    able -= {"suspend"}
    drawn = [kind for seed in SEEDS for kind, _ in swarm.draw(seed, "reference", 3, {}).nemeses]
    assert set(drawn) == able
    assert {"reply-loss", "reset", "cancel", "torn-write"} <= able
    assert min(drawn.count(kind) for kind in able) > 30


def test_services_without_disks_meet_no_fault_of_disks() -> None:
    drawn = {kind for seed in SEEDS for kind, _ in swarm.draw(seed, "majority", 5, {}).nemeses}
    assert not drawn & {kind for kind, of in swarm.KINDS.items() if of.disks}
    assert {"reply-loss", "partition", "kill"} <= drawn


@pytest.mark.parametrize("way", Way)
def test_every_plan_that_is_drawn_fits(way: Way) -> None:
    for seed in SEEDS:
        whole = prepare.complete(swarm.draw(seed, "reference", 3, {}, way=way))
        assert all(fault.at_ns + fault.for_ns <= whole.time_ns for fault in whole.faults)


def test_some_critical_sections_do_not_renew_and_no_other_workload_is_asked_to() -> None:
    plans = [swarm.draw(seed, "reference", 3, {}) for seed in SEEDS]
    sections = [plan for plan in plans if plan.workload == "critical-section"]
    single = [plan for plan in plans if "one_lease" in plan.options]
    assert len(sections) // 6 < len(single) < len(sections) // 2
    assert all(plan.workload == "critical-section" for plan in single)


def for_opportunities(seeds: range, **given: str) -> list[Plan]:
    return [swarm.draw(seed, "reference", 3, given, way=Way.OPPORTUNITIES) for seed in seeds]


def test_workloads_in_turns_come_as_often_as_they_weigh_from_any_seed_on() -> None:
    wanted = {**swarm.weights("reference"), **swarm.MORE_OF}
    whole = sum(wanted.values())
    for first in (0, 1, 777, 10**9):
        counts = Counter(
            swarm.ordered_workload(seed, wanted) for seed in range(first, first + int(whole))
        )
        assert all(abs(counts[name] - weight) <= 2 for name, weight in wanted.items())


def test_many_faults_end_within_the_lease_and_none_takes_more_than_a_third_of_the_run() -> None:
    lengths = [
        (duration_ns(args["for"]), plan)
        for plan in for_opportunities(SEEDS)
        for _, args in plan.nemeses
        if "for" in args
    ]
    assert all(for_ns <= plan.time_ns / 3 for for_ns, plan in lengths)
    short = [for_ns for for_ns, plan in lengths if for_ns <= 0.6 * plan.lease_ns]
    assert len(lengths) / 3 < len(short) < len(lengths) * 0.8, "beside longer ones"


def test_owners_are_silent_in_half_of_the_seeds_whose_workload_knows_it() -> None:
    plans = [plan for plan in for_opportunities(SEEDS) if plan.workload in swarm.LAZY_WORKLOADS]
    silent = [plan for plan in plans if plan.options.get("lazy_pct")]
    assert len(plans) / 3 < len(silent) < len(plans) * 2 / 3
    assert not any(
        "lazy_pct" in plan.options
        for plan in for_opportunities(SEEDS)
        if plan.workload not in swarm.LAZY_WORKLOADS
    )
    assert {plan.options["lazy_pct"] for plan in for_opportunities(SEEDS, lazy_pct="7")} == {"7"}


def test_the_rest_of_a_seed_does_not_depend_on_how_it_is_drawn() -> None:
    for seed in SEEDS[:50]:
        plain = swarm.draw(seed, "reference", 3, {}, "renewal")
        other = swarm.draw(seed, "reference", 3, {}, "renewal", Way.OPPORTUNITIES)
        assert [kind for kind, _ in plain.nemeses] == [kind for kind, _ in other.nemeses]
        assert (plain.time_ns, plain.lease_ns) == (other.time_ns, other.lease_ns)
        assert {**plain.options, "lazy_pct": ""} == {**other.options, "lazy_pct": ""}
