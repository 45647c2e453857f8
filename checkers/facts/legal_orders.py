"""Legal orders of calls, which prove in certificates that exact properties hold.

A grant without a proved hold (its return is the last evidence of it) may have been given at any
time since its call. If its return fell into another's hold, it is placed before that one; all
others are placed in the order in which they were known. For a semaphore the same applies to holds
that leave too few permits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import combinations

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import INF
from holdfast.checkers.holds.hierarchy import on_line, paths, root
from holdfast.checkers.holds.history_index import EntryIndices, Ints, RowIndices, column
from holdfast.checkers.holds.overlaps import by_token, proof_reaches, reaches, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op, Status

LOW_16 = (1 << 16) - 1
MOST_STEPS = 1_000_000
"""Limit on the holds visited to place grants without a hold; beyond it there is no order."""
MOST_AT_ONCE = 1_000
"""Number of holds that count as one step when they are visited as columns."""
Order = tuple[tuple[str, tuple[int, ...]], ...] | None
"""Per lock its rows in order; None if none is known."""


def of_grants(case: Case) -> Order:
    """An order of grants without overlapping holds or too many permits; one per hierarchy."""
    attempts, far, every = table(case), reaches(case) - slack(case), []
    for key, entries in attempts.by_family().items():
        known = entries[attempts.known[entries] < INF]
        known = known[np.argsort(attempts.known[known], kind="stable")]
        if not len(known):
            continue
        tree = paths(case).get(key)
        name = case.history.strings[key] if tree is None else root(case, tree)
        permits = attempts.mode[known] == Mode.PERMITS
        if permits.any() and (attempts.mode[known] == Mode.SHARED).any():
            return None
        until = far[known]
        held = known[until > attempts.known[known]]
        amid = _amid_permits if permits.any() else _amid_holds
        when = amid(case, known, held, far)
        if when is None:
            return None
        order = known[np.lexsort((until > attempts.known[known], when))]
        if permits.any() and not _admits(case, order, far):
            return None
        every.append((name, order, bool(permits.any())))
    exclusive = [(name, order) for name, order, permits in every if not permits]
    if _rows(case, exclusive, far) is None:
        return None
    return _rows(case, [(name, order) for name, order, _ in every], None)


def _amid_holds(case: Case, known: EntryIndices, held: EntryIndices, far: Ints) -> Ints | None:
    """For each grant the latest time at which it was given: a grant without a hold is placed before
    those holds that it would overlap. Readers at [0, 9] and [5, 15], a writer that returned at 7:
    it is placed at 0, where the first of them begins. None beyond MOST_STEPS."""
    steps = 0
    attempts, trees = table(case), paths(case)
    when = attempts.known[known].copy()
    begun, over = attempts.known[held], far[held]
    # The latest end of all holds up to a place shows where to stop looking back. Holds known at 0
    # 5, until 9 7: a grant at 6 lies inside, because of the first.
    reached = np.maximum.accumulate(over) if len(over) else over
    last = np.searchsorted(begun, when) - 1
    inside = (last >= 0) & (far[known] <= when)
    inside[inside] = reached[last[inside]] > when[inside]
    for n in np.flatnonzero(inside).tolist():
        mine, t_ns = int(known[n]), int(when[n])
        met = True
        while met:
            met, before_ns = False, t_ns
            at = int(np.searchsorted(begun, t_ns)) - 1
            while at >= 0 and reached[at] > before_ns:
                if over[at] > before_ns and _excludes(attempts, trees, mine, int(held[at])):
                    met, t_ns = True, min(t_ns, int(begun[at]))
                at, steps = at - 1, steps + 1
            if steps > MOST_STEPS:
                return None
        when[n] = t_ns
    return when


def _excludes(found: Table, trees: Mapping[int, str], a: int, b: int) -> bool:
    """Whether two grants of one family may never be held at once."""
    shared = found.mode[a] == found.mode[b] != Mode.EXCLUSIVE
    keys = int(found.key[a]), int(found.key[b])
    met = keys[0] == keys[1] or on_line(trees[keys[0]], trees[keys[1]])
    return bool(met and not shared and found.owner[a] != found.owner[b])


def _amid_permits(case: Case, known: EntryIndices, held: EntryIndices, far: Ints) -> Ints | None:
    """The same for a semaphore: before the last hold that leaves too few permits."""
    steps = 0
    attempts = table(case)
    when = attempts.known[known].copy()
    limit, permits = _permits(case, known)
    begun, over, taken = attempts.known[held], far[held], permits[held]
    least = np.maximum(attempts.inv, far)[known]
    for n in np.flatnonzero(far[known] <= when).tolist():
        low, high = np.searchsorted(begun, (least[n], when[n]))
        for t_ns in (int(when[n]), *begun[low:high][::-1].tolist()):
            before = int(np.searchsorted(begun, t_ns))
            steps += 1 + before // MOST_AT_ONCE
            if steps > MOST_STEPS:
                return None
            load = int(taken[:before][over[:before] > t_ns].sum())
            if load + int(permits[known[n]]) <= limit:
                when[n] = t_ns
                break
    return when


def _permits(case: Case, entries: EntryIndices) -> tuple[int, Ints]:
    """The smallest number of permits reported for a semaphore, and the number that each entry of
    the table takes. A probe takes all."""
    attempts, terms = table(case), column(case, "op")[table(case).row]
    several = attempts.mode[entries] == Mode.PERMITS
    limit = int((terms[entries[several]] >> 8 & LOW_16).min())
    return limit, np.where(attempts.mode == Mode.PERMITS, terms >> 24, limit)


def _admits(case: Case, order: EntryIndices, far: Ints) -> bool:
    """Whether the permits are free for each in this order, at some time up to its return."""
    attempts = table(case)
    limit, taken = _permits(case, order)
    held: list[tuple[int, int]] = []
    now_ns, free = 0, limit
    for n in order.tolist():
        permits = int(taken[n])
        now_ns = max(now_ns, int(attempts.inv[n]))
        while held and (held[0][0] <= now_ns or free < permits):
            over_ns, given = heappop(held)
            now_ns, free = max(now_ns, over_ns), free + given
        if now_ns > attempts.known[n] or free < permits:
            return False
        heappush(held, (max(now_ns, int(far[n])), permits))
        free -= permits
    return True


def of_tokens(case: Case) -> Order:
    """Grants by their tokens, consistent with their proved holds. A hierarchy has one order."""
    attempts, trees, named = table(case), paths(case), []
    for key, entries in attempts.by_family().items():
        mine = by_token(case, entries[attempts.known[entries] < INF])
        order = mine[np.lexsort((attempts.known[mine], attempts.token[mine]))]
        if len({int(mode) for mode in attempts.mode[order]} - {Mode.EXCLUSIVE}) > 1:
            return None
        # Tokens 3 3 5 6 6: groups [0, 2), [2, 3), [3, 5), of which the second has nothing to check.
        others = np.flatnonzero(np.diff(attempts.token[order])) + 1
        edges = np.concatenate(([0], others, [len(order)]))
        shared = np.flatnonzero(np.diff(edges) > 1)
        for first, last in zip(edges[shared].tolist(), edges[shared + 1].tolist(), strict=True):
            # One of each owner, mode and lock represents the others like it.
            same = {
                (int(attempts.owner[n]), int(attempts.mode[n]), int(attempts.key[n])): n
                for n in order[first:last].tolist()
            }
            if any(_excludes(attempts, trees, a, b) for a, b in combinations(same.values(), 2)):
                return None
        named.append(
            (case.history.strings[key] if key not in trees else root(case, trees[key]), order)
        )
    return _rows(case, named, proof_reaches(case) - slack(case))


def of_requests(case: Case) -> Order:
    """The accepted requests for each key, in the order of the resource's log."""
    rows = resource_log.log(case).rows
    return _by_key(case, rows[column(case, "status")[rows] == Status.OK])


