"""Exact verdicts on lock histories without a search: holds shrunk to what is certain.

Take every acquire at its return and every release at its call. If that is legal, it is an order
that explains the history; if it is not, no other order is, since every other one makes a hold
longer and legal states stay legal when a hold is taken away. An acquire of unknown outcome is
left out, unless its own release was answered ok: then it held for at least an instant between the
two, which must exist. Time ties are resolved in the lock's favour: releases come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.checkers.models import kernel
from holdfast.checkers.models.lock_columns import Bools, Ints, LockColumns
from holdfast.harness.events import NO_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a lock allows.

    limit    how many may hold at once; 1 for a mutex
    readers  shared holds go together, an exclusive one goes alone; `limit` is 1
    leases   a hold may end by itself, so that only an ok release proves that it lasted
    tokens   every later hold of a lock has a larger token
    """

    limit: int = 1
    readers: bool = False
    leases: bool = False
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """One contradiction. rows: into the columns, the operations that prove it.

    kinds: "double-hold" (the acquires and, where there are any, releases of two holds, the later
    one first), "no-instant" (a forced hold that finds no moment: release and acquire, then the
    hold that covers it), "token-order", "not-holding" (a release, ok without a hold to end).
    """

    kind: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Holds:
    """Certain holds in order of end (ties: start), on one axis where locks lie side by side."""

    start: Ints
    end: Ints
    acquire: Ints
    release: Ints


@dataclass(frozen=True, slots=True)
class _Instants:
    """Holds that lasted for an instant at least, somewhere in [low, high]."""

    low: Ints
    high: Ints
    acquire: Ints
    release: Ints


def conflicts(columns: LockColumns, rule: Rule) -> list[Conflict]:
    """Every contradiction of a history, the earliest kind first; none: it is linearizable.

    Exact for attempts whose acquire returned before their release was called; for `tokens` only
    for those. O(n) for a mutex with rows in order of `inv`, else O(n log n); numpy alone, or the
    compiled pass of `kernel` before it.
    """
    if not len(columns):
        return []
    mutex = rule.limit == 1 and not rule.readers
    if mutex and kernel.clean(columns, leases=rule.leases, tokens=rule.tokens):
        return []
    axis = _Axis(columns)
    acquire, release, wrong = _joined(columns)
    holds, instants, never = _spans(columns, rule, axis, acquire, release)
    found = [Conflict("not-holding", (int(row),)) for row in (*wrong, *never)]
    if mutex:
        found += _overlaps(holds)
        found += _covered(holds, instants)
    else:
        found += _crowds(columns, rule, holds, instants)
    if rule.tokens:
        found += _disorders(columns, holds)
    return found


class _Axis:
    """One axis on which every lock has a stretch of its own, so that all are judged as one."""

    def __init__(self, columns: LockColumns) -> None:
        self._lock = columns.lock
        self._first = int(columns.inv[0])
        last = int(columns.inv[-1])
        if columns.ok.any():
            last = max(last, int(columns.ret.max(where=columns.ok, initial=0)))
        self.length = last - self._first + 2
        self.many = columns.locks > 1
        if columns.locks * self.length >= 1 << 62:
            raise ValueError(f"{columns.locks} locks over {self.length} ns overflow one axis")

    def at(self, times: Ints, rows: Ints) -> Ints:
        """Where the times of these rows lie."""
        moved = times - self._first
        return moved + self._lock[rows] * self.length if self.many else moved

    def never(self, rows: Ints) -> Ints:
        """The end of time for the locks of these rows."""
        return (self._lock[rows] + 1) * self.length - 1


def _joined(columns: LockColumns) -> tuple[Ints, Ints, Ints]:
    """Rows of the acquire and of the release that counts of each attempt (-1: none), and the rows
    of releases that were answered ok though there was nothing to release.

    An ok release counts before those of unknown outcome, of which the earliest counts.
    """
    acquires = np.flatnonzero(~columns.release)
    acquire = np.full(columns.attempts, -1, np.int64)
    acquire[columns.attempt[acquires]] = acquires
    release = np.full(columns.attempts, -1, np.int64)
    unknown = np.flatnonzero(columns.release & ~columns.ok)[::-1]
    release[columns.attempt[unknown]] = unknown
    sure = np.flatnonzero(columns.release & columns.ok)
    owners = columns.attempt[sure]
    release[owners[::-1]] = sure[::-1]
    wrong = sure[(release[owners] != sure) | (acquire[owners] < 0)]
    release[acquire < 0] = -1
    return acquire, release, wrong


