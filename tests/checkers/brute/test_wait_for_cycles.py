"""Cycles of waits against every way round that some clients can wait for each other."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product

import pytest

from holdfast.checkers.properties.no_multi_lock_deadlock import check
from holdfast.checkers.properties.wait_cycles import FOUND_WITHIN_NS
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history
from tests.draws import Draws

BOUND = FOUND_WITHIN_NS / SECOND


@dataclass(slots=True)
class Hold:
    """A lock in a client's hand for sure."""

    process: int
    lock: str
    begun: float
    over: float


@dataclass(slots=True)
class Wait:
    """A client that knows that it waits for a lock."""

    process: int
    lock: str
    begun: float
    over: float


def tangle(rng: random.Random) -> tuple[list[Hold], list[Wait], str]:
    """Some clients that each hold a lock of their own, and wait for those of others meanwhile."""
    holds, waiting, words = [], [], []
    clients = range(1, rng.choice((2, 2, 3, 4)) + 1)
    for process in clients:
        begun = rng.randint(1, 6) / 2
        over = begun + rng.randint(12, 30) / 2
        holds.append(Hold(process, f"l{process}", begun, over))
        words += [(begun - 0.5, f"{process}.1a?:l{process}"), (begun, f"{process}.1a+{process}")]
        words += [(over, f"{process}.1r?:l{process}"), (over + 0.3, f"{process}.1r+")]
        at = begun
        for n in range(2, rng.randint(2, 4) + 1):
            asked = at + rng.randint(1, 4) / 2 + 0.01
            told, until = asked + 0.1, asked + 0.1 + rng.randint(4, 24) / 2
            if until > over:
                break
            lock = f"l{rng.choice([p for p in clients if p != process])}"
            waiting.append(Wait(process, lock, told, until))
            words += [(asked, f"{process}.{n}a?:{lock}"), (told, f"{process}.{n}Q:{lock}")]
            words.append((until, f"{process}.{n}a-"))
            at = until
    text = " ".join(f"{word}@{at:.2f}" for at, word in sorted(words))
    return holds, waiting, text


def edges(holds: list[Hold], waiting: list[Wait]) -> dict[tuple[int, int], list[Wait]]:
    """(who waits, for whom) -> the spans in which it did, for sure."""
    found: dict[tuple[int, int], list[Wait]] = {}
    for wait, hold in product(waiting, holds):
        if wait.lock == hold.lock and wait.process != hold.process:
            span = max(wait.begun, hold.begun), min(wait.over, hold.over)
            found.setdefault((wait.process, hold.process), []).append(Wait(0, "", *span))
    return found


def cycles(holds: list[Hold], waiting: list[Wait]) -> int:
    """How many ways round stood for too long, by trying each order of each set of clients."""
    found = edges(holds, waiting)
    processes = sorted({hold.process for hold in holds})
    count = 0
    for size in range(2, len(processes) + 1):
        for chosen in combinations(processes, size):
            for rest in permutations(chosen[1:]):
                way = (chosen[0], *rest, chosen[0])
                spans = [found.get(pair, []) for pair in pairwise(way)]
                for one in product(*spans):
                    together = min(w.over for w in one) - max(w.begun for w in one)
                    count += together > BOUND + 1e-6
    return count


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "cycles")
    seen: Counter[str] = Counter()
    for _ in range(n):
        holds, waiting, text = tangle(rng)
        told = case(history(text, lease=1000), promises={"order": "racing"})
        verdict = check(told)
        found = verdict.exercised["wait-for cycles"]
        assert bool(found) == bool(verdict.findings)
        assert found == cycles(holds, waiting), text
        seen["circle" if found else "none"] += 1
        seen["of three or more"] += any("c3 waited" in f.sentence for f in check(told).findings)
    return seen


def test_a_circle_is_found_if_and_only_if_some_way_round_stands_for_too_long(draws: Draws) -> None:
    seen = compare(1, draws(300))
    assert min(seen["circle"], seen["none"]) >= draws(60), seen


@pytest.mark.power
def test_a_circle_is_found_if_and_only_if_one_stands_in_very_many_tangles() -> None:
    seen = compare(2, 20_000)
    assert min(seen["circle"], seen["none"]) >= 4_000 and seen["of three or more"] >= 100, seen