def of_writes(case: Case) -> Order:
    """The accepted writes for each key, in the order of the resource's log."""
    rows = resource_log.log(case).rows
    written = column(case, "f")[rows] == Op.SERVED_WRITE
    return _by_key(case, rows[written & (column(case, "status")[rows] == Status.OK)])


def _by_key(case: Case, rows: RowIndices) -> Order:
    keys = column(case, "key")[rows]
    order = np.argsort(keys, kind="stable")
    names, first = np.unique(keys[order], return_index=True)
    parts = np.split(rows[order], first[1:]) if len(names) else []
    return tuple(
        (case.history.strings[key], tuple(mine.tolist()))
        for key, mine in zip(names.tolist(), parts, strict=True)
    )


def of_updates(case: Case) -> Order:
    """The same, if each write is based on its predecessor."""
    order = of_writes(case) or ()
    for _, rows in order:
        version = column(case, "res")[list(rows)]
        base = column(case, "arg")[list(rows)]
        base = np.where((base >= 0) & (base < version), base, version - 1)
        if (base[1:] != version[:-1]).any():
            return None
    return order


def _rows(case: Case, every: Iterable[tuple[str, EntryIndices]], far: Ints | None) -> Order:
    """The rows of these orders, None if one of them is not legal; far: None if all are legal."""
    attempts, order = table(case), []
    for name, entries in every:
        if far is not None:
            begin = np.maximum.accumulate(np.maximum(attempts.inv, far)[entries])
            late = begin[:-1] > attempts.known[entries][1:]
            if late.any() and not _walks(case, entries, far):
                return None
        if len(entries):
            order.append((name, tuple(attempts.row[entries].tolist())))
    return tuple(order)


