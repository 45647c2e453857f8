"""Multi-lock deadlock: no circle of clients that wait for each other's locks stays unbroken.

Claims
    VIOLATED: each of some clients held a lock that the next one had been told to wait for, all in a
    circle and all at once, for longer than the time in which it has to be found and broken.
Assumes
    That a lock which was proved or promised to one cannot be granted to a conflicting other.
Blind to
    Circles during faults and until the service has recovered from them; circles through permits of
    a semaphore, and through those who are merely earlier in a queue.
Cost
    The waits that last longer than a circle may, times what was held in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.overtakes import first_told
from holdfast.checkers.facts.stalls import longest_ns
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, span
from holdfast.checkers.holds.assumptions import LASTING, stands_for
from holdfast.checkers.holds.attempt_table import Bools, table
from holdfast.checkers.holds.derive import Attempt, Span, conflict
from holdfast.checkers.holds.overlaps import proof_reaches, reach, reaches, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "no-multi-lock-deadlock"
NEEDS = ("contention", "second-locks", "faults")
FOUND_WITHIN_NS = 2 * SECOND
"""A circle may last so long until it is found and broken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """One client waited for another's lock, certainly, over a span."""

    waiter: Attempt
    holder: Attempt
    during: Span


def check(case: Case) -> PropertyVerdict:
    """The verdict, with one finding per circle."""
    met = exercise(case, needs=NEEDS)
    findings = [_finding(case, circle, during) for circle, during in _circles(_edges(case))]
    findings.sort(key=lambda finding: finding.t_ns)
    return conclude(case, PROPERTY, findings, (), met)


def _edges(case: Case) -> Mapping[int, Sequence[Edge]]:
    """By waiting process, the waits that lasted too long for a circle."""
    every, slack_ns = table(case), slack(case)
    far = np.where(_lasting(case), reaches(case), proof_reaches(case))
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    faults = [(window.from_ns, window.to_ns + calm_ns) for window in case.windows]
    since, until = first_told(case), np.minimum(every.ret, case.end_ns)
    found: defaultdict[int, list[Edge]] = defaultdict(list)
    long = until - np.minimum(since, until) > FOUND_WITHIN_NS + 2 * slack_ns
    for n in np.flatnonzero(long & (every.mode != Mode.PERMITS)).tolist():
        beside = every.beside(int(every.key[n]))
        from_ns = np.maximum(since[n], every.known[beside])
        to_ns = np.minimum(until[n], far[beside])
        met = np.flatnonzero(to_ns - from_ns > FOUND_WITHIN_NS + 2 * slack_ns)
        a, *others = every.pick([n, *beside[met].tolist()])
        for b, k in zip(others, met.tolist(), strict=True):
            if conflict(a, b):
                whole = int(from_ns[k]) + slack_ns, int(to_ns[k]) - slack_ns
                for calm in _without(faults, whole):
                    found[a.process].append(Edge(waiter=a, holder=b, during=calm))
    return found


def _lasting(case: Case) -> Bools:
    """Which attempts are for locks whose leases last as was promised."""
    keys = [key for key in np.unique(table(case).key).tolist() if stands_for(case, key, LASTING)]
    return np.asarray(np.isin(table(case).key, keys))


def _without(faults: Sequence[Span], whole: Span) -> Iterator[Span]:
    """The parts of a span outside all faults that are longer than a circle may last."""
    at_ns = whole[0]
    for from_ns, to_ns in [*sorted(faults), (whole[1], whole[1])]:
        end_ns = min(from_ns, whole[1])
        if end_ns - at_ns > FOUND_WITHIN_NS:
            yield at_ns, end_ns
        at_ns = max(at_ns, to_ns)


def _circles(edges: Mapping[int, Sequence[Edge]]) -> Iterator[tuple[tuple[Edge, ...], Span]]:
    """Every circle of edges that stood at once for too long, each from its smallest process on."""
    for first in sorted(edges):
        left: list[tuple[tuple[Edge, ...], Span]] = [((e,), e.during) for e in edges[first]]
        while left:
            way, during = left.pop()
            next_process = way[-1].holder.process
            if next_process == first:
                yield way, during
                continue
            passed = {edge.waiter.process for edge in way}
            if next_process in passed or next_process < first:
                continue
            for edge in edges.get(next_process, ()):
                from_ns = max(during[0], edge.during[0])
                to_ns = min(during[1], edge.during[1])
                if to_ns - from_ns > FOUND_WITHIN_NS:
                    left.append(((*way, edge), (from_ns, to_ns)))


def _finding(case: Case, circle: Sequence[Edge], during: Span) -> Finding:
    waits = ", ".join(
        f"{name(case, edge.waiter.process)} waited for '{lock_name(case, edge.waiter)}' of"
        f" {name(case, edge.holder.process)}"
        for edge in circle
    )
    rows = [row for edge in circle[:3] for row in (edge.waiter.row, edge.holder.row)]
    return Finding(
        kind="multi-lock-deadlock",
        sentence=(
            f"from {seconds(case, during[0])} on, for {span(during[1] - during[0])}, nobody broke a"
            f" circle: {waits}"
        ),
        witnesses=tuple(rows),
        lock=lock_name(case, circle[0].waiter),
        t_ns=during[0],
        spans=tuple(drawn(case, edge.holder, reach(case)(edge.holder)) for edge in circle),
    )