def _spans(
    columns: LockColumns, rule: Rule, axis: _Axis, acquire: Ints, release: Ints
) -> tuple[_Holds, _Instants, Ints]:
    """Certain holds, forced instants, and releases that had ended before their acquire began."""
    ended = release >= 0
    granted = columns.ok[acquire] & (acquire >= 0)
    returned = columns.ok[release] & ended
    late = ended & granted & (columns.inv[release] < columns.ret[acquire])
    lasting = granted & ~late
    if rule.leases:
        lasting &= returned
        late |= granted & ~returned
    holds = _hold_spans(columns, axis, acquire, release, lasting)
    which = np.flatnonzero(late | (returned & ~granted & (acquire >= 0)))
    asked, ends = acquire[which], release[which]
    low, high = columns.inv[asked], np.where(granted[which], columns.ret[asked], _FAR)
    counts = ended[which] & ~(rule.leases & ~returned[which])
    low = np.where(counts, np.maximum(low, columns.inv[ends]), low)
    high = np.where(returned[which], np.minimum(high, columns.ret[ends]), high)
    fits = low <= high
    asked, ends, counts = asked[fits], np.where(counts, ends, -1)[fits], counts[fits]
    instants = _Instants(axis.at(low[fits], asked), axis.at(high[fits], asked), asked, ends)
    return holds, instants, release[which][~fits]


_FAR = np.iinfo(np.int64).max


def _hold_spans(
    columns: LockColumns, axis: _Axis, acquire: Ints, release: Ints, lasting: Bools
) -> _Holds:
    """Certain holds by their end. Releases stand in order of their call, so a mutex sorts none."""
    by_release = np.full(len(columns), -1, np.int64)
    closed = np.flatnonzero(lasting & (release >= 0))
    by_release[release[closed]] = closed
    closed = by_release[by_release >= 0]
    opened = np.flatnonzero(lasting & (release < 0))
    which = np.concatenate((closed, opened))
    asked, ends = acquire[which], release[which]
    start = axis.at(columns.ret[asked], asked)
    end = axis.at(columns.inv[ends], asked)
    end[len(closed) :] = axis.never(asked[len(closed) :])
    if axis.many:
        places = columns.lock[asked]
        order = np.argsort(
            places.astype(np.uint16) if columns.locks < 1 << 16 else places, kind="stable"
        )
        start, end, asked, ends = start[order], end[order], asked[order], ends[order]
    if (end[1:] == end[:-1]).any():
        order = np.lexsort((columns.token[asked], start, end))
        start, end, asked, ends = start[order], end[order], asked[order], ends[order]
    return _Holds(start, end, asked, ends)


def _overlaps(holds: _Holds) -> list[Conflict]:
    """Holds that began before the one that ended before them had.

    If any two of a lock overlap, then two that end one after the other do.
    """
    start, end = holds.start, holds.end
    meets = (start[1:] < end[:-1]) & ((start[:-1] < end[:-1]) | (end[:-1] < end[1:]))
    return [
        Conflict("double-hold", _rows(holds, int(late), int(late) - 1))
        for late in np.flatnonzero(meets) + 1
    ]


def _rows(holds: _Holds, *which: int) -> tuple[int, ...]:
    rows = []
    for one in which:
        rows += [int(holds.acquire[one]), int(holds.release[one])]
    return tuple(row for row in rows if row >= 0)


def _forced(instants: _Instants, one: int) -> tuple[int, ...]:
    rows = (int(instants.acquire[one]), int(instants.release[one]))
    return tuple(row for row in rows if row >= 0)


def _covered(holds: _Holds, instants: _Instants) -> list[Conflict]:
    """Instants of a mutex that lie wholly inside one certain hold."""
    if not len(instants.low) or not len(holds.end):
        return []
    after = np.searchsorted(holds.end, instants.high, "right")
    inside = np.minimum(after, len(holds.end) - 1)
    bad = (after < len(holds.end)) & (holds.start[inside] < instants.low)
    return [
        Conflict("no-instant", _forced(instants, one) + _rows(holds, int(inside[one])))
        for one in np.flatnonzero(bad).tolist()
    ]


