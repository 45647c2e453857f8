"""Starvation freedom: no request waits indefinitely while others are granted.

Claims
    VIOLATED: a queued request was overtaken more than once per other client, by requests of any
    mode, beyond what its order allows. A deadlock is starvation too, and so is a livelock: several
    clients kept trying, no less often towards the end, for longer than the allowances of deadlock
    freedom explain, while no client could hold the lock and no request was granted.
Assumes
    That tokens are in the order of grants, if that is promised under the faults of the run.
Blind to
    Waits that ended without a grant: they may have been given up before the others were granted.
Cost
    O(n log n) in the attempts, plus the overtakes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.overtakes import told, unjudged
from holdfast.checkers.facts.starved_hosts import only_starved
from holdfast.checkers.facts.wording import drawn, lock_name
from holdfast.checkers.holds.waits import Passed, waits
from holdfast.checkers.opportunities.overtaking import has_queues, patient_waits
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import ALL, QUEUED, FaultClass, OpportunityRow
from holdfast.checkers.properties.deadlock_freedom import WAITS, deadlocks, unanswered_probes
from holdfast.checkers.properties.livelock import livelocks
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "starvation-freedom"
NEEDS = ("contention", "tokens", "rivals", "patient-waits", "probes", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="starvation-freedom/never-served/any",
        property="starvation-freedom",
        bounds=ALL,
        tokens=True,
        faults=FaultClass.ANY,
        defect="grants to others for as long as a client waits",
        sentence="a client waited with another behind it, and would have waited while the lock was"
        " granted to others more often than there are clients",
        twin="reference:last-come-first",
        applies=has_queues,
        look=partial(
            near_faults,
            where=Where(
                patient_waits, "no client waited, with another behind it, during enough grants"
            ),
        ),
        change=QUEUED,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on starvation-freedom."""
    met = exercise(case, needs=NEEDS)
    observed = waits(case)
    counts = {
        **met.counts,
        "judged waits": observed.judged,
        "overtakes of one wait": observed.most,
    }
    findings = starved(case)
    doubts = (*met.doubts, *unanswered_probes(case), *only_starved(case, findings, starved, WAITS))
    missing = [*met.missing]
    if not observed.judged:
        missing.append(unjudged(case))
    met = replace(met, counts=counts, missing=tuple(missing), doubts=doubts)
    return conclude(case, PROPERTY, findings, (), met)


def starved(case: Case) -> list[Finding]:
    """Every wait that was overtaken too often, every deadlock and every livelock."""
    most = len(case.nodes) + max(0, case.promises.aging)
    findings = [_finding(case, one, most) for one in waits(case).overtaken if len(one.by) > most]
    return findings + deadlocks(case) + list(livelocks(case))


def _finding(case: Case, one: Passed, most: int) -> Finding:
    a = one.attempt
    return Finding(
        kind="starved",
        sentence=f"{told(case, one)}: overtaken {len(one.by)} times in all",
        witnesses=(a.row, a.waitings[0], *(g.row for g in one.by[:4])),
        lock=lock_name(case, a),
        t_ns=one.queued_ns,
        spans=tuple(drawn(case, b, b.end_ns) for b in (a, *one.by[:4])),
        proof=witnesses.overtaken("starved", case, one, [b.row for b in one.by], most),
    )
