"""How long a workload's steps last: options in words, defaults in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.harness.clock import MILLISECOND

DEFAULTS = {
    "writes": 4,
    "gap_ms": 8,
    "think_ms": 4,
    "wait_ms": 5000,
    "hold_leases": 3,
    "permits": 2,
    "ordered": 0,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """writes per hold, the gap before each, the pause after a release, the longest wait, how many
    leases a long hold lasts, how many permits a semaphore has, whether several locks are taken in
    order (1)."""

    writes: int
    gap_ns: int
    think_ns: int
    wait_ns: int
    hold_leases: int
    permits: int
    ordered: int

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
            ordered=value["ordered"],
        )
