"""Seeds whose clients work longer than the swarm lets them, as tests need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.engine import swarm
from holdfast.engine.seed_search import Seed, one_plan
from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare


def longer(seed: int, seconds: int, given: Mapping[str, str] | None = None) -> Plan:
    """The plan of a seed of `reference`, whose clients work for this time."""
    plan = swarm.draw(seed, "reference", 3, given or {})
    return replace(plan, time_ns=seconds * SECOND)


def one_longer(
    seed: int, seconds: int, given: Mapping[str, str] | None = None, *, validated: bool = False
) -> Seed:
    """Run and judge such a seed."""
    return one_plan(prepare.prepared(longer(seed, seconds, given)), "", validated=validated)