def _crowds(columns: LockColumns, rule: Rule, holds: _Holds, instants: _Instants) -> list[Conflict]:
    """Grants that came while no permit was left, or beside a writer.

    A reader weighs one, a writer as much as all: what may hold at once is then one sum.
    """
    limit = len(columns) + 1 if rule.readers else rule.limit
    weigh = _Weights(columns, rule, limit)
    real = np.flatnonzero(holds.start < holds.end)
    flat = np.flatnonzero(holds.start == holds.end)
    weight = weigh.of(holds.acquire[real])
    times = np.concatenate((holds.end[real], holds.start[real]))
    change = np.concatenate((-weight, weight))
    order = np.lexsort((change > 0, times))
    times, change, who = times[order], change[order], np.concatenate((real, real))[order]
    level = np.cumsum(change)
    found = []
    for at in np.flatnonzero((change > 0) & (level > limit)).tolist():
        found.append(Conflict("double-hold", _crowd(holds, real, int(who[at]), int(times[at]))))
    low = np.concatenate((instants.low, holds.start[flat]))
    high = np.concatenate((instants.high, holds.end[flat]))
    asked = np.concatenate((instants.acquire, holds.acquire[flat]))
    ends = np.concatenate((instants.release, holds.release[flat]))
    forced = _Instants(low, high, asked, ends)
    full = _fewest(forced, times, change, level) + weigh.of(asked) > limit
    for one in np.flatnonzero(full).tolist():
        inside = real[(holds.start[real] < low[one]) & (holds.end[real] > low[one])]
        rows = _forced(forced, one) + _rows(holds, *inside[:2].tolist())
        found.append(Conflict("no-instant", rows))
    return found


def _crowd(holds: _Holds, real: Ints, late: int, at: int) -> tuple[int, ...]:
    """The rows of a hold and of those that it found."""
    beside = real[(holds.start[real] <= at) & (holds.end[real] > at)]
    return _rows(holds, late, *[one for one in beside.tolist() if one != late][:4])


@dataclass(frozen=True, slots=True)
class _Weights:
    columns: LockColumns
    rule: Rule
    limit: int

    def of(self, rows: Ints) -> Ints:
        """What the holds of these acquires weigh."""
        if not self.rule.readers:
            return np.ones(len(rows), np.int64)
        return np.where(self.columns.shared[rows], 1, self.limit).astype(np.int64)


def _fewest(instants: _Instants, times: Ints, change: Ints, level: Ints) -> Ints:
    """For each window the smallest sum of holds that lie around one of its moments.

    Around a moment lie those that began before and end after it. The sum is smallest at the
    window's begin or just after an end in it.
    """
    if not len(instants.low):
        return np.zeros(0, np.int64)
    downs = np.flatnonzero(change < 0)
    before = np.searchsorted(times, instants.low, "left")
    reached = np.concatenate(([0], level))[before]
    ending = np.searchsorted(times[downs], instants.low, "right")
    gone = np.searchsorted(times[downs], instants.low, "left")
    freed = np.concatenate(([0], np.cumsum(-change[downs])))
    fewest = reached - (freed[ending] - freed[gone])
    last = np.searchsorted(times[downs], instants.high, "right")
    after = _after_downs(times, level, downs)
    for one in np.flatnonzero(last > ending).tolist():
        fewest[one] = min(fewest[one], after[ending[one] : last[one]].min())
    return np.asarray(fewest, np.int64)


def _after_downs(times: Ints, level: Ints, downs: Ints) -> Ints:
    """The sum after all ends of the same moment, and before its begins, at each end."""
    same = np.searchsorted(times[downs], times[downs], "right") - 1
    return level[downs[same]]


def _disorders(columns: LockColumns, holds: _Holds) -> list[Conflict]:
    """Holds whose token is not larger than that of the one before, of those that have one."""
    known = np.flatnonzero(columns.token[holds.acquire] != NO_TOKEN)
    asked = holds.acquire[known]
    token, lock = columns.token[asked], columns.lock[asked]
    bad = (token[1:] <= token[:-1]) & (lock[1:] == lock[:-1])
    return [
        Conflict("token-order", _rows(holds, int(known[late]), int(known[late - 1])))
        for late in np.flatnonzero(bad) + 1
    ]
