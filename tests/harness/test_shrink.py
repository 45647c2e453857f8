"""Shrinking over predicates that need no run: what must stay stays, everything else goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.engine.shrinker import stand_ins
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.plan import Plan
from holdfast.harness.plans.shrink import MANY, NETWORK, Attempt, Failing, shrink

STAND_INS = {"freeze": "pause", "freeze-write": "pause", "torn-write": "kill"}


def plan_of(faults: int) -> Plan:
    return Plan(
        system="reference",
        backend="sim",
        time_ns=20 * SECOND,
        nodes=5,
        clients=6,
        locks=3,
        options={"mutant": "lost-wake-up", "queue": "fifo", "sim_loss_ppm": "1000"},
        faults=tuple(
            Fault(
                id=f"f{n}",
                do="kill",
                target="one",
                at_ns=n * SECOND // 2,
                for_ns=333_333_333,
            )
            for n in range(1, faults + 1)
        ),
    )


class Needs:
    """Fails as long as a plan has these faults, so many clients and so much time."""

    def __init__(self, *idents: str, clients: int = 2, until_ns: int = 3 * SECOND) -> None:
        self.idents, self.clients, self.until_ns = idents, clients, until_ns
        self.tried: list[tuple[Plan, int]] = []

    def __call__(self, plan: Plan, tries: int) -> Failing | None:
        self.tried.append((plan, tries))
        has = {fault.id for fault in plan.faults} >= set(self.idents)
        if has and plan.clients >= self.clients and plan.time_ns >= self.until_ns:
            return Failing(plan=plan, after_ns=self.until_ns, sentence="it is broken")
        return None


def smallest(first: Plan, attempt: Attempt) -> tuple[Plan, list[Failing]]:
    failing = Failing(plan=first, after_ns=9 * SECOND, sentence="it is broken")
    steps = list(shrink(failing, attempt, STAND_INS))
    return (steps[-1].plan if steps else first), steps


@pytest.mark.parametrize("idents", [(), ("f4",), ("f1", "f5"), ("f1", "f3", "f5")])
def test_exactly_the_faults_that_matter_are_left(idents: tuple[str, ...]) -> None:
    plan, _ = smallest(plan_of(19), Needs(*idents))
    assert tuple(fault.id for fault in plan.faults) == idents


def test_faults_come_sooner_together_as_far_as_the_finding_still_shows() -> None:
    def waits_for(least_ns: int, plan: Plan) -> Failing | None:
        """Two faults, two seconds apart, the first one not too soon."""
        at = [fault.at_ns for fault in plan.faults]
        broken = len(at) == 2 and at[1] - at[0] == 2 * SECOND and at[0] >= least_ns
        return Failing(plan=plan, after_ns=SECOND, sentence="it is broken") if broken else None

    first = plan_of(12)
    first = replace(first, faults=(first.faults[7], first.faults[11]))
    for least_ns, at_ns in ((0, 100 * MILLISECOND), (900 * MILLISECOND, SECOND)):
        plan, steps = smallest(first, lambda plan, tries: waits_for(least_ns, plan))  # noqa: B023
        assert [fault.at_ns for fault in plan.faults] == [at_ns, at_ns + 2 * SECOND]
        times = [step.plan.time_ns for step in steps]
        assert times == sorted(times, reverse=True) and times[-1] < first.time_ns


def test_any_choice_of_faults_is_found() -> None:
    for seed in range(40):
        rng = stream(seed, "choice")
        idents = sorted(rng.sample([f"f{n}" for n in range(1, 9)], rng.randint(0, 4)))
        plan, _ = smallest(plan_of(8), Needs(*idents, until_ns=5 * SECOND))
        assert sorted(fault.id for fault in plan.faults) == idents, seed


def test_parties_time_durations_and_options_come_down_to_what_it_takes() -> None:
    plan, _ = smallest(plan_of(6), Needs("f2", clients=3))
    assert (plan.clients, plan.locks, plan.nodes) == (3, 1, 1)
    assert plan.time_ns <= 3 * SECOND + 100 * MILLISECOND
    assert plan.faults[0].for_ns == 100 * MILLISECOND, "halved, then rounded up"
    assert dict(plan.options) == {"mutant": "lost-wake-up"}, "what is looked for is not left out"


def test_a_node_that_a_fault_names_stays() -> None:
    first = plan_of(2)
    named = replace(first.faults[0], target="n3|one"), replace(first.faults[1], target="c4+c2")
    needs = Needs("f1", "f2", clients=1)
    plan, _ = smallest(replace(first, faults=named), needs)
    assert (plan.clients, plan.nodes) == (4, 3)
    assert all(one.clients >= 4 and one.nodes >= 3 for one, _ in needs.tried if one.faults == named)


def test_every_step_fails_and_none_has_more_faults_than_the_one_before() -> None:
    needs = Needs("f2", "f5")
    _, steps = smallest(plan_of(12), needs)
    assert len(steps) > 5
    assert all(needs(step.plan, 1) is not None for step in steps)
    sizes = [len(step.plan.faults) for step in steps]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("rare", "common"), STAND_INS.items())
def test_a_fault_that_every_backend_has_stands_in_where_it_does_as_well(
    rare: str, common: str
) -> None:
    first = plan_of(3)
    first = replace(first, faults=tuple(replace(fault, do=rare) for fault in first.faults))
    plan, _ = smallest(first, Needs("f1", "f2"))
    assert [(fault.id, fault.do) for fault in plan.faults] == [("f1", common), ("f2", common)]

    def rare_only(plan: Plan, tries: int) -> Failing | None:
        only = plan.faults and all(fault.do == rare for fault in plan.faults)
        return Needs("f1")(plan, tries) if only else None

    plan, _ = smallest(first, rare_only)
    assert [(fault.id, fault.do) for fault in plan.faults] == [("f1", rare)]


def test_no_candidate_is_tried_in_vain_twice() -> None:
    needs = Needs("f1", "f3")
    smallest(plan_of(12), needs)
    vain = [(repr(plan), tries) for plan, tries in list(needs.tried) if not needs(plan, 1)]
    assert len(vain) == len(set(vain))


def test_each_fault_that_is_left_had_many_tries_without_it() -> None:
    needs = Needs("f2", "f4")
    smallest(plan_of(5), needs)
    alone = [plan for plan, tries in needs.tried if tries == MANY and len(plan.faults) == 1]
    assert {plan.faults[0].id for plan in alone} >= {"f2", "f4"}


def test_the_network_that_an_attempt_chose_stays_in_the_plan() -> None:
    needs = Needs("f1")

    def on_network_3(plan: Plan, tries: int) -> Failing | None:
        failing = needs(plan, tries)
        if failing is None:
            return None
        return replace(failing, plan=replace(plan, options={**plan.options, NETWORK: "3"}))

    plan, _ = smallest(plan_of(5), on_network_3)
    assert dict(plan.options) == {"mutant": "lost-wake-up", NETWORK: "3"}


def test_what_fails_only_as_it_is_stays_as_it_is() -> None:
    first = plan_of(4)
    plan, steps = smallest(first, lambda plan, tries: None)
    assert plan == first and steps == []


def test_the_faults_of_a_plan_name_their_stand_ins() -> None:
    kinds = (*catalogue.NEMESES,)
    faults = tuple(
        Fault(id=kind, do=kind, target="one", at_ns=0, for_ns=SECOND, params={}) for kind in kinds
    )
    assert stand_ins(replace(plan_of(1), faults=faults)) == STAND_INS
    assert stand_ins(plan_of(3)) == {}
