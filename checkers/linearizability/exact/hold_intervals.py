"""The certain holds and the forced instants of a lock history, joined block by block.

A block of rows and its derived arrays fit in the CPU cache, so that the time is linear in the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.checkers.linearizability.exact.pairing import Bools, Ints, LockColumns, Rows

BLOCK = 1 << 16
"""Rows per block; a column of them takes half a megabyte."""
FAR = np.iinfo(np.int64).max
NONE = -1


@dataclass(frozen=True, slots=True)
class Holds:
    """Certain holds in order of end (ties: start), on one axis with a stretch per lock.

    acquire, release   rows of the columns; release is NONE if the hold never ends
    """

    start: Ints
    end: Ints
    acquire: Rows
    release: Rows


@dataclass(frozen=True, slots=True)
class Instants:
    """Forced holds: at least an instant each, somewhere in [low, high]; sorted by lock."""

    low: Ints
    high: Ints
    acquire: Rows
    release: Rows

    def rows(self, one: int) -> tuple[int, ...]:
        """The rows of the columns that prove one of them."""
        both = (int(self.acquire[one]), int(self.release[one]))
        return tuple(row for row in both if row != NONE)


@dataclass(frozen=True, slots=True)
class Spans:
    """What a history proves. wrong: rows of ok releases without a hold to end."""

    holds: Holds
    instants: Instants
    wrong: Ints


_Part = tuple[Ints, Ints, Rows, Rows, npt.NDArray[Any]]
"""Begins, ends, acquires, releases and locks of spans, unsorted."""


_KINDS: tuple[tuple[type[np.integer[Any]], int], ...] = (
    (np.uint8, 1 << 8),
    (np.uint16, 1 << 16),
    (np.int64, FAR),
)


class Axis:
    """One time axis with a separate stretch per lock, so that all locks are judged in one pass."""

    def __init__(self, columns: LockColumns) -> None:
        self.many = columns.locks > 1
        self._lock = columns.lock
        # numpy sorts integers of up to 16 bits by radix sort.
        self.kind = next(kind for kind, most in _KINDS if columns.locks <= most)
        if not self.many:
            return
        self._first = int(columns.inv[0])
        last = int(columns.inv[-1])
        for low in range(0, len(columns), BLOCK):
            rows = slice(low, low + BLOCK)
            last = max(last, int(np.where(columns.ok[rows], columns.ret[rows], last).max()))
        self._length = last - self._first + 2
        if columns.locks * self._length >= 1 << 62:
            raise ValueError(f"{columns.locks} locks over {self._length} ns overflow one axis")

    def part(self, low: Ints, high: Ints, asked: Ints, ends: Ints) -> _Part:
        """Spans on the axis; a time of FAR is the end of the lock's stretch."""
        rows = asked.astype(np.int32), ends.astype(np.int32)
        if not self.many:
            return low, high, *rows, np.zeros(0, self.kind)
        place = self._lock.take(asked)
        moved = place * self._length - self._first
        latest = self._first + self._length - 1
        return low + moved, np.minimum(high, latest) + moved, *rows, place.astype(self.kind)


class _Filled:
    """Preallocated columns of spans, filled part by part: each page is written once, no join."""

    def __init__(self, most: int, axis: Axis) -> None:
        kinds = (np.int64, np.int64, np.int32, np.int32, axis.kind)
        self._columns: list[npt.NDArray[Any]] = [np.empty(most, kind) for kind in kinds]
        self._filled = [0] * len(self._columns)

    def add(self, part: _Part) -> None:
        """Append a part; places are left out if there is one lock."""
        pieces: tuple[npt.NDArray[Any], ...] = part
        for at, (column, piece) in enumerate(zip(self._columns, pieces, strict=True)):
            begun = self._filled[at]
            self._filled[at] += len(piece)
            column[begun : self._filled[at]] = piece

    def part(self) -> _Part:
        """All parts so far."""
        low, high, asked, ends, place = (
            column[:filled] for column, filled in zip(self._columns, self._filled, strict=True)
        )
        return low, high, asked, ends, place


