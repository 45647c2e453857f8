"""Whether ever more hold at once than a semaphore or a read-write lock allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.models.lock_columns import Ints, LockColumns, Rows
from holdfast.checkers.models.spans import Holds, Instants

SHOWN = 5
"""Holds that one contradiction names at most."""

Crowd = tuple[str, tuple[int, ...], tuple[int, ...]]
"""The kind of a conflict, the rows of the forced hold if it is about one, and indices of holds."""


def crowds(
    columns: LockColumns, limit: int | None, holds: Holds, instants: Instants
) -> Iterator[Crowd]:
    """Grants that came while no permit was left, or beside a writer; O(n log n).

    limit   permits; None for a read-write lock. There a reader weighs one and a writer as much as
            all, so that what may hold at once is one sum.
    """
    scale = _Scale(columns, limit)
    real = np.flatnonzero(holds.start < holds.end)
    level = _Level(scale, holds, real)
    for at in level.too_many().tolist():
        late, moment = level.at(at)
        beside = real[(holds.start[real] <= moment) & (holds.end[real] > moment)]
        others = [one for one in beside.tolist() if one != late]
        yield "double-hold", (), (late, *others[: SHOWN - 1])
    flat = np.flatnonzero(holds.start == holds.end)
    forced = Instants(
        np.concatenate((instants.low, holds.start[flat])),
        np.concatenate((instants.high, holds.end[flat])),
        np.concatenate((instants.acquire, holds.acquire[flat])),
        np.concatenate((instants.release, holds.release[flat])),
    )
    for one in level.no_room(forced).tolist():
        inside = real[(holds.start[real] < forced.low[one]) & (holds.end[real] > forced.low[one])]
        yield "no-instant", forced.rows(one), tuple(inside[:2].tolist())


class _Scale:
    """What holds weigh, and how much may hold at once."""

    def __init__(self, columns: LockColumns, limit: int | None) -> None:
        self._shared = columns.shared
        self.readers = limit is None
        self.limit = len(columns) + 1 if limit is None else limit

    def of(self, acquires: Rows) -> Ints:
        """The weights of the holds of these acquires."""
        if not self.readers:
            return np.ones(len(acquires), np.int64)
        return np.where(self._shared.take(acquires), 1, self.limit).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Events:
    """Ends and begins of holds in order of time, ends first; the sum of weights after each."""

    times: Ints
    change: Ints
    who: Ints
    level: Ints


class _Level:
    """How much holds at a moment. Holds that last no time are not counted."""

    def __init__(self, scale: _Scale, holds: Holds, real: Ints) -> None:
        self._scale, self._holds, self._real = scale, holds, real
        start = holds.start.take(real)
        self._by_start = np.argsort(start, kind="stable")
        self._starts = start.take(self._by_start)
        self._ends = holds.end.take(real)
        self._made: _Events | None = None

    def too_many(self) -> Ints:
        """Events after which more holds than may."""
        if self._surely_few():
            return np.zeros(0, np.int64)
        events = self._events()
        return np.flatnonzero((events.change > 0) & (events.level > self._scale.limit))

    def _surely_few(self) -> bool:
        """Whether never more held than may: then there is no need to merge ends and begins."""
        limit = self._scale.limit
        if not self._scale.readers:
            # Whoever came found that all but a few of those before had left.
            return not (self._starts[limit:] < self._ends[:-limit]).any()
        ends = self._ends.take(self._by_start)
        alone = self._scale.of(self._holds.acquire.take(self._real.take(self._by_start))) > 1
        last = np.maximum.accumulate(ends)[:-1]
        writer = np.maximum.accumulate(np.where(alone, ends, self._starts))[:-1]
        return not (np.where(alone[1:], last, writer) > self._starts[1:]).any()

    def at(self, event: int) -> tuple[int, int]:
        """Which hold begins with an event, and when."""
        events = self._events()
        return int(events.who[event]), int(events.times[event])

    def no_room(self, forced: Instants) -> Ints:
        """Forced holds at no moment of whose window there was room for them.

        Around a moment lie the holds that began before and end after it. They weigh least where
        the window begins, or just after an end in it.
        """
        weight = self._scale.of(forced.acquire)
        limit = self._scale.limit
        tight = np.flatnonzero(self._around(forced.low) + weight > limit)
        if not len(tight):
            return tight
        low, high = forced.low.take(tight), forced.high.take(tight)
        fewest = self._fewest(low, high)
        return tight[fewest + weight.take(tight) > limit]

    def _around(self, moments: Ints) -> Ints:
        """The weight of the holds that began before a moment and end after it."""
        begun = np.searchsorted(self._starts, moments, "left")
        over = np.searchsorted(self._ends, moments, "right")
        if not self._scale.readers:
            return np.asarray(begun - over, np.int64)
        weight = self._scale.of(self._holds.acquire.take(self._real))
        came = np.concatenate(([0], np.cumsum(weight.take(self._by_start))))
        left = np.concatenate(([0], np.cumsum(weight)))
        return np.asarray(came.take(begun) - left.take(over), np.int64)

    def _fewest(self, low: Ints, high: Ints) -> Ints:
        """The least that holds just after an end in (low, high]; more than may where none is."""
        events = self._events()
        first = np.searchsorted(self._ends, low, "right")
        last = np.searchsorted(self._ends, high, "right")
        downs = np.flatnonzero(events.change < 0)
        same = np.searchsorted(self._ends, self._ends, "right") - 1
        after = np.append(events.level.take(downs.take(same)), 0)
        fewest = np.full(len(low), self._scale.limit, np.int64)
        some = np.flatnonzero(first < last)
        if len(some):
            edges = np.column_stack((first[some], last[some])).ravel()
            fewest[some] = np.minimum.reduceat(after, edges)[::2]
        return fewest

    def _events(self) -> _Events:
        if self._made is None:
            weight = self._scale.of(self._holds.acquire.take(self._real))
            times = np.concatenate((self._ends, self._starts))
            change = np.concatenate((-weight, weight.take(self._by_start)))
            who = np.concatenate((self._real, self._real.take(self._by_start)))
            # Two runs, each in order: a stable sort merges them, and ends come first.
            order = np.argsort(times, kind="stable")
            change = change.take(order)
            self._made = _Events(times.take(order), change, who.take(order), np.cumsum(change))
        return self._made
