"""How long a workload's steps last."""

from __future__ import annotations

import random

from holdfast.workloads.shape import Shape

LEASE_NS = 1_000_000_000


def test_renewals_come_at_one_share_of_the_lease() -> None:
    shape, rng = Shape.of({"renew_pct": "90"}), random.Random(1)
    assert shape.renewals_ns(rng, LEASE_NS) == (900_000_000,)
    assert rng.random() == random.Random(1).random()


def test_spread_renewals_come_on_both_sides_of_it_and_never_at_once() -> None:
    waits = Shape.of({"renew_pct": "98", "renew_spread_pct": "5"}).renewals_ns(
        random.Random(1), LEASE_NS
    )
    assert all(930_000_000 <= wait <= 1_030_000_000 for wait in waits)
    assert min(waits) < 960_000_000 and max(waits) > 1_000_000_000
    waits = Shape.of({"renew_pct": "3", "renew_spread_pct": "50"}).renewals_ns(
        random.Random(1), LEASE_NS
    )
    assert min(waits) >= LEASE_NS // 100
