"""Exact verdicts on lock histories without a search: holds reduced to their certain part.

Take every acquire at its return and every release at its call. If that is legal, it is an order
that explains the history; if it is not, no other order is, since every other one makes a hold
longer and legal states stay legal when a hold is removed. An acquire of unknown outcome is left
out, unless its own release returned ok: then it held for at least an instant between the two, which
must exist. Ties are resolved in the lock's favour: releases come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.checkers.linearizability.exact.capacity import crowds
from holdfast.checkers.linearizability.exact.hold_intervals import BLOCK, Holds, Instants, spans
from holdfast.checkers.linearizability.exact.pairing import LockColumns
from holdfast.harness.core.operations import NO_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What a lock allows.

    limit    number of holds allowed at once; 1 for a mutex
    readers  shared holds may overlap, an exclusive one may not; `limit` is 1
    leases   a hold may expire, so that only an ok release proves that it lasted
    tokens   every later hold of a lock has a larger token
    """

    limit: int = 1
    readers: bool = False
    leases: bool = False
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """One contradiction. rows: into the columns, the operations that prove it.

    kinds: "double-hold" (the acquires and, if any, releases of two holds, the later one first),
    "no-instant" (a forced hold without a possible instant: release and acquire, then the hold that
    covers it), "token-order", "not-holding" (an ok release without a hold to end).
    """

    kind: str
    rows: tuple[int, ...]


def conflicts(columns: LockColumns, rule: Rule) -> list[Conflict]:
    """Every contradiction of a history, the earliest kind first; none: it is linearizable.

    Exact for attempts whose acquire returned before their release was called; for `tokens` only
    for those. O(n) for a mutex with rows in order of `inv`, else O(n log n).
    """
    if not len(columns):
        return []
    made = spans(columns, leases=rule.leases)
    contradictions = [Conflict("not-holding", (int(row),)) for row in made.wrong]
    if rule.limit == 1 and not rule.readers:
        contradictions += _overlaps(made.holds)
        contradictions += _covered(made.holds, made.instants)
    else:
        limit = None if rule.readers else rule.limit
        for kind, forced, beside in crowds(columns, limit, made.holds, made.instants):
            contradictions.append(Conflict(kind, (*forced, *_rows(made.holds, *beside))))
    if rule.tokens:
        contradictions += _disorders(columns, made.holds)
    return contradictions


def _overlaps(holds: Holds) -> list[Conflict]:
    """Holds that began before their predecessor in order of end had ended.

    If any two of a lock overlap, then two that end consecutively do.
    """
    start, end = holds.start, holds.end
    meets = (start[1:] < end[:-1]) & ((start[:-1] < end[:-1]) | (end[:-1] < end[1:]))
    return [
        Conflict("double-hold", _rows(holds, int(late), int(late) - 1))
        for late in np.flatnonzero(meets) + 1
    ]


def _rows(holds: Holds, *which: int) -> tuple[int, ...]:
    rows = []
    for one in which:
        rows += [int(holds.acquire[one]), int(holds.release[one])]
    return tuple(row for row in rows if row >= 0)


def _covered(holds: Holds, instants: Instants) -> list[Conflict]:
    """Instants of a mutex whose window lies entirely within one certain hold."""
    if not len(instants.low) or not len(holds.end):
        return []
    after = np.searchsorted(holds.end, instants.high, "right")
    inside = np.minimum(after, len(holds.end) - 1)
    bad = (after < len(holds.end)) & (holds.start.take(inside) < instants.low)
    return [
        Conflict("no-instant", instants.rows(one) + _rows(holds, int(inside[one])))
        for one in np.flatnonzero(bad).tolist()
    ]


def _disorders(columns: LockColumns, holds: Holds) -> list[Conflict]:
    """Holds whose token is not larger than that of their predecessor, of those that have one."""
    disorders = []
    before = -1
    for low in range(0, len(holds.acquire), BLOCK):
        asked = holds.acquire[low : low + BLOCK].astype(np.intp)
        token, lock = columns.token.take(asked), columns.lock.take(asked)
        known = np.flatnonzero(token != NO_TOKEN)
        which, token, lock = known + low, token.take(known), lock.take(known)
        if before >= 0:
            row = holds.acquire[before]
            which = np.append(before, which)
            token, lock = np.append(columns.token[row], token), np.append(columns.lock[row], lock)
        bad = (token[1:] <= token[:-1]) & (lock[1:] == lock[:-1])
        for late in np.flatnonzero(bad) + 1:
            rows = _rows(holds, int(which[late]), int(which[late - 1]))
            disorders.append(Conflict("token-order", rows))
        before = int(which[-1]) if len(which) else before
    return disorders
