"""Traces of lease servers without a disk: theirs are allowed, wrong answers are not."""

from __future__ import annotations

import pytest

from holdfast.clusters.systems.single.specification import Answered, Started, validate
from holdfast.engine.seed_search import one_seed

Told = tuple[int, dict[str, object], dict[str, object]]
ACQUIRE = {"op": "acquire", "lock": "a", "ttl_ns": 10, "owner": "c1"}


def rule(*steps: Told, leases: str = "") -> str:
    """What departs in a trace of (time, request, answer), "" for nothing."""
    events = [Started("n1", 0), *(Answered("n1", 0, *step) for step in steps)]
    found = validate(events, nodes=1, options={"leases": leases} if leases else {})
    return f"{found.allows}, not {found.happened}" if found else ""


def acquire(now_ns: int, attempt: int, **answer: object) -> Told:
    return now_ns, {**ACQUIRE, "attempt": attempt}, answer


@pytest.mark.parametrize("system", ["single", "majority"])
@pytest.mark.parametrize("seed", range(40, 46))
def test_every_answer_of_the_servers_is_allowed(system: str, seed: int) -> None:
    ran = one_seed(seed, system, {}, validated=True)
    assert ran.departure is None
    assert ran.steps > 20


def test_a_lease_ends_at_its_time_and_never_comes_back() -> None:
    held = acquire(0, 1, **{"is": "granted"}, token=1)
    assert not rule(held, acquire(10, 2, **{"is": "granted"}, token=2))
    assert rule(held, acquire(9, 2, **{"is": "granted"}, token=2)).startswith("{'is': 'held'")
    assert rule(held, acquire(10, 2, **{"is": "held"}, owner="c1")).startswith("{'is': 'granted'")
    assert rule(held, acquire(10, 1, **{"is": "granted"}, token=2)).startswith("{'is': 'stale'")
    assert not rule(held, acquire(10, 2, **{"is": "held"}, owner="c1"), leases="none")


def test_tokens_grow_and_a_release_ends_its_own_lease_only() -> None:
    held = acquire(0, 1, **{"is": "granted"}, token=1)
    release = {"op": "release", "lock": "a", "attempt": 1, "call": 1}
    freed = 1, release, {"is": "released", "token": 1}
    assert not rule(held, freed, freed, acquire(2, 2, **{"is": "granted"}, token=2))
    assert "'token': 2" in rule(held, freed, acquire(2, 2, **{"is": "granted"}, token=1))
    other = 1, {**release, "attempt": 2}, {"is": "released", "token": 1}
    assert rule(held, other).startswith("{'is': 'not-holder', 'reason': 'unknown'}")
