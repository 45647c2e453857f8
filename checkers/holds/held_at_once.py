"""Pairs of grants that held at once, whichever of them was first.

If in neither order of two grants the first hold can have ended before the second began, both held
at once. Where tokens can be relied on they show which of the two was granted first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.overlaps import (
    Leaders,
    granted,
    knots,
    proof_reach,
    reach,
    reaches,
    slack,
)
from holdfast.checkers.holds.token_order import ordered as tokens_in_order
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Two holds at once. older: the one granted first, or known first if undecided.

    proved     proofs alone show it; else it relies on what the service had promised
    """

    older: Attempt
    newer: Attempt
    proved: bool


@memoised
def overlaps(case: Case) -> Mapping[int, Sequence[Overlap]]:
    """Per lock the overlaps, at most one per newer grant: preferably proved, then the longest."""
    far = reaches(case)
    return {
        key: _best((o for knot in knots(case, ordered, far) for o in _in_time(case, knot)), case)
        for key, ordered in granted(case).items()
    }


def disjoint(case: Case, key: int) -> bool:
    """Whether no two holds on an ancestor chain with this lock overlap: a lock has one chain, one
    of a hierarchy may be on several."""
    if "overlapping" not in case.memo:
        column = table(case).key
        case.memo["overlapping"] = {
            lock: None
            for last, pairs in overlaps(case).items()
            if pairs
            for lock in np.unique(column[granted(case)[last]]).tolist()
        }
    return key not in case.memo["overlapping"]


def _in_time(case: Case, found: Sequence[Attempt]) -> Iterator[Overlap]:
    """At most one per attempt: with the earlier known one that was proved, else bound, longest.

    `found` is in the order of `known`. Both must last beyond the time the other was known.
    """
    far, slack_ns = reach(case), slack(case)
    in_order = bool(found) and tokens_in_order(case, found[0].key)
    known = [a.known_ns for a in found]
    ways = [(proof_reach, True), (far, False)]
    leaders = [(Leaders(found, [way(a) for a in found]), way, proved) for way, proved in ways]
    for n, b in enumerate(found):
        for longest, way, proved in leaders:
            a = longest.best(b, min(n, bisect_left(known, way(b) - slack_ns)))
            if a is not None and way(a) > b.known_ns + slack_ns:
                swap = in_order and NO_TOKEN < b.token < a.token
                older, newer = (b, a) if swap else (a, b)
                yield Overlap(older=older, newer=newer, proved=proved)
                break


def _best(found: Iterable[Overlap], case: Case) -> list[Overlap]:
    far = reach(case)
    best: dict[int, Overlap] = {}
    for overlap in found:
        other = best.setdefault(overlap.newer.id, overlap)
        if (overlap.proved, far(overlap.older)) > (other.proved, far(other.older)):
            best[overlap.newer.id] = overlap
    return list(best.values())
