"""How long a workload's steps last: options in words, defaults in one place."""

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
"""`workers` is for the driver: so many processes share the clients, 0: each has its own."""

TURNS = 16
"""So many renewals come each at a moment of its own, where they are spread; then the same again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """writes per hold, the gap before each, the pause after a release, the longest wait, how many
    leases a long hold lasts, how many permits a semaphore has, whether several locks are taken in
    order (1), after how many percent of its lease a long hold is renewed, and by how many percent
    of it sooner or later each time, how many acquires are due a second, of all clients together
    (0: as they come).

    mark   when a job is marked as done: with its effect (0), after it (1), before it (2)
    renews   whether an owner renews during a slow call; backoff_ns   after a refused try, at most
    extend   whether renewals ask for another lease than the first: for twice it and half, in turn
    metadata   whether each hold carries a text that names its attempt
    look   whether an owner looks at its lease right before it writes, and gives up if it is over
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
        """From `--set` options; what is not given has its default."""
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
        """How long to wait for each renewal in turn."""
        percent, spread = self.renew_pct, self.renew_spread_pct
        if not spread:
            return (lease_ns * percent // 100,)
        least_ns = lease_ns * max(1, percent - spread) // 100
        most_ns = lease_ns * (percent + spread) // 100
        return tuple(rng.randint(least_ns, most_ns) for _ in range(TURNS))

    def gives_up(self, renewed: bool, passed_ns: int, lease_ns: int) -> bool:
        """Whether an owner that looks sees its lease over. passed_ns: since it asked for it."""
        return self.look and (not renewed or passed_ns >= lease_ns)