def _walks(case: Case, entries: EntryIndices, far: Ints) -> bool:
    """Whether an order is legal, one by one: readers share, an owner may re-enter, and in a
    hierarchy only locks on one ancestor chain exclude each other."""
    attempts, trees = table(case), paths(case)
    latest: dict[int, tuple[Ends, Ends]] = {}
    for n in entries.tolist():
        alone, owner = bool(attempts.mode[n] == Mode.EXCLUSIVE), int(attempts.owner[n])
        key, begin = int(attempts.key[n]), int(attempts.inv[n])
        for other, (shared, exclusive) in latest.items():
            if other == key or on_line(trees[other], trees[key]):
                begin = max(begin, exclusive.of_others(owner))
                if alone:
                    begin = max(begin, shared.of_others(owner))
        if begin > attempts.known[n]:
            return False
        mine = latest.setdefault(key, (Ends(), Ends()))
        mine[alone].add(owner, max(begin, int(far[n])))
    return True


class Ends:
    """The latest end of the holds of all owners but one, whichever it is: that of the owner with
    the latest, and the latest of all others."""

    def __init__(self) -> None:
        self._owner = -1
        self._latest = self._next = 0

    def of_others(self, owner: int) -> int:
        """The latest end of a hold of another owner, 0 if there is none."""
        return self._next if owner == self._owner else self._latest

    def add(self, owner: int, end: int) -> None:
        """Adds a hold."""
        if owner == self._owner:
            self._latest = max(self._latest, end)
        elif end > self._latest:
            self._owner, self._latest, self._next = owner, end, self._latest
        else:
            self._next = max(self._next, end)


ORDERS: Mapping[str, Callable[[Case], Order]] = {
    "mutual-exclusion": of_grants,
    "token-order": of_tokens,
    "no-stale-write": of_requests,
    "no-expired-write": of_writes,
    "no-lost-update": of_updates,
    "applied-once": of_writes,
}
"""Exact property -> the order that proves that it holds."""
