"""Cycles of waits, beside all orders of all waits tried one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

from holdfast.checkers.opportunities.places.crossed_waits import QueuedWait, cycles
from tests.draws import Draws


def test_cycles_are_those_that_every_order_of_waits_has(draws: Draws) -> None:
    rng, seen = random.Random(20), {True: 0, False: 0}
    for _ in range(draws(3000)):
        waits = _drawn(rng)
        assert {first for first, _ in map(_numbers, cycles(waits))} == _naive(waits)
        for first, last in cycles(waits):
            assert last.wanted in first.held and last.process != first.process
            seen[first.refused] += 1
    assert min(seen.values()) > draws(100)


def _numbers(pair: tuple[QueuedWait, QueuedWait]) -> tuple[int, int]:
    return pair[0].entry, pair[1].entry


def _drawn(rng: random.Random) -> list[QueuedWait]:
    """At most two waits of each of three or four clients, one after another."""
    waits: list[QueuedWait] = []
    for process in range(rng.randint(2, 4)):
        at_ns = 0
        for _ in range(rng.randint(1, 2)):
            from_ns = at_ns + rng.randint(0, 4)
            to_ns = at_ns = from_ns + rng.randint(0, 6)
            wanted = rng.randrange(3)
            locks = [key for key in range(3) if key != wanted]
            held = {key: to_ns + rng.randint(-2, 2) for key in rng.sample(locks, rng.randint(1, 2))}
            refused = rng.random() < 0.4
            if refused:
                held = {key: max(to_ns, end) for key, end in held.items()}
            waits.append(
                QueuedWait(process, wanted, held, from_ns, to_ns, len(waits), refused=refused)
            )
    return waits


def _naive(waits: Sequence[QueuedWait]) -> set[int]:
    """The waits that began a cycle, or were refused so that none began."""
    return {
        order[0].entry for n in range(2, 5) for order in permutations(waits, n) if _is_cycle(order)
    }


def _is_cycle(order: Sequence[QueuedWait]) -> bool:
    first, *rest = order
    if len({wait.process for wait in order}) < len(order) or any(wait.refused for wait in rest):
        return False
    pairs = list(zip(order, [*rest, first], strict=True))
    if any(waiter.wanted not in holder.held for waiter, holder in pairs):
        return False
    if first.refused:
        return all(
            wait.from_ns <= first.from_ns and first.to_ns <= min(wait.to_ns, wait.held[key])
            for wait, key in ((holder, waiter.wanted) for waiter, holder in pairs[:-1])
        )
    return max(wait.from_ns for wait in order) <= min(wait.to_ns for wait in order)
