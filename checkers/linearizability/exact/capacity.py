"""Checks that never more hold at once than a semaphore or a read-write lock allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.checkers.linearizability.exact.hold_intervals import BLOCK, Holds, Instants
from holdfast.checkers.linearizability.exact.pairing import Bools, Ints, LockColumns, Rows

SHOWN = 5
"""Limit on the holds that one contradiction names."""

Crowd = tuple[str, tuple[int, ...], tuple[int, ...]]
"""The kind of a conflict, the rows of the forced hold if it has one, and indices of holds."""


def crowds(
    columns: LockColumns, limit: int | None, holds: Holds, instants: Instants
) -> Iterator[Crowd]:
    """Grants while no permit was left, or beside a writer; O(n log n). limit   permits; None for a
                                                                                read-write lock.

    There a reader has weight one and a writer the weight of all, so that one sum decides which may
    hold at once.
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
    """Weights of holds, and the limit of their sum."""

    def __init__(self, columns: LockColumns, limit: int | None) -> None:
        self._shared = columns.shared
        self.readers = limit is None
        self.limit = len(columns) + 1 if limit is None else limit

    def alone(self, acquires: Rows) -> Bools:
        """Which holds of these acquires have the weight of all: those of writers."""
        if not self.readers:
            return np.zeros(len(acquires), bool)
        return ~self._shared.take(acquires)

    def of(self, alone: Bools) -> Ints:
        """Weights of such holds."""
        return np.where(alone, self.limit, 1).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class _Events:
    """Ends and begins of holds in order of time, ends first; the sum of weights after each."""

    times: Ints
    change: Ints
    who: Ints
    level: Ints


class _Level:
    """Sum of the weights of the holds at a time. Holds of length 0 are not counted.

    Arrays of the history's length are made once and kept; all others are made block by block.
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
        """Events after which the sum exceeds the limit."""
        if self._surely_few():
            return np.zeros(0, np.int64)
        events = self._events()
        return np.flatnonzero((events.change > 0) & (events.level > self._scale.limit))

    def _surely_few(self) -> bool:
        """Whether the limit was certainly never exceeded: ends and begins need no merge then."""
        limit = self._scale.limit
        if not self._scale.readers:
            # At each begin at most limit - 1 of the earlier holds had not ended.
            return not (self._starts[limit:] < self._ends[:-limit]).any()
        return all(self._apart())

    def _apart(self) -> Iterator[bool]:
        """Per block of holds in order of begin: whether all earlier holds had ended at each
        writer's begin, and all writers' at each reader's."""
        # lasts[n] is the latest end of all holds before the n-th, writers[n] that of all writers'
        # before it; both carry over from block to block. A reader counts there by its start, which
        # no later start precedes.
        last = writer = np.iinfo(np.int64).min
        for rows in _blocks(len(self._starts)):
            start, which = self._starts[rows], self._by_start[rows]
            end, alone = self._ends.take(which), self._alone.take(which)
            lasts = np.maximum.accumulate(np.append(last, end))
            writers = np.maximum.accumulate(np.append(writer, np.where(alone, end, start)))
            yield not (np.where(alone, lasts[:-1], writers[:-1]) > start).any()
            last, writer = int(lasts[-1]), int(writers[-1])

    def at(self, event: int) -> tuple[int, int]:
        """The hold that begins with an event, and its time."""
        events = self._events()
        return int(events.who[event]), int(events.times[event])

    def no_room(self, forced: Instants) -> Ints:
        """Forced holds without room for them at any time of their window.

        The holds around a time are those that began before it and end after it. Their sum is
        smallest where the window begins, or just after an end in it.
        """
        limit = self._scale.limit
        counts = self._writers() if self._scale.readers else None
        crowded = []
        for rows in _blocks(len(forced.low)):
            weight = self._scale.of(self._scale.alone(forced.acquire[rows]))
            around = self._around(forced.low[rows], counts)
            crowded.append(np.flatnonzero(around + weight > limit) + rows.start)
        tight = np.concatenate(crowded) if crowded else np.zeros(0, np.int64)
        if not len(tight):
            return tight
        low, high = forced.low.take(tight), forced.high.take(tight)
        weight = self._scale.of(self._scale.alone(forced.acquire.take(tight)))
        return tight[self._fewest(low, high) + weight > limit]

    def _writers(self) -> tuple[Rows, Rows]:
        """Number of writers' among the first n holds, in order of begin and in order of end."""
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
        """The weight of the holds that began before a time and end after it."""
        begun = np.searchsorted(self._starts, moments, "left")
        over = np.searchsorted(self._ends, moments, "right")
        weight = np.asarray(begun - over, np.int64)
        if writers is not None:
            came, left = writers
            weight += (came.take(begun) - left.take(over)) * np.int64(self._scale.limit - 1)
        return weight

    def _fewest(self, low: Ints, high: Ints) -> Ints:
        """The smallest sum just after an end in (low, high]; above the limit if there is none."""
        events = self._events()
        first = np.searchsorted(self._ends, low, "right")
        last = np.searchsorted(self._ends, high, "right")
        # The sum after each end, after the last of equal ends. reduceat takes the minimum over
        # [first, last) at every second edge: sums 2 1 3 0, windows [0, 2) and [1, 3): 1 and 1.
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
            # Two sorted runs: a stable sort merges them, with ends first at equal times.
            order = np.argsort(times, kind="stable")
            change = change.take(order)
            self._made = _Events(times.take(order), change, who.take(order), np.cumsum(change))
        return self._made


def _blocks(length: int) -> Iterator[slice]:
    for low in range(0, length, BLOCK):
        yield slice(low, low + BLOCK)
