"""What the swarm draws: every fault that the simulator has, and plans that fit."""

from __future__ import annotations

from holdfast import catalogue
from holdfast.engine import swarm
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


def test_every_plan_that_is_drawn_fits() -> None:
    for seed in SEEDS:
        whole = prepare.complete(swarm.draw(seed, "reference", 3, {}))
        assert all(fault.at_ns + fault.for_ns <= whole.time_ns for fault in whole.faults)


def test_some_critical_sections_do_not_renew_and_no_other_workload_is_asked_to() -> None:
    plans = [swarm.draw(seed, "reference", 3, {}) for seed in SEEDS]
    sections = [plan for plan in plans if plan.workload == "critical-section"]
    single = [plan for plan in plans if "one_lease" in plan.options]
    assert len(sections) // 6 < len(single) < len(sections) // 2
    assert all(plan.workload == "critical-section" for plan in single)
