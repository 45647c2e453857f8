"""Multi-lock deadlock: no wait-for cycle between clients stays unbroken.

Claims
    VIOLATED: each of several clients held a lock for which the next one was queued, all in a cycle
    and all at once, for longer than the time in which it has to be detected and broken.
Assumes
    That a lock proved or promised to one attempt cannot be granted to a conflicting one.
Blind to
    Cycles during faults and until the service has recovered from them, or while the host is
    starved of CPU; cycles through permits of a
    semaphore, and through clients that are only ahead in a queue.
Cost
    O(n log n), plus the waits that last longer than a cycle may, times the holders meanwhile;
    beyond 20,000 of those or 1,000,000 steps from wait to wait it gives up: UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.stalls import longest_ns
from holdfast.checkers.facts.starved_hosts import excuse
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import Attempt, Span, conflict
from holdfast.checkers.holds.history_index import Bools, Indices, Ints
from holdfast.checkers.holds.overlaps import proof_reach, proof_reaches, reach, reaches, slack
from holdfast.checkers.holds.starvation import starved_spans, without_starvation
from holdfast.checkers.holds.statements import LASTING
from holdfast.checkers.holds.waits import first_told
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "no-multi-lock-deadlock"
NEEDS = ("contention", "second-locks", "faults")
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


def check(case: Case) -> PropertyVerdict:
    """The verdict, with the first cycle of each set of locks as a finding; all are counted."""
    met = exercise(case, needs=NEEDS)
    found, doubts = _Found(case), met.doubts
    findings = [_finding(case, cycle, during) for cycle, during in found.first.values()]
    findings.sort(key=lambda finding: finding.t_ns)
    if found.given_up:
        reason = f"too many waits at once: more than {MOST_STEPS} steps to search for cycles"
        doubts = (*doubts, reason)
    if case.starved and not findings and (every := _Found(without_starvation(case)).first):
        from_ns = min(during[0] for _, during in every.values())
        doubts = (*doubts, excuse(case, len(every), "wait-for cycles", from_ns))
    counts = {**met.counts, "wait-for cycles": found.count}
    return conclude(case, PROPERTY, findings, (), replace(met, counts=counts, doubts=doubts))


class _Found:
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
    far = np.where(_lasting(case), reaches(case), proof_reaches(case))
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    faults = [(window.from_ns, window.to_ns + calm_ns) for window in case.windows]
    faults = sorted([*faults, *starved_spans(case)])
    since, until = first_told(case), np.minimum(every.ret, case.end_ns)
    least_ns = FOUND_WITHIN_NS + 2 * slack_ns
    found: list[Edge] = []
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
        if len(found) + len(met) > MOST_EDGES:
            return found, True
        a, *holders = every.pick([n, *window[met].tolist()])
        for b, k in zip(holders, met.tolist(), strict=True):
            # A client that waits for itself is its own mistake, and no cycle of several.
            if a.process != b.process and conflict(a, b):
                whole = int(from_ns[k]) + slack_ns, int(to_ns[k]) - slack_ns
                found += [Edge(waiter=a, holder=b, during=calm) for calm in _without(faults, whole)]
    return found, False


def _lasting(case: Case) -> Bools:
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


def _finding(case: Case, cycle: Sequence[Edge], during: Span) -> Finding:
    waits = ", ".join(
        f"{name(case, edge.waiter.process)} waited for '{lock_name(case, edge.waiter)}', held by"
        f" {name(case, edge.holder.process)}"
        for edge in cycle
    )
    rows = [row for edge in cycle[:3] for row in (edge.waiter.row, edge.holder.row)]
    return Finding(
        kind="multi-lock-deadlock",
        sentence=(
            f"a wait-for cycle lasted for {span(during[1] - during[0])} from"
            f" {seconds(case, during[0])} on: {waits}"
        ),
        witnesses=tuple(rows),
        lock=lock_name(case, cycle[0].waiter),
        t_ns=during[0],
        spans=tuple(drawn(case, edge.holder, reach(case)(edge.holder)) for edge in cycle),
        proof=_proof(case, cycle, during),
    )


def _proof(case: Case, cycle: Sequence[Edge], during: Span) -> Proof:
    stamps = case.history.rows["t_inv"]
    roles: dict[str, int] = {}
    values = {"from_ns": during[0], "to_ns": during[1]}
    for n, edge in enumerate(cycle, 1):
        a, b = edge.waiter, edge.holder
        waiting = min(a.waitings, key=lambda row: int(stamps[row]))
        roles |= {f"waiter{n}": a.row, f"waiting{n}": waiting}
        roles |= witnesses.known(case, **{f"holder{n}": b})
        lasts = stands_for(case, b.key, LASTING)
        values[f"holder{n}_held"] = reach(case)(b) if lasts else proof_reach(b)
        values[f"waiter{n}_waited"] = min(a.ret_ns, case.end_ns)
    return Proof(rule="multi-lock-deadlock", roles=roles, values=values)
