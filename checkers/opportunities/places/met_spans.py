"""Which acquires met a span, such as a hold, of another client."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.holds.attempt_table import Table
from holdfast.checkers.holds.history_index import Bools, Indices, Ints


def spans_met(
    attempts: Table, asked: Indices, by_ns: Ints, held: Indices, begun: Ints, over: Ints
) -> Bools:
    """Which acquires were sent before the end of another client's span that had begun before by_ns.

    asked, by_ns        the acquires, and a time for each
    held, begun, over   the attempts with spans, and these spans
    """
    return met_by(attempts, asked, by_ns, held, begun, over, attempts.inv[asked]) >= 0


def met_by(
    attempts: Table,
    asked: Indices,
    by_ns: Ints,
    held: Indices,
    begun: Ints,
    over: Ints,
    from_ns: Ints,
) -> Ints:
    """For each acquire an attempt of another client whose span had begun before by_ns and ended
    after from_ns: the one with the latest end; -1 if there is none.

    Compares each acquire with the latest end among the spans that began before by_ns; if that is
    its own client's (an owner that re-enters), with the latest end of any other client:

        spans  c0 [1, 9], c1 [2, 4]     c0 acquires in [5, 6]: 9 is its own, 4 < 5: no span met
    """
    if not len(held):
        return np.full(len(asked), -1)
    order = np.argsort(begun, kind="stable")
    begun, over, held = begun[order], over[order], held[order]
    owner = attempts.process[held]
    last = np.maximum.accumulate(over)
    # The place of the latest end so far: over 4 9 7 has last 4 9 9 and which 0 1 1.
    which = np.maximum.accumulate(np.where(over == last, np.arange(len(over)), 0))
    before = np.searchsorted(begun, by_ns)
    place = np.maximum(before - 1, 0)
    met = (before > 0) & (last[place] > from_ns)
    by = which[place]
    own = met & (owner[by] == attempts.process[asked])
    if own.any():
        second = _second_best(over, owner)
        other = second[place[own]]
        met[own] = (other >= 0) & (over[other] > from_ns[own])
        by[own] = other
    return np.where(met, held[by], -1)


def _second_best(over: Ints, owner: Ints) -> Ints:
    """For each prefix the place of the latest end among all clients but the one with the latest of
    all, -1 if there is none. O(n)"""
    latest = np.maximum.accumulate(over)
    if (latest == over).all():
        # Mostly holds follow each other: owner a b b a of ends in order has - 0 0 2.
        begins = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
        return np.repeat(begins - 1, np.diff(begins, append=len(owner)))
    # Where the latest end passes to another client, the best so far becomes the second; until then
    # only ends of others count. What became second is the latest before, so no maximum has to
    # restart there:
    #     over 5 3 7 6, owner a b b a:  best a a b b, ends that count - 3 5 6, second - 1 0 3
    places = np.arange(len(over))
    best = np.maximum.accumulate(np.where(over == latest, places, 0))
    passed = np.append(True, owner[best[1:]] != owner[best[:-1]])
    before = np.append(-1, best[:-1])
    counts = np.where(owner != owner[best], over, -1)
    counts[passed] = np.where(before[passed] < 0, -1, over[before[passed]])
    most = np.maximum.accumulate(counts)
    new = passed | np.append(True, counts[1:] > most[:-1])
    place = np.maximum.accumulate(np.where(new, places, 0))
    return np.where(passed, before, places)[place]
