"""The swarm: one plan per seed, with random service, workload, faults and environment.

Correct services and planted bugs get the same distribution. Faults are dense and runs are short,
because that finds more in the same time than long runs.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import accumulate

from holdfast import catalogue
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.durations import duration_ns, duration_text
from holdfast.harness.core.loading import load
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.plan import Plan

BACKEND = "sim"
KINDS = {
    name: traits.swarm
    for name, row in catalogue.NEMESES.items()
    if (traits := row.traits).swarm is not None
}
"""How the kinds of fault are sampled, by their own nemeses."""
KILL = next(name for name in KINDS if catalogue.NEMESES[name].traits.kills)
"""The kind of fault of an outage."""
WORKLOADS = {
    "critical-section": 12,
    "lost-update": 6,
    "renewal": 24,
    "try-lock": 6,
    "abandoned": 6,
}
"""Relative frequency of each."""
OF_THE_API = {
    "read-write": 5,
    "semaphore": 5,
    "reentrant": 5,
    "queries": 5,
    "priority-flood": 5,
    "many-locks": 5,
    "duplicate-request": 5,
    "hierarchy": 4,
    "sequencers": 4,
    "manual-recovery": 5,
}
"""Workloads that need the whole lock API."""
OF_USE = {
    "singleton-job": 4,
    "leader-election": 4,
    "retry-storm": 4,
    "slow-dependency": 4,
    "shared-client-id": 4,
}
"""Use cases of locks, and client mistakes. In half of these seeds the protected resource dies too,
because it stores jobs and terms."""
LONG_NS = 1500 * MILLISECOND
"""Long enough for servers to elect a leader, and for a lease of its predecessor to expire."""
OUTAGES = 0.1
OUTAGE_RUN_NS = 16 * SECOND
OUTAGE = ((KILL, {"for": "11s", "every": "16s", "target": "minority"}),)
"""Part of the seeds of the vote and of `chubby` have one long fault: a system that tolerates
missing servers grants locks meanwhile. The reference service has no such seeds yet."""
SHORT_NS = tuple(ms * MILLISECOND for ms in (1200, 1600, 2000, 2400))
"""Times of the clients in short seeds."""
LEASES_NS = tuple(ms * MILLISECOND for ms in (200, 400, 700, 1500))
GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio."""
LAZY_WORKLOADS = ("critical-section", "renewal")
MORE_OF = {"hierarchy": 8, "semaphore": 8, "reentrant": 8, "queries": 8}
"""Weights of workloads that are the only ones to show some bugs, and seldom in PLAIN."""
SHORT_OF_LEASE = (0.05, 0.6)
"""A fault that ends while the lease lasts shows what it made a server forget of the holder."""
LAZY = {"lazy_pct": "25"}


class Way(StrEnum):
    """How seeds are drawn.

    PLAIN           each by itself
    OPPORTUNITIES   for what a defect needs to show: PLAIN with workloads in a low-discrepancy
                    order, some faults much shorter than the lease, none longer than a third of the
                    run, and owners that are silent for most of their lease
    """

    PLAIN = "plain"
    OPPORTUNITIES = "opportunities"


def draw(
    seed: int,
    system: str,
    nodes: int,
    given: Mapping[str, str],
    workload: str = "",
    way: Way = Way.PLAIN,
) -> Plan:
    """The plan of one seed. nodes: number of servers of the system; `given` options stay, and so
    does a workload that is given."""
    if way is Way.PLAIN:
        return _plain(seed, system, nodes, given, workload)
    workload = workload or ordered_workload(seed, {**weights(system), **_more_of(system)})
    return _for_opportunities(_plain(seed, system, nodes, given, workload), given)


def _plain(seed: int, system: str, nodes: int, given: Mapping[str, str], workload: str) -> Plan:
    rng = stream(seed, "swarm")
    whole = _whole(system)
    usual = weights(system)
    drawn = rng.choices(tuple(usual), tuple(usual.values()))[0]
    workload = workload or drawn
    lease_ns = rng.choice(LEASES_NS)
    options = {
        **_pace(rng, lease_ns),
        **_world(rng),
        **(_reference(rng) if whole else {}),
        **_of_workload(rng, workload, whole=whole),
    }
    plan = Plan(
        system=system,
        backend=BACKEND,
        workload=workload,
        resource=rng.choice(("fenced", "fenced", "strict")),
        seed=seed,
        time_ns=_length_ns(seed, rng.choice((3, 4, 5, 6)) * SECOND),
        lease_ns=lease_ns,
        nodes=rng.choice((3, 3, 3, 5)) if nodes > 1 else nodes,
        clients=rng.randint(2, 6),
        locks=max(rng.choice((1, 1, 1, 2, 3)), 2 if workload == "many-locks" else 1),
        options={
            **options,
            **_first_lease(seed, workload),
            **_late_entry(seed, workload),
            **_checks(seed),
            **given,
        },
        nemeses=(
            *_faults(rng, lease_ns, whole=whole),
            *(_deaths(rng) if workload in OF_USE else ()),
        ),
    )
    if load(catalogue.SYSTEMS[system].entry).promises({}).tokens == "none":
        plan = replace(plan, resource="unfenced")
    outage = not whole and nodes > 1 and rng.random() < OUTAGES
    return replace(plan, time_ns=OUTAGE_RUN_NS, nemeses=OUTAGE) if outage else plan


