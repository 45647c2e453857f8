"""The exact faults of a plan, sampled from its seed, and what is wrong with them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from holdfast import catalogue
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import IN_TURN
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Fault, Nemesis
from holdfast.harness.plans.plan import Plan
from holdfast.nemesis.compose import draw_all
from holdfast.nemesis.targets import absent_parts, unknown_parts
from holdfast.nemesis.user_nemesis import UserNemesis
from holdfast.planning import capacity


def draw(plan: Plan, servers: int) -> Sequence[Fault]:
    """The exact faults of the plan's nemeses, from its seed; UsageError lists their mistakes.

    servers   number of servers, of which a target may name one
    """
    entries = {name: load(catalogue.NEMESES[name].entry) for name, _ in plan.nemeses}
    lease = duration_text(plan.lease_ns)
    specs = [(name, {"lease": lease, **options}) for name, options in plan.nemeses]
    drawn = draw_all(specs, entries, plan.seed, plan.time_ns)
    wrong = [*wrong_targets(plan, (*plan.faults, *drawn), servers), *wrong_params(plan)]
    if wrong:
        raise UsageError(*wrong)
    return drawn


def wrong_targets(plan: Plan, faults: Sequence[Fault], servers: int) -> list[str]:
    """Targets that no node of the run can have, one line each: such a fault would be skipped.

    Those of the options count also if no fault falls into the time of the run. `target` may mean
    something else to a user's nemesis: the targets of its faults count.
    """
    aimed = [
        (name, target)
        for name, options in plan.nemeses
        if options.get("target") and not _of_user(name)
        for target in options["target"].split(IN_TURN)
    ]
    aimed += [(fault.do, fault.target) for fault in faults]
    clients = capacity.workers(plan)
    return [
        f"nemesis {do}: {why}"
        for do, target in dict.fromkeys(aimed)
        for why in (*unknown_parts(target), *absent_parts(target, servers, clients))
    ]


def _of_user(name: str) -> bool:
    return isinstance(load(catalogue.NEMESES[name].entry), UserNemesis)


def wrong_params(plan: Plan) -> list[str]:
    """Parameters of the plan's own faults that their nemesis does not know or cannot read, one line
    each: the driver would meet them in the middle of the run. A user's nemesis may know others."""
    problems = []
    for fault in plan.faults:
        nemesis: Nemesis = load(catalogue.NEMESES[fault.do].entry)
        if isinstance(nemesis, UserNemesis):
            continue
        try:
            nemesis.draw(random.Random(plan.seed), fault.params, 0)
        except UsageError as error:
            problems += [f"fault {fault.id}: {problem}" for problem in error.problems]
    return problems
