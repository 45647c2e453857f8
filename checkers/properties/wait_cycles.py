"""Wait-for cycles between clients: who certainly waited for whom, and where that closes a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.facts.stalls import longest_ns
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import Attempt, Span, conflict
from holdfast.checkers.holds.history_index import Bools, Indices, Ints
from holdfast.checkers.holds.overlaps import proof_reaches, reaches, slack
from holdfast.checkers.holds.starvation import starved_spans
from holdfast.checkers.holds.statements import LASTING
from holdfast.checkers.holds.waits import first_told
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode

FOUND_WITHIN_NS = 2 * SECOND
"""Time until a cycle has to be detected and broken."""
MOST_EDGES = 20_000
"""Limits on the waits for a holder, and below on the steps between them: a second of CPU. With
more, findings count, and no finding is UNKNOWN."""
MOST_STEPS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """One client certainly waited for another's lock during a span."""

    waiter: Attempt
    holder: Attempt
    during: Span


class Cycles:
    """The cycles of a run. A new wait may close one: the search starts there, among the waits that
    are open at that time and last long enough.

    first     the first cycle of each set of locks
    count     waits that closed one
    given_up  MOST_STEPS were not enough
    """

    def __init__(self, case: Case) -> None:
        self.first: dict[tuple[int, ...], tuple[tuple[Edge, ...], Span]] = {}
        self.count = 0
        self.steps = 0
        edges, self.given_up = _edges(case)
        alive: dict[int, list[Edge]] = {}
        for edge in sorted(edges, key=lambda edge: edge.during[0]):
            now_ns = edge.during[0]
            waits = [one for one in alive.get(edge.waiter.process, ()) if _stays(one, now_ns)]
            alive[edge.waiter.process] = [*waits, edge]
            self.steps += len(waits)
            cycle = self._closed(alive, edge, now_ns)
            if self.steps > MOST_STEPS:
                self.given_up = True
                return
            if cycle:
                self.count += 1
                locks = tuple(sorted({one.waiter.key for one in cycle}))
                during = now_ns, min(one.during[1] for one in cycle)
                self.first.setdefault(locks, (cycle, during))

    def _closed(
        self, alive: Mapping[int, Sequence[Edge]], edge: Edge, now_ns: int
    ) -> tuple[Edge, ...]:
        """The shortest cycle through a wait, () if there is none; breadth first."""
        came: dict[int, Edge] = {edge.holder.process: edge}
        open_now = [edge.holder.process]
        while open_now:
            further = []
            for process in open_now:
                for one in alive.get(process, ()):
                    self.steps += 1
                    if self.steps > MOST_STEPS:
                        return ()
                    if not _stays(one, now_ns):
                        continue
                    if one.holder.process == edge.waiter.process:
                        return _way(came, one, edge)
                    if one.holder.process not in came:
                        came[one.holder.process] = one
                        further.append(one.holder.process)
            open_now = further
        return ()


def _stays(edge: Edge, now_ns: int) -> bool:
    return edge.during[1] - now_ns > FOUND_WITHIN_NS


def _way(came: Mapping[int, Edge], last: Edge, first: Edge) -> tuple[Edge, ...]:
    """The cycle that ends with `last`, from its smallest process on."""
    way = [last]
    while way[-1] is not first:
        way.append(came[way[-1].waiter.process])
    way.reverse()
    at = min(range(len(way)), key=lambda n: way[n].waiter.process)
    return tuple(way[at:] + way[:at])


def _edges(case: Case) -> tuple[Sequence[Edge], bool]:
    """The waits that lasted longer than a cycle may, and whether there were too many to search."""
    every, slack_ns = table(case), slack(case)
    far = np.where(lasting(case), reaches(case), proof_reaches(case))
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    faults = [(window.from_ns, window.to_ns + calm_ns) for window in case.windows]
    faults = sorted([*faults, *starved_spans(case)])
    since, until = first_told(case), np.minimum(every.ret, case.end_ns)
    least_ns = FOUND_WITHIN_NS + 2 * slack_ns
    edges: list[Edge] = []
    beside: dict[int, tuple[Indices, Ints]] = {}
    long = until - np.minimum(since, until) > least_ns
    for n in np.flatnonzero(long & (every.mode != Mode.PERMITS)).tolist():
        key = int(every.key[n])
        if key not in beside:
            others = every.beside(key)
            others = others[np.argsort(every.known[others], kind="stable")]
            beside[key] = others, np.maximum.accumulate(far[others])
        others, reached = beside[key]
        # Holders known early enough, without those before the first whose reach suffices.
        low = int(np.searchsorted(reached, since[n] + least_ns, "right"))
        high = int(np.searchsorted(every.known[others], until[n] - least_ns))
        window = others[low:high]
        from_ns = np.maximum(since[n], every.known[window])
        to_ns = np.minimum(until[n], far[window])
        met = np.flatnonzero(to_ns - from_ns > least_ns)
        if len(edges) + len(met) > MOST_EDGES:
            return edges, True
        a, *holders = every.pick([n, *window[met].tolist()])
        for b, k in zip(holders, met.tolist(), strict=True):
            # A client that waits for itself is its own mistake, and no cycle of several.
            if a.process != b.process and conflict(a, b):
                whole = int(from_ns[k]) + slack_ns, int(to_ns[k]) - slack_ns
                edges += [Edge(waiter=a, holder=b, during=calm) for calm in _without(faults, whole)]
    return edges, False


def lasting(case: Case) -> Bools:
    """Which attempts are for locks whose leases last as promised."""
    keys = [key for key in np.unique(table(case).key).tolist() if stands_for(case, key, LASTING)]
    return np.asarray(np.isin(table(case).key, keys))


def _without(faults: Sequence[Span], whole: Span) -> Iterator[Span]:
    """The parts of a span outside all faults that are longer than a cycle may last."""
    at_ns = whole[0]
    for from_ns, to_ns in [*faults, (whole[1], whole[1])]:
        end_ns = min(from_ns, whole[1])
        if end_ns - at_ns > FOUND_WITHIN_NS:
            yield at_ns, end_ns
        at_ns = max(at_ns, to_ns)