def weights(system: str) -> Mapping[str, float]:
    """Relative frequency of each workload that a system can run."""
    return {**WORKLOADS, **OF_THE_API, **OF_USE} if _whole(system) else WORKLOADS


def weighted_workload(seed: int, weights: Mapping[str, float]) -> str:
    """The workload of one seed by other weights. A stream of its own: `draw` with this workload
    gives the plan that every search with it gives."""
    rng = stream(seed, "swarm workload")
    return rng.choices(tuple(weights), tuple(weights.values()))[0]


def ordered_workload(seed: int, weights: Mapping[str, float]) -> str:
    """The workload of one seed so that any seeds in a row have each about as often as it weighs:
    multiples of the golden ratio fill the unit interval evenly."""
    part = (seed * GOLDEN & (1 << 64) - 1) / (1 << 64)
    *inner, whole = accumulate(weights.values())
    return tuple(weights)[bisect(inner, part * whole)]


def _more_of(system: str) -> Mapping[str, float]:
    return MORE_OF if _whole(system) else {}


def _for_opportunities(plan: Plan, given: Mapping[str, str]) -> Plan:
    """A stream of its own: the rest of the seed is as in PLAIN."""
    rng = stream(plan.seed, "swarm opportunities")
    lazy = rng.randrange(2) == 0 and plan.workload in LAZY_WORKLOADS
    options = {**plan.options, **(LAZY if lazy else {}), **given}
    if plan.nemeses == OUTAGE:
        return replace(plan, options=options)
    nemeses = tuple((kind, _length(rng, kind, args, plan)) for kind, args in plan.nemeses)
    return replace(plan, options=options, nemeses=nemeses)


def _length(rng: random.Random, kind: str, args: Mapping[str, str], plan: Plan) -> dict[str, str]:
    """Its options with another length in some seeds, and never one that the run has no room for."""
    short = rng.randrange(3) == 0
    share = rng.uniform(*SHORT_OF_LEASE)
    if "for" not in args:
        return dict(args)
    for_ns, every_ns = (duration_ns(args[name]) for name in ("for", "every"))
    if short:
        for_ns = max(MILLISECOND, round(share * plan.lease_ns / MILLISECOND) * MILLISECOND)
        every_ns = max(3 * for_ns, 400 * MILLISECOND)
    third_ns = plan.time_ns // 3 // MILLISECOND * MILLISECOND
    if for_ns > third_ns:
        for_ns, every_ns = third_ns, 2 * third_ns
    return {**args, "for": duration_text(for_ns), "every": duration_text(every_ns)}


def _whole(system: str) -> bool:
    """Whether a system has the whole lock API."""
    return system == "reference"


def _length_ns(seed: int, long_ns: int) -> int:
    """Time of the clients in this seed: long_ns in one of four, else shorter. A short seed finds
    less, but costs still less: a bug that needs no rare state shows early."""
    rng = stream(seed, "swarm length")
    short_ns = rng.choice(SHORT_NS)
    return short_ns if rng.randrange(4) else long_ns


def _pace(rng: random.Random, lease_ns: int) -> dict[str, str]:
    """Shape of the load: few slow holds, or many quick ones; some outlast the lease and are lost.
    Some waits time out before the end of the run, and some do not: a client timeout can hide that
    a waiter was forgotten."""
    gap_ms = round(lease_ns / MILLISECOND * rng.choice((0.02, 0.05, 0.15, 0.6)))
    return {
        "writes": str(rng.choice((1, 2, 4, 8))),
        "gap_ms": str(gap_ms),
        "think_ms": str(rng.choice((10, 40, 150))),
        "wait_ms": str(rng.choice((300, 1000, 5000, 20_000))),
        "hold_leases": str(rng.choice((1, 2, 3))),
        "renew_pct": str(rng.choice((33, 90, 98))),
        "renew_spread_pct": str(rng.choice((0, 5))),
    }


