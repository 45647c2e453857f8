"""Orphan freedom: a lock that no client can hold is not rejected forever.

Claims
    VIOLATED: tries or the probe were rejected, and only rejected, for longer than the allowances of
    deadlock freedom explain, although no possible hold was left: the service keeps a lock for a
    client that is gone.
Assumes
    As deadlock freedom. FAIL means that the service rejected, unless its error shows that there was
    no response.
Blind to
    A single wrong rejection; a service that does not respond; locks whose hold only a release can
    end and whose owner died (deadlock freedom reports those).
Cost
    O(n log n) in the attempts of each lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.stalls import Stall, answered_span, stalls
from holdfast.checkers.facts.starved_hosts import only_starved
from holdfast.checkers.facts.wording import drawn, seconds, who
from holdfast.checkers.holds.derive import Attempt, Span
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import tried_after, tried_after_silent
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.checkers.properties.deadlock_freedom import WAITS, unanswered_probes
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, PlanChange, PropertyVerdict

PROPERTY = "orphan-freedom"
NEEDS = ("contention", "probes", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="orphan-freedom/kept-for-nobody/any",
        property="orphan-freedom",
        defect="refuses a lock after its holder's time",
        sentence="a try or probe was answered after the hold before had ended",
        twin="majority:leaky-round",
        look=partial(
            near_faults,
            where=Where(tried_after, "no try was answered after a hold had ended", extra=True),
        ),
        change=PlanChange(),
    ),
    of_any_fault(
        id="orphan-freedom/kept-for-silent/any",
        property="orphan-freedom",
        defect="refuses a lock that its owner never gave up after its time",
        sentence="a try or probe was answered after the hold of an owner that never gave it up had"
        " ended",
        twin="reference:endless-lease",
        look=partial(
            near_faults,
            where=Where(
                tried_after_silent,
                "no try was answered after a hold that was not given up",
                extra=True,
            ),
        ),
        bounds=("lease", "session", "connection"),
        change=PlanChange(),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on orphan-freedom."""
    findings = orphans(case)
    met = exercise(case, needs=NEEDS)
    starved = only_starved(case, findings, orphans, WAITS)
    doubts = (*met.doubts, *unanswered_probes(case), *starved)
    return conclude(case, PROPERTY, findings, (), replace(met, doubts=doubts))


def orphans(case: Case) -> list[Finding]:
    """One finding per stall in which a lock was refused."""
    return [_finding(case, stall) for stall in stalls(case, _refused, dead_let_go=False)]


def _refused(case: Case, a: Attempt) -> Span | None:
    if a.op not in (Op.TRY, Op.PROBE) or a.status is Status.OK:
        return None
    return answered_span(case, a)


def _finding(case: Case, stall: Stall) -> Finding:
    lock = case.history.strings[stall.key]
    times = f"{len(stall.asked)} times" if len(stall.asked) > 1 else "once, for its whole wait"
    last = "" if stall.last is None else f"; {who(case, stall.last)} held it last"
    ends = [] if stall.last is None else [stall.last.row, stall.last.end_row]
    asked = stall.asked if len(stall.asked) < 5 else (*stall.asked[:2], *stall.asked[-2:])
    return Finding(
        kind="orphan",
        sentence=(
            f"'{lock}' was refused {times} from {seconds(case, stall.from_ns)} to"
            f" {seconds(case, stall.to_ns)}, although no client could hold it{last}"
        ),
        witnesses=(*(row for row in ends if row >= 0), *(a.row for a in asked)),
        lock=lock,
        t_ns=stall.from_ns,
        spans=() if stall.last is None else (drawn(case, stall.last, stall.last.end_ns),),
        proof=witnesses.stalled("orphan", stall),
    )
