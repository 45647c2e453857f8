"""Clients that each held a lock and waited for the other's: wait-for cycles, however short."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.harness.core.case import Case, memoised


class QueuedWait(NamedTuple):
    """A client that was queued for one lock in a span, while it held others. entry: of its acquire
    in the table."""

    process: int
    wanted: int
    held: frozenset[int]
    from_ns: int
    to_ns: int
    entry: int = -1


MOST_STEPS = 100_000
"""Limit on the pairs of waits that are searched for a cycle; beyond it none counts as found."""


def crossed(waits: Sequence[QueuedWait]) -> int:
    """1 if some of the waits formed a cycle at one time, else 0."""
    return int(next(_cycles(waits), None) is not None)


def crossed_waits(case: Case) -> Places:
    """The first and the last wait of a cycle, for each wait that began one."""
    attempts = table(case)
    entries = [(first.entry, last.entry) for first, last in _cycles(waits_of_holders(case))]
    first, last = (np.array([pair[n] for pair in entries], np.intp) for n in (0, 1))
    return Places(
        np.maximum(attempts.queued[first], attempts.queued[last]),
        np.minimum(attempts.inv[first], attempts.inv[last]),
        {"waiter": attempts.row[first], "other": attempts.row[last]},
    )


@memoised
def waits_of_holders(case: Case) -> list[QueuedWait]:
    """The waits of clients that certainly held another lock meanwhile, by client. Memoised."""
    return list(_waits(case))


def _waits(case: Case) -> Iterator[QueuedWait]:
    attempts = table(case)
    if not (attempts.key != attempts.key[:1]).any():
        return  # One lock only.
    ends = np.where(attempts.certain, attempts.end, -1)
    for process in np.unique(attempts.process).tolist():
        mine = np.flatnonzero(attempts.process == process)
        latest = np.maximum.accumulate(ends[mine])
        inside = np.concatenate(([False], latest[:-1] > attempts.inv[mine[1:]]))
        for n in np.flatnonzero(inside & (attempts.queued[mine] >= 0)).tolist():
            before, a = mine[max(0, n - 8) : n], mine[n]
            other = (attempts.key[before] != attempts.key[a]) & (ends[before] > attempts.inv[a])
            held = frozenset(attempts.key[before[other]].tolist())
            if held:
                span = int(attempts.queued[a]), int(attempts.ret[a])
                yield QueuedWait(process, int(attempts.key[a]), held, *span, entry=int(a))


def _cycles(waits: Sequence[QueuedWait]) -> Iterator[tuple[QueuedWait, QueuedWait]]:
    """The first and the last wait of a cycle at one time, at most one cycle for each first."""
    by_held: defaultdict[int, list[QueuedWait]] = defaultdict(list)
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
                    yield first, after
                    ways = []
                    break
                ways.append((after, begun, over, passed | {after.process}))
