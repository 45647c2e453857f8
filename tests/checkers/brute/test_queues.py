"""Overtakes and starvation against every order in which requests can have come to the queue."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import product

import pytest

from holdfast.checkers.holds.waits import waits
from holdfast.checkers.properties import bounded_bypass, bounded_wait, starvation_freedom
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history
from tests.draws import Draws

ORDERS = ("fifo", "lifo", "any")
RANKS = ("a?", "Q", "a+", "r?", "r+")


@dataclass(slots=True)
class Asked:
    """One attempt, in steps of the clock: when it was called, queued, told so, granted, answered,
    and was out again. told -1: never told that it waits."""

    process: int
    n: int
    inv: int
    queued: int
    told: int
    granted: int = 0
    ret: int = 0
    token: int = 0
    out: int = 0

    def words(self) -> list[tuple[int, str]]:
        name = f"{self.process}.{self.n}"
        said = [(self.inv, f"{name}a?"), (self.ret, f"{name}a+{self.token}")]
        said += [(self.told, f"{name}Q")] if self.told >= 0 else []
        return [*said, (self.ret + 1, f"{name}r?"), (self.out, f"{name}r+")]


def queue(rng: random.Random, order: str) -> list[Asked]:
    """What some clients went through that each asked a few times of a lock served in an order."""
    made: list[Asked] = []
    ready = dict.fromkeys(range(1, rng.randint(3, 4) + 1), 0)
    waiting: list[Asked] = []
    counts: Counter[int] = Counter()
    now, free_at, token, most = 0, 0, 0, rng.choice((8, 8, 14))
    while len(made) < most or waiting:
        now += 1
        for process, at in ready.items():
            if at <= now and len(made) < most and rng.random() < 0.5:
                counts[process] += 1
                queued = now + rng.randint(0, 4)
                told = queued + rng.randint(0, 4) if rng.random() < 0.8 else -1
                one = Asked(process, counts[process], now, queued, told)
                made.append(one)
                waiting.append(one)
                ready[process] = 1 << 30
        here = sorted((w for w in waiting if w.queued <= now), key=lambda w: w.queued)
        if here and now >= free_at:
            pick = {"fifo": 0, "lifo": -1, "any": rng.randrange(len(here))}[order]
            one, token = here[pick], token + 1
            waiting.remove(one)
            one.granted, one.token = now, token
            one.told = one.told if one.told <= now else -1
            one.ret = now + rng.randint(0, 2)
            one.out = one.ret + 1 + rng.randint(0, 2)
            free_at = one.out + 1
            ready[one.process] = one.out + rng.randint(1, 4)
    return made


def certainly_overtaken(made: list[Asked]) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """By whom each was overtaken, whenever within their calls the two came to the queue."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for a, g in product(made, made):
        if a.process == g.process or a.told < 0 or g.token > a.token:
            continue
        # Who was told that it waits had come by then; who was not had come by its answer.
        came_a = range(a.inv, a.told + 1)
        came_g = range(g.inv, (g.told if g.told >= 0 else g.ret) + 1)
        if all(one < other for one, other in product(came_a, came_g)):
            found.setdefault((a.process, a.n), set()).add((g.process, g.n))
    return found


def beyond_queue(made: list[Asked], overtaken: dict[tuple[int, int], set[tuple[int, int]]]) -> int:
    """How many were served after more grants to others than there can have been ahead of them:
    counted one by one, and each of them against what truly happened."""
    found = 0
    for a in made:
        passed = overtaken.get((a.process, a.n), set())
        least = min((g.token for g in made if (g.process, g.n) in passed), default=a.token)
        others = [g for g in made if g.process != a.process]
        granted = sum(least <= g.token < a.token for g in others)
        ahead = sum(g.inv <= a.told and g.ret >= a.inv for g in others)
        if passed and granted > ahead:
            found += 1
            truly = sum(a.queued < g.granted < a.granted for g in others)
            assert truly > sum(g.queued <= a.queued < g.granted for g in others)
    return found


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "queues")
    seen: Counter[str] = Counter()
    for _ in range(n):
        order = rng.choice(ORDERS)
        made = queue(rng, order)
        # Within a step calls come first, so that who calls as another is told was there before.
        words = sorted(
            (10 * at + RANKS.index(text.lstrip("0123456789.")[:2]), text)
            for one in made
            for at, text in one.words()
        )
        told = case(history(" ".join(f"{text}@{at}" for at, text in words), lease=10_000))
        expected = certainly_overtaken(made)
        found = {
            (p.attempt.process, p.attempt.id & 0xFFFF): {(b.process, b.id & 0xFFFF) for b in p.by}
            for p in waits(told).overtaken
        }
        assert found == expected, (found, expected, made)
        overtaken = [f for f in bounded_bypass.check(told).findings if f.kind == "overtaken"]
        assert len(overtaken) == len(expected)
        starved = [f for f in starvation_freedom.check(told).findings if f.kind == "starved"]
        most = len(told.nodes)
        assert len(starved) == sum(len(by) > most for by in expected.values())
        beyond = [f for f in bounded_wait.check(told).findings if f.kind == "beyond-queue"]
        assert len(beyond) == beyond_queue(made, expected)
        assert order != "fifo" or not beyond
        assert order != "fifo" or not expected, "who is served in turn is overtaken by nobody"
        seen["overtaken" if expected else "in turn"] += 1
        seen["starved"] += bool(starved)
        seen["beyond"] += bool(beyond)
        seen["overtaken only"] += bool(overtaken and not beyond)
        seen[order] += 1
    return seen


def test_an_overtake_is_certain_if_and_only_if_every_order_of_coming_makes_it_one(
    draws: Draws,
) -> None:
    seen = compare(1, draws(250))
    assert min(seen["overtaken"], seen["in turn"]) >= draws(50), seen
    assert min(seen["beyond"], seen["overtaken only"]) >= draws(10), seen


@pytest.mark.power
def test_an_overtake_is_certain_if_and_only_if_it_is_one_in_very_many_queues() -> None:
    seen = compare(2, 20_000)
    assert min(seen["overtaken"], seen["in turn"]) >= 4_000 and seen["starved"] >= 20, seen