def _of_workload(rng: random.Random, workload: str, *, whole: bool) -> dict[str, str]:
    """Random options of this workload; whole: the service has the whole lock API."""
    options: dict[str, str] = {}
    if workload == "renewal" and rng.random() < 0.4:
        options["extend"] = "1"
    if workload == "queries" and rng.random() < 0.5:
        options["metadata"] = "1"
    if workload == "semaphore":
        options["permits"] = str(rng.randint(1, 3))
    if workload == "priority-flood":
        options["queue"] = "priority"
    if workload == "retry-storm":
        options["backoff_ms"] = str(rng.choice((20, 50, 150)))
    if workload == "slow-dependency":
        options["renews"] = str(rng.choice((0, 1)))
    # All clients under one name: what keys by it confuses one client's hold with another's.
    shared = {"shared-client-id": 1.0, "reentrant": 0.6}.get(workload, 0.3)
    if whole and rng.random() < shared:
        options["owner"] = "everybody"
    return options


def _deaths(rng: random.Random) -> tuple[tuple[str, dict[str, str]], ...]:
    """In half of these seeds the protected resource dies and restarts soon."""
    if rng.random() < 0.5:
        return ()
    times = {"for": f"{rng.choice((20, 200, 500))}ms", "every": f"{rng.choice((1, 2))}s"}
    return ((KILL, {**times, "target": "resource"}),)


def _first_lease(seed: int, workload: str) -> dict[str, str]:
    """In some seeds nothing is renewed at first: a renewal hides what is wrong with a first lease.
    A stream of its own, so that the rest of a seed stays as it is."""
    rng = stream(seed, "swarm first lease")
    first = workload == "critical-section" and rng.randrange(4) == 0
    return {"one_lease": "1"} if first else {}


def _late_entry(seed: int, workload: str) -> dict[str, str]:
    """In half of these seeds owners enter again about when their leases end. A stream of its own,
    as above."""
    rng = stream(seed, "swarm late entry")
    late = workload == "reentrant" and rng.randrange(2) == 0
    return {"late_entry": "1"} if late else {}


def _checks(seed: int) -> dict[str, str]:
    """Additional checks of some seeds, which do not change the history: real frames, bans."""
    rng = stream(seed, "swarm checks")
    return {name: "1" for name in ("sim_marshal", "sim_guard") if rng.randrange(50) == 0}


def _world(rng: random.Random) -> dict[str, str]:
    """Random options of network, disks and clocks."""
    options = {
        "sim_slow_us": str(rng.choice((500, 2000, 10_000, 40_000))),
        "sim_spike_us": str(rng.choice((0, 20_000, 200_000))),
        "sim_sync_us": str(rng.choice((0, 2000, 30_000))),
        "sim_drift_ppm": str(rng.choice((0, 100, 450))),
    }
    if rng.random() < 0.5:
        options["sim_loss_ppm"] = str(rng.choice((1000, 20_000, 100_000)))
        options["sim_double_ppm"] = str(rng.choice((1000, 20_000, 100_000)))
    return options


def _reference(rng: random.Random) -> dict[str, str]:
    """Random options of the reference service."""
    options = {
        "queue": rng.choice(("fifo", "fifo", "racing")),
        "election_ms": str(rng.choice((100, 150, 300))),
        "snapshot_every": str(rng.choice((3, 10, 40, 400))),
    }
    if rng.random() < 0.55:
        options["session_ms"] = str(rng.choice((200, 300, 600)))
    return options


def _faults(
    rng: random.Random, lease_ns: int, *, whole: bool
) -> tuple[tuple[str, dict[str, str]], ...]:
    """Up to four kinds, each with its own period; sometimes none, because some promises are judged
    only without faults. For each kind a run must show a grant meanwhile: with more kinds, most
    runs are inconclusive."""
    # Some kinds have two places: much of what a service can get wrong shows only after a death, a
    # wrong clock, a cut or a lost answer; some of it, as a forgotten vote, only after two together.
    places = sorted(
        (place, kind) for kind, of in KINDS.items() if whole or not of.disks for place in of.places
    )
    drawn = rng.sample([kind for _, kind in places], rng.choice((0, 0, 1, 1, 2, 2, 2, 3, 4, 4)))
    return tuple((kind, _timing(rng, kind, lease_ns)) for kind in dict.fromkeys(drawn))


def _timing(rng: random.Random, kind: str, lease_ns: int) -> dict[str, str]:
    """From part of a lease to long enough for an election and a grant, with at least the same time
    without the fault around it.
    """
    of = KINDS[kind]
    spans = [lease_ns // 2, lease_ns, lease_ns * 3 // 2, LONG_NS]
    for_ns = rng.choice([*of.instant_ns, *spans])
    every_ns = max(for_ns * rng.choice((2, 3)), 400 * MILLISECOND)
    timing = {"for": duration_text(for_ns), "every": duration_text(every_ns)}
    for name, values in of.options.items():
        timing[name] = rng.choice(values)
    target = rng.choice(("", *of.targets))
    return {**timing, "target": target} if target else timing