def spans(columns: LockColumns, *, leases: bool) -> Spans:
    """The holds, instants and wrong releases of a history. O(n) in rows in order of `inv`.

    leases   a hold may have expired, so that only an ok release proves that it lasted
    """
    axis = Axis(columns)
    acquire, ended, counts = _joined(columns)
    holds, instants, wrong = _Filled(columns.attempts, axis), list[_Part](), list[Ints]()
    for low in range(0, len(columns), BLOCK):
        rows = np.flatnonzero(columns.release[low : low + BLOCK]) + low
        if counts is not None:
            wrong.append(rows[columns.ok[rows] & ~counts[rows]])
            rows = rows[counts[rows]]
        asked = acquire.take(columns.attempt.take(rows)).astype(np.intp)
        if asked.min(initial=0) < 0:
            wrong.append(rows[(asked < 0) & columns.ok[rows]])
            rows, asked = rows[asked >= 0], asked[asked >= 0]
        hold, instant, never = _of_releases(columns, axis, rows, asked, leases=leases)
        holds.add(hold)
        instants.append(instant)
        wrong.append(never)
    asked = acquire[~ended & (acquire >= 0)].astype(np.intp)
    asked = asked[columns.ok[asked]]
    ends = np.full(len(asked), NONE)
    if leases:
        instants.append(axis.part(columns.inv[asked], columns.ret[asked], asked, ends))
    else:
        holds.add(axis.part(columns.ret[asked], np.full(len(asked), FAR), asked, ends))
    return Spans(
        holds=Holds(*_in_order(columns, _by_lock(axis, holds.part()))),
        instants=Instants(*_by_lock(axis, _as_one(instants))),
        wrong=np.sort(np.concatenate(wrong)),
    )


def _joined(columns: LockColumns) -> tuple[Rows, Bools, Bools | None]:
    """Of each attempt the row of its acquire (NONE: it has none) and whether it has a release; and
    which rows are the release that counts, or None if all are.

    An ok release takes precedence over those of unknown outcome, of which the earliest counts.
    """
    acquire = np.full(columns.attempts, NONE, np.int32)
    ended = np.zeros(columns.attempts, bool)
    releases = 0
    for low in range(0, len(columns), BLOCK):
        release = columns.release[low : low + BLOCK]
        attempt = columns.attempt[low : low + BLOCK]
        rows = np.flatnonzero(~release).astype(np.int32)
        acquire[attempt.take(rows)] = rows + np.int32(low)
        ends = np.flatnonzero(release)
        ended[attempt.take(ends)] = True
        releases += len(ends)
    if releases == np.count_nonzero(ended):
        return acquire, ended, None
    first = np.full(columns.attempts, NONE, np.int64)
    # The last assignment counts: in reverse order the earliest release, ok ones after unknown ones.
    for kind in (~columns.ok, columns.ok):
        later = np.flatnonzero(columns.release & kind)[::-1]
        first[columns.attempt[later]] = later
    counts = np.zeros(len(columns), bool)
    counts[first[first >= 0]] = True
    return acquire, ended, counts


def _of_releases(
    columns: LockColumns, axis: Axis, rows: Ints, asked: Ints, *, leases: bool
) -> tuple[_Part, _Part, Ints]:
    """Holds and instants that releases and their acquires prove, and the rows of releases that had
    ended before their acquire began."""
    called, returned = columns.inv.take(rows), columns.ok.take(rows)
    granted, begun = columns.ok.take(asked), columns.ret.take(asked)
    lasting = granted & (called >= begun)
    if leases:
        lasting &= returned
    kept = np.flatnonzero(lasting)
    holds = axis.part(begun.take(kept), called.take(kept), asked.take(kept), rows.take(kept))
    rest = np.flatnonzero(~lasting & (granted | returned))
    rows, asked, called, begun = (each.take(rest) for each in (rows, asked, called, begun))
    granted, returned = granted.take(rest), returned.take(rest)
    # A forced hold lasts for an instant in [max(A.inv, R.inv), min(A.ret, R.ret)] of its acquire A
    # and its release R; an unknown return is FAR, and a release that need not count has no bound.
    low, high = columns.inv.take(asked), np.where(granted, begun, FAR)
    counts = returned if leases else np.ones(len(rest), bool)
    low = np.where(counts, np.maximum(low, called), low)
    high = np.where(returned, np.minimum(high, columns.ret.take(rows)), high)
    fits = np.flatnonzero(low <= high)
    ends = np.where(counts, rows, NONE)
    instants = axis.part(*(each.take(fits) for each in (low, high, asked, ends)))
    return holds, instants, np.delete(rows, fits)


def _as_one(parts: list[_Part]) -> _Part:
    low, high, asked, ends, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    return low, high, asked, ends, place


def _by_lock(axis: Axis, part: _Part) -> tuple[Ints, Ints, Rows, Rows]:
    """Spans grouped by lock, otherwise in their order."""
    low, high, asked, ends, place = part
    if not axis.many:
        return low, high, asked, ends
    order = np.argsort(place, kind="stable")
    return low.take(order), high.take(order), asked.take(order), ends.take(order)


def _in_order(
    columns: LockColumns, holds: tuple[Ints, Ints, Rows, Rows]
) -> tuple[Ints, Ints, Rows, Rows]:
    """Holds; those with equal ends are sorted by start, then by token."""
    start, end, asked, _ = holds
    same = end[1:] == end[:-1]
    if not same.any():
        return holds
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    order = tied[np.lexsort((columns.token[asked[tied]], start[tied], end[tied]))]
    for column in holds:
        column[tied] = column[order]
    return holds
