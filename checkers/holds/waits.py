"""Certain overtakes: attempts granted before another one that had certainly queued first.

An overtake of a by g is certain if a had received the response that it waits before g's call, and
a's token shows that it was granted after g. A response has the time at which the client received
it, so "waits still" proves nothing about that time; only tokens, if they are promised to be
ordered, show which grant came later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, ordered_tokens
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.history_index import EntryIndices, Ints, acknowledged, column
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.checkers.holds.reentry import anew
from holdfast.checkers.holds.token_order import ordered
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Passed:
    """An attempt that waited and was granted, and the attempts that certainly overtook it,
    sorted."""

    attempt: Attempt
    queued_ns: int
    by: tuple[Attempt, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """judged: number of waits that could be judged; overtaken: those that were overtaken."""

    judged: int
    overtaken: tuple[Passed, ...]

    @property
    def most(self) -> int:
        """The largest number of attempts that overtook one wait."""
        return max((len(one.by) for one in self.overtaken), default=0)


@memoised
def waits(case: Case) -> Waits:
    """All waits that can be judged; none if tokens have no order. Memoised."""
    parts = list(_of_locks(case)) if ordered_tokens(case) else []
    judged = np.zeros(len(table(case)), bool)
    for entries, _ in parts:
        judged[entries] = True  # an entry of a subtree may be one of several locks
    return Waits(
        judged=int(judged.sum()),
        overtaken=_together(one for _, overtaken in parts for one in overtaken),
    )


def _together(found: Iterable[Passed]) -> tuple[Passed, ...]:
    """One per attempt: a wait for a subtree may be overtaken on several ancestor chains."""
    every: dict[int, Passed] = {}
    for one in found:
        other = every.setdefault(one.attempt.id, one)
        by = {a.id: a for a in (*other.by, *one.by)}
        if len(by) > len(other.by):
            every[one.attempt.id] = replace(
                other, by=tuple(sorted(by.values(), key=lambda a: a.inv_ns))
            )
    return tuple(every.values())


def _of_locks(case: Case) -> Iterator[tuple[EntryIndices, list[Passed]]]:
    """Per lock whose tokens and grants agree: (judged waits, overtaken ones)."""
    every, since = table(case), first_told(case)
    for key, entries in granted(case).items():
        if not ordered(case, key):
            continue
        known = entries[every.ok[entries] & (every.token[entries] != NO_TOKEN)]
        waited = known[since[known] < INF]
        if key in paths(case):
            # An attempt for a path is on several chains, of which another may contradict the order.
            waited = waited[[ordered(case, one) for one in every.key[waited].tolist()]]
        yield waited, list(_overtaken(case, waited, _first_entries(case, known), since))


def _overtaken(
    case: Case, waited: EntryIndices, later: EntryIndices, since: Ints
) -> Iterator[Passed]:
    """The waits that were overtaken by some of `later`, which is in order of call.

    The attempts called during a wait are scanned only if their smallest token is smaller.
    """
    every = table(case)
    if not len(later):
        return
    asked, token = every.inv[later], every.token[later]
    # Most waits end here: nothing that was called after them has a smaller token. Of tokens 4 2 7
    # in order of call the smallest from each on are 2 2 7: only the first may be overtaken.
    least = np.minimum.accumulate(token[::-1])[::-1]
    place = every.places(waited, later)
    waited = waited[(place < 0) | (least[place] < every.token[waited])]
    # Calls at 3 5 8: a wait from 4 to 8 contains places 1 and 2, the window [1, 3).
    low = np.searchsorted(asked, since[waited] + slack(case), "right")
    high = np.searchsorted(asked, every.ret[waited] + slack(case), "right")
    some = low < high
    waited, low, high = waited[some], low[some], high[some]
    if not len(waited):
        return
    # reduceat at low0 high0 low1 high1 ...: every second result is the minimum of one window.
    # Tokens 4 2 7, windows [0, 2) and [1, 3): minima 2 and 2.
    edges = np.stack((low, high), axis=1).ravel()
    least = np.minimum.reduceat(np.append(token, INF), edges)[::2]
    for n in np.flatnonzero(least < every.token[waited]).tolist():
        a, window = waited[n], later[low[n] : high[n]]
        first = (every.token[window] < every.token[a]) & (every.process[window] != every.process[a])
        if first.any():
            by = tuple(every.pick(window[first]))
            yield Passed(attempt=every.pick([int(a)])[0], queued_ns=int(since[a]), by=by)


@memoised
def first_told(case: Case) -> Ints:
    """The time of the first response to each attempt that it waits; INF if never. Memoised."""
    rows = acknowledged(case)
    entries = table(case).of_rows(rows)
    first_ns = np.full(len(table(case)), INF)
    np.minimum.at(first_ns, entries[entries >= 0], column(case, "t_inv")[rows[entries >= 0]])
    return first_ns


def _first_entries(case: Case, known: EntryIndices) -> EntryIndices:
    """In order of call, without those that may be reentries: such an owner would wait for
    itself."""
    asked = known[np.argsort(table(case).inv[known], kind="stable")]
    return asked[anew(case, asked)]
