"""What checkers find in histories in which everything happens at once, the verifier accepts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.checkers.busy_histories import busy
from tests.checkers.recorded_verdicts import CHECKERS
from tests.checkers.test_near_misses import later
from tests.draws import Draws


def judged(count: int, seed: str) -> Counter[str]:
    """How many findings of each kind; each is verified, and every order (see conftest)."""
    chance, seen = random.Random(f"busy {seed}"), Counter[str]()
    for _ in range(count):
        one = later(busy(chance))
        for check in CHECKERS.values():
            seen.update(finding.kind for finding in check(one).findings)
    return seen


def test_every_finding_in_busy_histories_is_verified(draws: Draws) -> None:
    seen = judged(draws(250), "few")
    assert len(seen) > 12 and seen["false-answer"] > draws(50), seen


@pytest.mark.power
@pytest.mark.parametrize("seed", range(4))
def test_the_same_of_very_many(seed: int) -> None:
    judged(20_000, f"many {seed}")
