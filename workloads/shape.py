"""The shape of a workload: its durations and counts, from its options."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.harness.core.clock import MILLISECOND

OPTIONS = {
    "writes": (4, "writes per hold"),
    "gap_ms": (8, "pause before each write, or each further call of a hold"),
    "think_ms": (4, "mean pause after a release"),
    "together_ms": (0, "n: clients of one host ask at once, at multiples of n ms of its clock"),
    "wait_ms": (5000, "longest wait of an acquire"),
    "hold_leases": (3, "length of a long hold, in leases"),
    "brief_pct": (0, "share of long holds, in %, that last 10 % of a lease"),
    "permits": (2, "permits of a semaphore"),
    "look": (0, "1: an owner checks its lease right before a write, and gives up if it is over"),
    "ordered": (0, "1: several locks are acquired in the order of their names"),
    "mark": (0, "a job is marked as done with its effect (0), after it (1), before it (2)"),
    "renews": (0, "1: an owner renews during a slow call"),
    "backoff_ms": (0, "longest pause after a rejection"),
    "renew_pct": (33, "time of a renewal after the one before, in % of the lease"),
    "renew_spread_pct": (0, "random part of that time, in % of the lease, earlier or later"),
    "extend": (0, "1: renewals ask for twice and for half of the first lease, in turn"),
    "metadata": (0, "1: each hold has a text that names its attempt"),
    "lazy_pct": (0, "share of holds, in %, whose owner is silent for most of its lease"),
    "late_pct": (0, "share of lazy holds, in %, whose owner wakes up when its lease is over"),
    "stopped": (
        0,
        "1: the process of such a late owner does not run until then (critical-section)",
    ),
    "dies_pct": (0, "share of holds, in %, whose owner exits in place of the release"),
    "one_lease": (0, "1: a critical section does not renew: its hold has its first lease only"),
    "late_entry": (0, "1: a reentrant owner enters again about when its lease ends, or later"),
    "rate": (0, "planned acquires per second of all clients together; 0: closed loop"),
    "workers": (0, "processes that share the clients; 0: one per client"),
}
"""Option of a workload -> (default, what it is): whole numbers. `workers` is for the driver."""
DEFAULTS = {name: default for name, (default, _) in OPTIONS.items()}

LATE_NS = 800 * MILLISECOND
"""Longest time after the end of its lease at which an owner wakes up."""
TURNS = 16
"""With spread renewals: number of random delays, which then repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """`OPTIONS`, with times in ns and the truth of what is 0 or 1."""

    writes: int
    gap_ns: int
    think_ns: int
    together_ns: int
    wait_ns: int
    hold_leases: int
    brief_pct: int
    permits: int
    look: bool
    ordered: int
    mark: int
    renews: bool
    backoff_ns: int
    renew_pct: int
    renew_spread_pct: int
    extend: bool
    metadata: bool
    one_lease: bool
    lazy_pct: int
    late_pct: int
    stopped: bool
    dies_pct: int
    late_entry: bool
    rate: int

    @staticmethod
    def of(options: Mapping[str, str]) -> Shape:
        """From `--set` options and defaults."""
        value = {name: int(options.get(name, default)) for name, default in DEFAULTS.items()}
        return Shape(
            writes=value["writes"],
            gap_ns=value["gap_ms"] * MILLISECOND,
            # A pause is sampled from 1 ns to twice the mean, or to the mean: not an empty range.
            think_ns=max(2, value["think_ms"] * MILLISECOND),
            together_ns=value["together_ms"] * MILLISECOND,
            wait_ns=value["wait_ms"] * MILLISECOND,
            hold_leases=value["hold_leases"],
            brief_pct=value["brief_pct"],
            permits=max(1, value["permits"]),
            look=bool(value["look"]),
            ordered=value["ordered"],
            mark=value["mark"],
            renews=bool(value["renews"]),
            backoff_ns=value["backoff_ms"] * MILLISECOND,
            renew_pct=max(1, value["renew_pct"]),
            renew_spread_pct=value["renew_spread_pct"],
            extend=bool(value["extend"]),
            metadata=bool(value["metadata"]),
            one_lease=bool(value["one_lease"]),
            lazy_pct=value["lazy_pct"],
            late_pct=value["late_pct"],
            stopped=bool(value["stopped"]),
            dies_pct=value["dies_pct"],
            late_entry=bool(value["late_entry"]),
            rate=value["rate"],
        )

    def rest_ns(self, rng: random.Random, now_ns: int, most_ns: int) -> int:
        """How long a client pauses before its next acquire."""
        if self.together_ns:
            return self.together_ns - now_ns % self.together_ns
        return rng.randrange(1, most_ns)

    def held_ns(self, rng: random.Random, lease_ns: int) -> int:
        """Length of the next long hold."""
        brief = self.brief_pct > 0 and rng.randrange(100) < self.brief_pct
        return lease_ns // 10 if brief else self.hold_leases * lease_ns

    def renewals_ns(self, rng: random.Random, lease_ns: int) -> tuple[int, ...]:
        """Delays before renewals, in turn."""
        percent, spread = self.renew_pct, self.renew_spread_pct
        if not spread:
            return (lease_ns * percent // 100,)
        least_ns = lease_ns * max(1, percent - spread) // 100
        most_ns = lease_ns * (percent + spread) // 100
        return tuple(rng.randint(least_ns, most_ns) for _ in range(TURNS))

    def lazy(self, rng: random.Random) -> bool:
        """Whether the next hold is one whose owner is silent for most of its lease."""
        return self.lazy_pct > 0 and rng.randrange(100) < self.lazy_pct

    def late(self, rng: random.Random) -> bool:
        """Whether the owner of a lazy hold wakes up when its lease is over."""
        return self.late_pct > 0 and rng.randrange(100) < self.late_pct

    def dies(self, rng: random.Random) -> bool:
        """Whether the owner of a hold exits in place of the release."""
        return self.dies_pct > 0 and rng.randrange(100) < self.dies_pct

    @staticmethod
    def silence_ns(rng: random.Random, lease_ns: int, *, late: bool) -> int:
        """How long the owner of a lazy hold is silent: half to most of its lease, so that others
        ask while the lease is in force and the service hears nothing of the owner.

        late: until after its end, so that the lock belongs to another when it goes on; for less
        time than any service has to notify it, for it does not ask.
        """
        if late:
            return lease_ns + rng.randint(min(lease_ns // 10, LATE_NS), LATE_NS)
        return rng.randint(lease_ns // 2, lease_ns * 19 // 20)

    def gives_up(self, renewed: bool, passed_ns: int, lease_ns: int) -> bool:
        """Whether an owner that checks finds its lease expired. passed_ns: since its request."""
        return self.look and (not renewed or passed_ns >= lease_ns)
