"""What may be wrong with a plan, each in a function: all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from holdfast import catalogue
from holdfast.catalogue import design_sheet, user_system
from holdfast.catalogue.mutants import MUTANTS
from holdfast.harness.core.fault_traits import NOT_SIMULATED
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ABILITIES
from holdfast.harness.core.verdict import Promises
from holdfast.harness.plans.plan import NAMES, Plan, suggest
from holdfast.nemesis import server_names
from holdfast.planning import capacity, offered_load, own_code
from holdfast.planning.backends import usable_backend
from holdfast.planning.resolve import (
    Prepared,
    backend_options,
    kinds_of,
    other_number_of_nodes,
    too_many_nodes,
    workload_options,
)


@runtime_checkable
class LimitsLeases(Protocol):
    """A System whose service does not grant a lease of any length."""

    def wrong_lease(self, lease_ns: int, options: Mapping[str, str]) -> str | None:
        """Why it grants no lease of this length, and what to use; None if it does."""
        ...


Check = Callable[[Prepared], Sequence[str]]


def aimed(found: Prepared) -> Prepared:
    """The same, with nodes in place of servers whose names its faults are aimed at."""
    return replace(found, plan=server_names.in_nodes(found.plan, found.system))


def problems(found: Prepared) -> list[str]:
    """All that is wrong with a plan, one line each; what only its faults show is not known yet."""
    features: tuple[Check, ...] = tuple(map(load, catalogue.PLAN_CHECKS))
    return [line for check in (*CHECKS, *features, *LAST) for line in check(found)]


def resource_of(found: Prepared) -> str:
    """The resource of the plan, or the one that suits its system."""
    return found.plan.resource or design_sheet.suited_to(found.system, found.promises)


def without_tokens(plan: Plan, resource: str, promises: Promises) -> list[str]:
    """What the plan asks of fencing tokens that its system does not issue, one line each."""
    if promises.tokens != "none":
        return []
    problems = []
    if resource in catalogue.RESOURCES_WITH_TOKENS:
        hint = " or --set tokens=counter (tokens from a counter)"
        problems.append(
            f"--resource {resource}: {plan.system} issues no fencing tokens, so nothing is rejected"
            f"; use --resource unfenced{hint if plan.system == 'redis' else ''}"
        )
    if "token-order" in plan.require:
        problems.append(f"--require token-order: {plan.system} issues no fencing tokens")
    return problems


def on_other_backends(found: Prepared) -> list[str]:
    """Why the plan's backend does not support its system, in one line at most."""
    plan, only = found.plan, found.backends()
    if only and plan.backend not in only:
        return [
            f"{plan.system} {found.confined_because()}: use --backend {only[0]} instead of"
            f" {plan.backend}"
        ]
    if plan.backend in catalogue.VIRTUAL_TIME:
        why = user_system.not_simulated(plan.system, found.row)
        return [why] if why else []
    return []


def not_whole(plan: Plan) -> list[str]:
    """Options of the workload and the backend that are no whole numbers, one line each."""
    return [
        f"invalid option {name}={value}: expected a whole number"
        for name, value in (workload_options(plan) | backend_options(plan)).items()
        if not value.isdigit()
    ]


def wrong_names(plan: Plan) -> list[str]:
    """What is wrong with the names that the plan gives its locks, one line at most."""
    if NAMES not in plan.options:
        return []
    names = plan.options[NAMES].split("+")
    odd = [
        name
        for name in names
        if not name.isprintable() or not 0 < len(name) <= 200 or name.startswith("/")
    ]
    if odd or len(set(names)) < len(names):
        return [
            f"option {NAMES}={plan.options[NAMES]}: expected different names, joined by '+', of 1"
            " to 200 printable characters, without a '/' at the start (--workload hierarchy adds"
            " it)"
        ]
    if len(names) < plan.locks:
        return [f"option {NAMES} has {len(names)} of {plan.locks} names (--locks {plan.locks})"]
    return []


