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

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.starved_hosts import excuse
from holdfast.checkers.facts.wording import drawn, lock_name, name, seconds, span
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import Span
from holdfast.checkers.holds.overlaps import proof_reach, reach
from holdfast.checkers.holds.starvation import without_starvation
from holdfast.checkers.holds.statements import LASTING
from holdfast.checkers.opportunities.places.crossed_waits import crossed_waits
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import BUSY, CLIENTS, OpportunityRow, of_any_fault
from holdfast.checkers.properties.wait_cycles import MOST_STEPS, Cycles, Edge
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PlanChange, Proof, PropertyVerdict

PROPERTY = "no-multi-lock-deadlock"
NEEDS = ("contention", "second-locks", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-multi-lock-deadlock/undetected-cycle/any",
        property="no-multi-lock-deadlock",
        defect="does not break a cycle of waits",
        sentence="clients that held a lock each waited for each other's",
        twin="reference:blind-to-cycles",
        look=partial(
            near_faults,
            where=Where(crossed_waits, "no clients waited for each other's locks"),
        ),
        # Of two locks, most clients that hold one wait for the other.
        change=PlanChange(clients=CLIENTS, locks=2, least_locks=2, least_leases=20, options=BUSY),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict, with the first cycle of each set of locks as a finding; all are counted."""
    met = exercise(case, needs=NEEDS)
    cycles, doubts = Cycles(case), met.doubts
    findings = [_finding(case, cycle, during) for cycle, during in cycles.first.values()]
    findings.sort(key=lambda finding: finding.t_ns)
    if cycles.given_up:
        reason = f"too many waits at once: more than {MOST_STEPS} steps to search for cycles"
        doubts = (*doubts, reason)
    if case.starved and not findings and (every := Cycles(without_starvation(case)).first):
        from_ns = min(during[0] for _, during in every.values())
        doubts = (*doubts, excuse(case, len(every), "wait-for cycles", from_ns))
    counts = {**met.counts, "wait-for cycles": cycles.count}
    return conclude(case, PROPERTY, findings, (), replace(met, counts=counts, doubts=doubts))


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
