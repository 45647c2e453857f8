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

    Compares each acquire with the latest end among the spans that began before by_ns; if that is
    its own client's (an owner that re-enters), with the latest end of any other client:

        spans  c0 [1, 9], c1 [2, 4]     c0 acquires in [5, 6]: 9 is its own, 4 < 5: no span met
    """
    if not len(held):
        return np.zeros(len(asked), bool)
    order = np.argsort(begun, kind="stable")
    begun, over, owner = begun[order], over[order], attempts.process[held[order]]
    last = np.maximum.accumulate(over)
    # The place of the latest end so far: over 4 9 7 has last 4 9 9 and which 0 1 1.
    which = np.maximum.accumulate(np.where(over == last, np.arange(len(over)), 0))
    before = np.searchsorted(begun, by_ns)
    place = np.maximum(before - 1, 0)
    met = (before > 0) & (last[place] > attempts.inv[asked])
    own = met & (owner[which[place]] == attempts.process[asked])
    if own.any():
        second = _second_best(over, owner)
        met[own] = second[place[own]] > attempts.inv[asked[own]]
    return np.asarray(met)


def _second_best(over: Ints, owner: Ints) -> Ints:
    """For each prefix the latest end among all clients but the one with the latest of all. O(n)"""
    second = np.full(len(over), -1)
    first_ns, first, second_ns = -1, -1, -1
    for n, (end_ns, process) in enumerate(zip(over.tolist(), owner.tolist(), strict=True)):
        if end_ns >= first_ns:
            second_ns = second_ns if process == first else first_ns
            first_ns, first = end_ns, process
        elif process != first:
            second_ns = max(second_ns, end_ns)
        second[n] = second_ns
    return second
