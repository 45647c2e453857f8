"""What a workload asks of a client that grants a bounded number of permits at once."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from holdfast.clusters.systems.user_class.client import OwnClient
from holdfast.clusters.systems.user_class.virtual_client import VirtualOwnClient
from holdfast.harness.client.context import FewPermits
from holdfast.harness.core.operations import Terms
from holdfast.harness.core.ports import ClientSetup
from holdfast.workloads.kinds import semaphore


class Refusing:
    """A Context whose acquires are refused; it runs for some rounds."""

    def __init__(self, most_permits: int) -> None:
        self.most_permits, self.locks, self.rng = most_permits, ("l",), random.Random(1)
        self.options: dict[str, str] = {"permits": "3"}
        self.asked: list[Terms] = []

    @property
    def running(self) -> bool:
        return len(self.asked) < 20

    async def acquire(self, lock: str, *, wait_ns: int, terms: Terms) -> None:
        self.asked.append(terms)

    async def sleep(self, for_ns: int) -> None: ...


@pytest.mark.parametrize(("most", "permits"), [(0, {1, 2}), (1, {1}), (5, {1, 2})])
def test_a_semaphore_that_grants_one_permit_at_a_time_is_asked_for_one(
    most: int, permits: set[int]
) -> None:
    ctx = Refusing(most)
    asyncio.run(semaphore.client(cast(Any, ctx)))
    assert {terms.permits for terms in ctx.asked} == permits
    assert {terms.limit for terms in ctx.asked} == {3}


@pytest.mark.parametrize("made", [OwnClient, VirtualOwnClient])
def test_a_class_of_ones_own_says_how_many_permits_one_acquire_can_ask_for(made: Any) -> None:
    setup = ClientSetup(
        process=1, name="c1", servers=(), lease_ns=1, options={}, seed=7, clock=lambda: 0,
        tell=lambda *args, **more: None,
    )  # fmt: skip
    one = made(type("L", (), {"most_permits": 1, "acquire": len}), setup)
    other = made(type("L", (), {"acquire": len}), setup)
    assert isinstance(one, FewPermits) and (one.most_permits, other.most_permits) == (1, 0)
