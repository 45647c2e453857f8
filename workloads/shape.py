"""The shape of a workload: its durations and counts, from its options."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.harness.core.clock import MILLISECOND

DEFAULTS = {
    "writes": 4,
    "gap_ms": 8,
    "think_ms": 4,
    "wait_ms": 5000,
    "hold_leases": 3,
    "permits": 2,
    "look": 0,
    "ordered": 0,
    "mark": 0,
    "renews": 0,
    "backoff_ms": 0,
    "renew_pct": 33,
    "renew_spread_pct": 0,
    "extend": 0,
    "metadata": 0,
    "rate": 0,
    "workers": 0,
}
"""`workers` is for the driver: number of processes that share the clients, 0: one per client."""

TURNS = 16
"""With spread renewals: number of random delays, which then repeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Writes per hold, gap before each, pause after a release, longest wait, leases per long hold,
    permits of a semaphore, whether several locks are acquired in order (1), renewal time in % of
    the lease and its random spread in %, planned acquires per second of all clients together
    (0: closed loop).

    mark   when a job is marked as done: with its effect (0), after it (1), before it (2)
    renews   whether an owner renews during a slow call; backoff_ns   at most, after a rejection
    extend   whether renewals ask for twice and half of the first lease, in turn
    metadata   whether each hold has a text that names its attempt
    look   whether an owner checks its lease right before a write, and gives up if it has expired
    """

    writes: int
    gap_ns: int
    think_ns: int
    wait_ns: int
    hold_leases: int
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
    rate: int

    @staticmethod
    def of(options: Mapping[str, str]) -> Shape:
        """From `--set` options and defaults."""
        value = {name: int(options.get(name, default)) for name, default in DEFAULTS.items()}
        return Shape(
            writes=value["writes"],
            gap_ns=value["gap_ms"] * MILLISECOND,
            think_ns=value["think_ms"] * MILLISECOND,
            wait_ns=value["wait_ms"] * MILLISECOND,
            hold_leases=value["hold_leases"],
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
            rate=value["rate"],
        )

    def renewals_ns(self, rng: random.Random, lease_ns: int) -> tuple[int, ...]:
        """Delays before renewals, in turn."""
        percent, spread = self.renew_pct, self.renew_spread_pct
        if not spread:
            return (lease_ns * percent // 100,)
        least_ns = lease_ns * max(1, percent - spread) // 100
        most_ns = lease_ns * (percent + spread) // 100
        return tuple(rng.randint(least_ns, most_ns) for _ in range(TURNS))

    def gives_up(self, renewed: bool, passed_ns: int, lease_ns: int) -> bool:
        """Whether an owner that checks finds its lease expired. passed_ns: since its request."""
        return self.look and (not renewed or passed_ns >= lease_ns)
