"""Grants after a holder's death against every course that session, delay and release can take."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history
from tests.draws import Draws

SESSION, DELAY, LAST = 5, 4, 20
PROMISED = {"bound": "session", "delay_ns": DELAY * SECOND}


def drawn(rng: random.Random) -> tuple[str, bool]:
    """(words, whether some course of events allows the grant): process 0 holds in a session that
    may have been heard of again, and perhaps gives back; process 1 is granted the lock later."""
    words = [(0.0, "0h?"), (0.1, "0h+/5"), (0.2, "0a?"), (0.3, "0a+1"), (0.4, "1h?"), (0.5, "1h+")]
    beat, released = 0, 0
    if rng.random() < 0.5:
        beat = rng.randint(1, 4)
        answered = rng.random() < 0.7
        words += [(beat, "0h?"), (beat + 0.1, "0h+/5" if answered else "0h~")]
        beat = beat if answered else 0
    asked, passed = rng.randint(1, 12), rng.randint(0, 4)
    granted = asked + passed
    if rng.random() < 0.3 and granted > beat + 1:
        released = rng.randint(beat + 1, granted - 1)
        words += [(released + 0.2, "0r?"), (released + 0.3, rng.choice(("0r+", "0r~")))]
    words += [(asked + 0.6, "1a?"), (granted + 0.7, "1a+2"), (30, "1r?"), (30.1, "1r+")]
    text = " ".join(f"{word}@{at:.1f}" for at, word in sorted(words))
    return text, possible(beat, released, asked, granted)


def possible(beat: int, released: int, asked: int, granted: int) -> bool:
    """Tries every moment at which the session may have ended and the grant have taken effect."""
    moments = range(asked, granted + 1)
    if released and any(released <= grant for grant in moments):
        return True
    ends = range(beat + SESSION, LAST)
    return any(end + DELAY <= grant for end, grant in product(ends, moments))


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "lock delays")
    seen: Counter[str] = Counter()
    for _ in range(n):
        text, allowed = drawn(rng)
        kinds = [f.kind for f in check(case(history(text), promises=PROMISED)).findings]
        assert bool(kinds) != allowed, (text, kinds)
        seen["allowed" if allowed else "refuted"] += 1
        seen["early"] += "early-grant" in kinds
    return seen


def test_a_grant_is_early_if_and_only_if_no_course_of_events_allows_it(draws: Draws) -> None:
    seen = compare(1, draws(400))
    assert min(seen.values()) >= draws(80), seen


@pytest.mark.power
def test_a_grant_is_early_if_and_only_if_in_very_many_histories() -> None:
    seen = compare(2, 20_000)
    assert min(seen.values()) >= 4_000, seen
