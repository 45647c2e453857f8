"""The command line of a plan, and of one that is changed so that it exercises what was missing."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.fault_traits import IN_TURN
from holdfast.harness.core.verdict import PlanChange
from holdfast.harness.plans.plan import FILE_NAMED, Plan

PAUSE = "think_ms"
"""The option of a workload for the pause of a client after each hold."""


def run_command(plan: Plan) -> str:
    """The command line that carries out a plan, which is of no scenario."""
    words = ["holdfast", "run", "--system", plan.system, "--backend", plan.backend]
    words += ["--workload", plan.workload]
    words += ["--resource", plan.resource] if plan.resource else []
    words += ["--nodes", str(plan.nodes)] if plan.nodes else []
    words += ["--clients", str(plan.clients), "--locks", str(plan.locks)]
    words += ["--time", duration_text(plan.time_ns), "--lease", duration_text(plan.lease_ns)]
    if plan.nemeses:
        words += ["--nemesis", ",".join(_nemesis_text(*nemesis) for nemesis in plan.nemeses)]
    for name in plan.checkers:
        words += ["--checker", name]
    words += ["--server-record"] if plan.server_record else []
    words += ["--require", ",".join(plan.require)] if plan.require else []
    for name, value in plan.options.items():
        file = value.partition("\n")[0].removeprefix(FILE_NAMED)
        of_file = value.startswith(FILE_NAMED)
        words += [f"--{name}", file] if of_file else ["--set", f"{name}={value}"]
    return shlex.join([*words, "--seed", str(plan.seed)])


def changed(plan: Plan, changes: Sequence[PlanChange]) -> Plan:
    """The plan with all changes, without exact faults: they are sampled."""
    asked = {name for name, _ in plan.nemeses} | {fault.do for fault in plan.faults}
    changes = [one for one in changes if not one.if_asked or one.nemesis in asked]
    # The lengths of all faults follow from the longest lease.
    lease_ns = max((plan.lease_ns, *(one.least_lease_ns for one in changes)))
    plan = replace(plan, faults=(), scenario="", must=())
    targets = {one.nemesis: _target(plan, changes, one.nemesis) for one in changes if one.target}
    beside = {one.target for one in changes if one.beside}
    turns = max((_turns(target, beside) for target in targets.values()), default=1.0)
    # As often as one of the changes needs them.
    often = sorted((one.every_leases, one.nemesis) for one in changes if one.every_leases)
    every = {nemesis: leases for leases, nemesis in reversed(often)}
    # The last length is the one that stays, and has to fit.
    lasts = {one.nemesis: one.fault_leases for one in changes if one.fault_leases}
    every = {nemesis: max(n, lasts.get(nemesis, 0) * 5 / 4) for nemesis, n in every.items()}
    for change in changes:
        kind = change.nemesis
        target, every_leases = targets.get(kind, ""), every.get(kind, 0.0)
        lasts_leases = change.least_leases * turns
        change = replace(
            change, target=target, every_leases=every_leases, least_leases=lasts_leases
        )
        plan = _changed(plan, change, lease_ns)
    # What needs several locks has none on one; what contends for one is only rarer on several.
    return replace(plan, locks=max((plan.locks, *(one.least_locks for one in changes))))


def _target(plan: Plan, changes: Sequence[PlanChange], nemesis: str) -> str:
    """The target of a kind of fault: in turn all servers that are asked for, else those of the
    plan, and what is asked for beside servers."""
    asked = [one for one in changes if one.nemesis == nemesis and one.target]
    beside = [one.target for one in asked if one.beside]
    own = dict(plan.nemeses).get(nemesis, {}).get("target", "")
    servers = [one.target for one in asked if not one.beside]
    kept = [one for one in own.split(IN_TURN) if one and one not in beside]
    return IN_TURN.join(dict.fromkeys((*(servers or kept), *beside)))


def _turns(target: str, beside: Collection[str]) -> float:
    """How much longer faults with targets in turn take than with one: owners need as many as they
    would need alone, of further servers each half as many."""
    owners = sum(one in beside for one in target.split(IN_TURN))
    servers = 1 + target.count(IN_TURN) - owners
    return owners + (servers + 1) / 2 if servers else owners


def _changed(plan: Plan, change: PlanChange, lease_ns: int) -> Plan:
    before, after = change.workloads
    return replace(
        plan,
        lease_ns=lease_ns,
        workload=after if after and plan.workload == before else plan.workload,
        time_ns=max(plan.time_ns, int(change.least_leases * lease_ns)),
        clients=max(plan.clients, change.clients),
        locks=min(plan.locks, change.locks) if change.locks else plan.locks,
        options=_options(plan.options, change.options),
        nemeses=_nemeses(plan, change, lease_ns) if change.nemesis else plan.nemeses,
    )


def _options(before: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Of two shares of the holds the larger serves both changes, of two pauses the shorter. A pause
    that the plan does not name is as short by default."""
    wanted = {name: value for name, value in wanted.items() if name != PAUSE or name in before}
    options = {**before, **wanted}
    for name in wanted.keys() & before.keys():
        if name.endswith("_pct") or name == PAUSE:
            better = min if name == PAUSE else max
            options[name] = better(before[name], wanted[name], key=int)
    return options


def _nemeses(
    plan: Plan, change: PlanChange, lease_ns: int
) -> tuple[tuple[str, Mapping[str, str]], ...]:
    timing = {"for": change.fault_leases, "every": change.every_leases}
    options = {name: duration_text(int(n * lease_ns)) for name, n in timing.items() if n}
    if change.target:
        options["target"] = change.target
    known = dict(plan.nemeses)
    own = dict(known.get(change.nemesis, {}))
    if change.every_leases:
        own.pop("at", "")  # of one fault
    known[change.nemesis] = {**own, **options}
    return tuple(known.items())


def _nemesis_text(name: str, options: Mapping[str, str]) -> str:
    given = ",".join(f"{key}={value}" for key, value in options.items())
    return f"{name}:{given}" if given else name