def wrong_mutant(plan: Plan) -> list[str]:
    """Reasons why the plan's mutant cannot be planted, one line each."""
    name = plan.options.get("mutant")
    if name is None:
        return []
    if name not in MUTANTS:
        return [suggest(name, MUTANTS, "mutant")]
    part = MUTANTS[name].part
    if part not in (plan.system, "resource"):
        return [f"mutant {name} is a bug of {part}, not of {plan.system}"]
    return []


def unable(found: Prepared) -> list[str]:
    """The abilities that the workload needs and the system lacks, one line or none."""
    able, plan = found.abilities(), found.plan
    lacking = [need for need in found.workload.needs if need not in able]
    if not lacking:
        return []
    what = "; ".join(f"{need}: {ABILITIES[need]}" for need in lacking)
    hint = " (--set queue=priority)" if "priorities" in lacking else ""
    return [f"workload {plan.workload} needs abilities that {plan.system} lacks{hint}: {what}"]


def wrong_lease(found: Prepared) -> list[str]:
    """Why the system grants no lease of the plan's length, one line or none."""
    system, plan = found.system, found.plan
    if not isinstance(system, LimitsLeases):
        return []
    why = system.wrong_lease(plan.lease_ns, found.options)
    return [f"{plan.system}: {why}"] if why else []


def nemeses_elsewhere(plan: Plan) -> list[str]:
    """Nemeses that another backend than the plan's supports, one line each."""
    return [
        f"nemesis {name} supports only --backend {only}, not {plan.backend}"
        for name in kinds_of(plan)
        if (only := catalogue.NEMESES[name].only) and only != plan.backend
    ]


def out_of_reach(plan: Plan) -> list[str]:
    """Nemeses whose effect on real clients the plan's backend does not support, one line each."""
    backend = catalogue.BACKENDS[usable_backend(plan.backend)]
    problems = []
    for name in kinds_of(plan):
        traits = catalogue.NEMESES[name].traits
        if backend.virtual_time and traits.simulator != NOT_SIMULATED:
            continue
        if traits.on_packets and not backend.virtual_time and not backend.networks:
            problems.append(
                f"nemesis {name} needs one network per node: use --backend local, docker or ssh"
            )
        elif traits.on_connections and not backend.client_networks:
            problems.append(
                f"nemesis {name} needs one network per client: use --backend local or docker"
            )
        elif traits.in_client and not backend.clients_here:
            problems.append(
                f"nemesis {name} acts inside a client process on this machine: use --backend"
                " local, local-proxy or docker"
            )
        elif backend.virtual_time:
            problems.append(f"nemesis {name} does not run in the simulator: use --backend local")
    return problems


def without_connections(found: Prepared) -> list[str]:
    """Nemeses of clients' connections to servers, where the run starts none, one line each."""
    if found.system.ports:
        return []
    return [
        f"nemesis {name} acts on connections to the lock servers of the run: {found.plan.system}"
        " has none"
        for name in kinds_of(found.plan)
        if catalogue.NEMESES[name].traits.on_connections
    ]


def unknown_asks(found: Prepared) -> list[str]:
    """Properties that a workload requests and that no checker judges, one line each."""
    known = {*catalogue.CHECKERS, *found.checkers}
    return [
        f"workload {found.plan.workload}: {suggest(prop, known, 'property')}"
        for prop in found.asks
        if prop not in known
    ]


CHECKS: tuple[Check, ...] = (
    lambda found: too_many_nodes(found.plan, found.row) or other_number_of_nodes(found),
    lambda found: without_tokens(found.plan, resource_of(found), found.promises),
    on_other_backends,
    lambda found: not_whole(found.plan),
    lambda found: wrong_names(found.plan),
    lambda found: offered_load.problems(found.plan),
    lambda found: capacity.too_many(offered_load.shared(found.plan), found.servers),
    lambda found: wrong_mutant(found.plan),
    unable,
    wrong_lease,
    lambda found: user_system.missing_files(found.plan.system, found.system, found.options),
    lambda found: nemeses_elsewhere(found.plan),
    lambda found: out_of_reach(found.plan),
    without_connections,
    lambda found: server_names.problems(found.plan, found.system),
)
LAST: tuple[Check, ...] = (lambda found: own_code.problems(found.plan), unknown_asks)
"""They follow those of the features (PLAN_CHECKS of the catalogue)."""
