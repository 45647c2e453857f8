"""Tries that go on and on while grants stop, beside a count of them by hand."""

from __future__ import annotations

from itertools import pairwise, product

from holdfast.checkers.properties import starvation_freedom
from holdfast.checkers.properties.livelock import LEAST, livelocks
from tests.checkers.shorthand import case

START = "0a?@0 0a+1@1 2a?@1.5 2Q@1.6 0r?@2 0r+@3 2a+2@3.1 2r?@3.2 2r+@3.3"


def storm(counts: tuple[int, ...], clients: int = 2) -> str:
    """Refused tries, so many in each span of two seconds from 10 s on, by clients in turn."""
    words = []
    n = 0
    for span, times in enumerate(counts):
        for k in range(times):
            at = 10 + 2 * span + 1.9 * k / times
            who = 4 + n % clients
            words.append((at, f"{who}t?@{at:.3f} {who}t-@{at + 0.01:.3f}"))
            n += 1
    return " ".join([START, *(word for _, word in sorted(words))])


def kinds(text: str) -> list[str]:
    return [finding.kind for finding in livelocks(case(text))]


def test_a_storm_without_a_grant_is_a_livelock_and_starves() -> None:
    text = storm((6, 6, 6))
    assert kinds(text) == ["livelock"]
    assert "livelock" in [f.kind for f in starvation_freedom.check(case(text)).findings]


def test_a_storm_that_somebody_comes_out_of_is_none() -> None:
    granted = storm((6,)) + " 9t?@12 9t+3@12.1 9r?@12.2 9r+@12.3"
    assert kinds(granted) == []


def test_one_client_alone_makes_no_storm() -> None:
    assert kinds(storm((6, 6, 6), clients=1)) == []


def test_every_small_storm_is_judged_as_counted_by_hand() -> None:
    seen = set()
    for counts in product((0, 1, 3, 6, 12), repeat=3):
        if 0 in counts[:-1] or counts[0] + counts[1] < 2:
            continue
        shots = [10 + 2 * s + 1.9 * k / n for s, n in enumerate(counts) for k in range(n)]
        middle = (shots[0] + shots[-1] + 0.01) / 2
        later = sum(at >= middle for at in shots)
        gaps = [b - a for a, b in pairwise(shots)]
        if max(gaps, default=0) > 1 or shots[-1] - shots[0] < 3:
            continue
        expected = len(shots) >= LEAST and 2 * later >= len(shots)
        assert kinds(storm(counts)) == (["livelock"] if expected else []), counts
        seen.add(expected)
    assert seen == {True, False}
