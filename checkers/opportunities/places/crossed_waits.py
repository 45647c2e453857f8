"""Clients that each held a lock and asked for the other's: wait-for cycles, however short.

A service that looks for cycles as requests arrive never lets one form: it refuses the request that
would close it. So of each cycle one request may have been refused without having waited, while all
others waited.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.overlaps import reaches
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.opportunities.places.passed_on import answered_at
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Op, Status


class QueuedWait(NamedTuple):
    """A client that was queued for one lock in a span, while it held others.

    held     lock -> when its hold ends, by its lease too
    entry    of its acquire in the table
    refused  its request was refused before its bound and was never queued: the span is its call
    """

    process: int
    wanted: int
    held: Mapping[int, int]
    from_ns: int
    to_ns: int
    entry: int = -1
    refused: bool = False


MOST_STEPS = 100_000
"""Limit on the waits that are followed in search of a cycle; beyond it none counts as found."""


def crossed(waits: Sequence[QueuedWait]) -> int:
    """1 if some of the waits formed a cycle at one time, else 0."""
    return int(next(cycles(waits), None) is not None)


def crossed_waits(case: Case) -> Places:
    """The first and the last wait of a cycle, for each wait that began one or was refused so that
    none began."""
    attempts = table(case)
    pairs = list(cycles(waits_of_holders(case)))
    first, last = (np.array([pair[n].entry for pair in pairs], np.intp) for n in (0, 1))
    seen_ns = [w.to_ns if w.refused else max(w.from_ns, after.from_ns) for w, after in pairs]
    return Places(
        np.array(seen_ns, np.int64),
        np.minimum(attempts.inv[first], attempts.inv[last]),
        {"waiter": attempts.row[first], "other": attempts.row[last]},
    )


@memoised
def waits_of_holders(case: Case) -> list[QueuedWait]:
    """The waits of clients that certainly held another lock meanwhile, by client, and in the order
    of their calls. Memoised."""
    return list(_waits(case))


def _waits(case: Case) -> Iterator[QueuedWait]:
    attempts = table(case)
    if not (attempts.key != attempts.key[:1]).any():
        return  # One lock only.
    ends = np.where(attempts.certain, attempts.end, -1)
    bounded = (attempts.wait >= 0) & (attempts.ret - attempts.inv >= attempts.wait)
    # A client that reached no server refused itself: no server looked for a cycle.
    answered = answered_at(case) == attempts.ret
    failed = (attempts.op == Op.ACQUIRE) & (attempts.status == Status.FAIL)
    refused = failed & answered & ~bounded
    asked, far = (attempts.queued >= 0) | refused, np.minimum(ends, reaches(case))
    for process in np.unique(attempts.process).tolist():
        mine = np.flatnonzero(attempts.process == process)
        latest = np.maximum.accumulate(ends[mine])
        inside = np.concatenate(([False], latest[:-1] > attempts.inv[mine[1:]]))
        for n in np.flatnonzero(inside & asked[mine]).tolist():
            before, a = mine[max(0, n - 8) : n], mine[n]
            other = (attempts.key[before] != attempts.key[a]) & (ends[before] > attempts.inv[a])
            keys, until = attempts.key[before[other]], far[before[other]]
            held = dict(zip(keys.tolist(), until.tolist(), strict=True))
            at_once = bool(attempts.queued[a] < 0)
            if at_once:
                # Its client held those locks when the service refused it, whenever that was.
                held = {key: end for key, end in held.items() if end >= attempts.ret[a]}
            if held:
                from_ns = int(attempts.inv[a] if at_once else attempts.queued[a])
                span = from_ns, int(attempts.ret[a])
                yield QueuedWait(process, int(attempts.key[a]), held, *span, int(a), at_once)


class _Holders:
    """Lock -> client -> its waits while it held that lock, in order of their beginning."""

    def __init__(self, waits: Sequence[QueuedWait]) -> None:
        self._of: defaultdict[int, defaultdict[int, list[QueuedWait]]]
        self._of = defaultdict(lambda: defaultdict(list))
        for wait in sorted(waits, key=attrgetter("from_ns")):
            for key in () if wait.refused else wait.held:
                self._of[key][wait.process].append(wait)
        self._times = {
            (key, process): (
                [wait.from_ns for wait in mine],
                list(accumulate((wait.to_ns for wait in mine), max)),
            )
            for key, clients in self._of.items()
            for process, mine in clients.items()
        }

    def waiting(self, key: int, from_ns: int, to_ns: int) -> Iterator[QueuedWait]:
        """The waits of clients that held a lock, at some time in a span."""
        for process, mine in self._of[key].items() if key in self._of else ():
            begun, over = self._times[key, process]
            some = mine[bisect_left(over, from_ns) : bisect_right(begun, to_ns)]
            yield from (wait for wait in some if wait.to_ns >= from_ns)


def cycles(waits: Sequence[QueuedWait]) -> Iterator[tuple[QueuedWait, QueuedWait]]:
    """The first and the last wait of a cycle at one time, at most one cycle for each first."""
    holders, left = _Holders(waits), MOST_STEPS
    for first in waits:
        ways = [(first, first.from_ns, first.to_ns, frozenset({first.process}))]
        while ways and left:
            left -= 1
            last, from_ns, to_ns, passed = ways.pop()
            for after in holders.waiting(last.wanted, from_ns, to_ns):
                if after.process in passed:
                    continue
                if first.refused and not _throughout(first, after, last.wanted):
                    continue
                begun, over = max(from_ns, after.from_ns), min(to_ns, after.to_ns)
                if after.wanted in first.held:
                    yield first, after
                    ways = []
                    break
                ways.append((after, begun, over, passed | {after.process}))


def _throughout(refused: QueuedWait, wait: QueuedWait, held: int) -> bool:
    """Whether a client waited and held a lock during a whole call that was refused: when the
    service decided that is not known."""
    lasted = min(wait.to_ns, wait.held[held])
    return wait.from_ns <= refused.from_ns and refused.to_ns <= lasted
