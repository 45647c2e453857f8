"""Whether ever more hold at once than a semaphore or a read-write lock allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.checkers.linearizability.exact.hold_intervals import BLOCK, Holds, Instants
from holdfast.checkers.linearizability.exact.pairing import Bools, Ints, LockColumns, Rows

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

    def alone(self, acquires: Rows) -> Bools:
        """Which holds of these acquires weigh as much as all: those of writers."""
        if not self.readers:
            return np.zeros(len(acquires), bool)
        return ~self._shared.take(acquires)

    def of(self, alone: Bools) -> Ints:
        """What such holds weigh."""
        return np.where(alone, self.limit, 1).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class _Events:
    """Ends and begins of holds in order of time, ends first; the sum of weights after each."""

    times: Ints
    change: Ints
    who: Ints
    level: Ints


class _Level:
    """How much holds at a moment. Holds that last no time are not counted.

    What has the length of the history is made once and kept; all else is made block by block.
    """

    def __init__(self, scale: _Scale, holds: Holds, real: Ints) -> None:
        self._scale, self._holds, self._real = scale, holds, real
        every = len(real) == len(holds.start)
        start = holds.start if every else holds.start.take(real)
        self._ends = holds.end if every else holds.end.take(real)
        self._start = start
        if scale.readers:
            self._starts = start.take(self._by_start)
        else:
            self._starts = np.sort(start, kind="stable")
        self._alone = np.zeros(len(real) if scale.readers else 0, bool)
        for rows in _blocks(len(self._alone)):
            self._alone[rows] = scale.alone(holds.acquire.take(real[rows]))
        self._made: _Events | None = None

    @cached_property
    def _by_start(self) -> Ints:
        return np.argsort(self._start, kind="stable")

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
        return all(self._apart())

    def _apart(self) -> Iterator[bool]:
        """Of each block of holds in order of begin, whether every writer found that all before it
        had left, and every reader all writers."""
        last = writer = np.iinfo(np.int64).min
        for rows in _blocks(len(self._starts)):
            start, which = self._starts[rows], self._by_start[rows]
            end, alone = self._ends.take(which), self._alone.take(which)
            lasts = np.maximum.accumulate(np.append(last, end))
            writers = np.maximum.accumulate(np.append(writer, np.where(alone, end, start)))
            yield not (np.where(alone, lasts[:-1], writers[:-1]) > start).any()
            last, writer = int(lasts[-1]), int(writers[-1])

    def at(self, event: int) -> tuple[int, int]:
        """Which hold begins with an event, and when."""
        events = self._events()
        return int(events.who[event]), int(events.times[event])

    def no_room(self, forced: Instants) -> Ints:
        """Forced holds at no moment of whose window there was room for them.

        Around a moment lie the holds that began before and end after it. They weigh least where
        the window begins, or just after an end in it.
        """
        limit = self._scale.limit
        counts = self._writers() if self._scale.readers else None
        found = []
        for rows in _blocks(len(forced.low)):
            weight = self._scale.of(self._scale.alone(forced.acquire[rows]))
            around = self._around(forced.low[rows], counts)
            found.append(np.flatnonzero(around + weight > limit) + rows.start)
        tight = np.concatenate(found) if found else np.zeros(0, np.int64)
        if not len(tight):
            return tight
        low, high = forced.low.take(tight), forced.high.take(tight)
        weight = self._scale.of(self._scale.alone(forced.acquire.take(tight)))
        return tight[self._fewest(low, high) + weight > limit]

    def _writers(self) -> tuple[Rows, Rows]:
        """How many of the first holds, in order of begin and in order of end, are writers'."""
        came, left = (np.zeros(len(self._alone) + 1, np.int32) for _ in range(2))
        for rows in _blocks(len(self._alone)):
            after = slice(rows.start + 1, rows.start + 1 + len(self._alone[rows]))
            for sums, alone in (
                (came, self._alone.take(self._by_start[rows])),
                (left, self._alone[rows]),
            ):
                np.cumsum(alone, dtype=np.int32, out=sums[after])
                sums[after] += sums[rows.start]
        return came, left

    def _around(self, moments: Ints, writers: tuple[Rows, Rows] | None) -> Ints:
        """The weight of the holds that began before a moment and end after it."""
        begun = np.searchsorted(self._starts, moments, "left")
        over = np.searchsorted(self._ends, moments, "right")
        weight = np.asarray(begun - over, np.int64)
        if writers is not None:
            came, left = writers
            weight += (came.take(begun) - left.take(over)) * np.int64(self._scale.limit - 1)
        return weight

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
            alone = self._scale.alone(self._holds.acquire.take(self._real))
            weight = self._scale.of(alone)
            times = np.concatenate((self._ends, self._starts))
            change = np.concatenate((-weight, weight.take(self._by_start)))
            who = np.concatenate((self._real, self._real.take(self._by_start)))
            # Two runs, each in order: a stable sort merges them, and ends come first.
            order = np.argsort(times, kind="stable")
            change = change.take(order)
            self._made = _Events(times.take(order), change, who.take(order), np.cumsum(change))
        return self._made


def _blocks(length: int) -> Iterator[slice]:
    for low in range(0, length, BLOCK):
        yield slice(low, low + BLOCK)
