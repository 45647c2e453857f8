"""Bounded bypass: a queued request is not overtaken more often than the order allows.

Claims
    VIOLATED: more requests of the same mode than the declared order allows were certainly granted
    the lock before a request that had certainly queued before their calls; with FIFO order none is
    allowed. A violation of starvation freedom violates this too.
Assumes
    That tokens are in the order of grants, if that is promised under the faults of the run.
Blind to
    Waits that ended without a grant, and those without a response that they wait. With priorities:
    overtakes within the declared number of grants after which no later request goes first, and one
    more per other client.
Cost
    O(n log n) in the attempts, plus the overtakes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.overtakes import told, unbounded, unjudged
from holdfast.checkers.facts.wording import drawn, lock_name
from holdfast.checkers.holds.waits import Passed, waits
from holdfast.checkers.opportunities.overtaking import behind_waiters, bounded, requeued
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import ALL, QUEUED, FaultClass, OpportunityRow
from holdfast.checkers.opportunities.strokes import LEADERS_LOST, of_lost_leaders
from holdfast.checkers.properties.starvation_freedom import starved
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "bounded-bypass"
NEEDS = ("contention", "tokens", "rivals", "waits-behind", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="bounded-bypass/served-out-of-turn/any",
        property="bounded-bypass",
        bounds=ALL,
        tokens=True,
        faults=FaultClass.ANY,
        defect="serves its queue in another order",
        sentence="a client waited, and another that had asked later waited behind it or came first",
        twin="reference:last-come-first",
        look=partial(
            near_faults, where=Where(behind_waiters, "no client waited behind another one")
        ),
        change=QUEUED,
        promised=bounded,
    ),
    *(
        OpportunityRow(
            id=f"bounded-bypass/new-leader-reorders/{of}",
            property="bounded-bypass",
            bounds=ALL,
            tokens=True,
            faults=of,
            defect="serves its queue in another order after a change of leader",
            sentence="two clients waited for a lock when the leader was lost, and both were granted"
            " it later",
            twin="reference:reversed-queue",
            look=partial(requeued, strokes=of_lost_leaders, what="the leader"),
            change=LEADERS_LOST,
            promised=bounded,
        )
        for of in (FaultClass.CRASH, FaultClass.STOP, FaultClass.CUT)
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on bounded-bypass, with the largest number of overtakes that was observed."""
    met = exercise(case, needs=NEEDS)
    observed = waits(case)
    most = max((len(_alike(one)) for one in observed.overtaken), default=0)
    counts = {**met.counts, "judged waits": observed.judged, "overtakes of one wait": most}
    missing = [*met.missing]
    findings = starved(case)
    bound = allowed(case)
    if bound is None:
        missing.append(unbounded(case))
    else:
        findings += [
            _finding(case, one, bound) for one in observed.overtaken if len(_alike(one)) > bound
        ]
    if not observed.judged:
        missing.append(unjudged(case))
    met = replace(met, counts=counts, missing=tuple(missing))
    return conclude(case, PROPERTY, findings, (), met)


def allowed(case: Case) -> int | None:
    """How often one wait may be overtaken; None if there is no bound."""
    promises = case.promises
    if promises.order == "fifo":
        return 0
    if promises.order == "priority" and promises.aging >= 0:
        return promises.aging + len(case.nodes)
    return None


def _alike(one: Passed) -> list[int]:
    return [g.row for g in one.by if g.mode == one.attempt.mode]


def _finding(case: Case, one: Passed, bound: int) -> Finding:
    a, rows = one.attempt, _alike(one)
    return Finding(
        kind="overtaken",
        sentence=f"{told(case, one)}: overtaken {len(rows)} times, {bound} allowed",
        witnesses=(a.row, a.waitings[0], *rows[:3]),
        lock=lock_name(case, a),
        t_ns=one.queued_ns,
        spans=tuple(drawn(case, b, b.end_ns) for b in (a, *one.by[:3])),
        proof=witnesses.overtaken("overtaken", case, one, rows, bound),
    )
