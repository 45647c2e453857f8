"""Whether clients that each held a lock waited for each other's at one time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple


class Wait(NamedTuple):
    """A client that was queued for one lock in a span, while it held others."""

    process: int
    wanted: int
    held: frozenset[int]
    from_ns: int
    to_ns: int


MOST_STEPS = 100_000
"""Limit on the pairs of waits that are searched for a cycle; beyond it none counts as found."""


def crossed(waits: Sequence[Wait]) -> int:
    """1 if some of the waits formed a cycle at one time, else 0."""
    by_held: defaultdict[int, list[Wait]] = defaultdict(list)
    for wait in waits:
        for key in wait.held:
            by_held[key].append(wait)
    left = MOST_STEPS
    for first in waits:
        ways = [(first, first.from_ns, first.to_ns, frozenset({first.process}))]
        while ways and left:
            left -= 1
            last, from_ns, to_ns, passed = ways.pop()
            for after in by_held.get(last.wanted, ()):
                begun, over = max(from_ns, after.from_ns), min(to_ns, after.to_ns)
                if after.process in passed or begun > over:
                    continue
                if after.wanted in first.held:
                    return 1
                ways.append((after, begun, over, passed | {after.process}))
    return 0
