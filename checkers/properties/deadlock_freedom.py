"""Deadlock freedom: a lock that its holder released or lost is granted again.

Claims
    VIOLATED: a client waited for a lock that no client could hold and that was not granted, for
    longer than the allowances below explain. A dead owner's hold that only a release would end
    counts as given up: such a lock is never free again, which is what this property is about.
Assumes
    The service responds again `recovery_ns` after a heal, and may then restart a lease; if it
    promises to continue without a minority of its servers, `minority_ns` after they have stopped.
    Each acquire of unknown outcome may hold the lock for one more lease.
Blind to
    Stalls shorter than the slack, during other faults and right after them; services that do not
    respond at all; acquires of unknown outcome by clients that stay alive, if no lease bounds the
    hold.
Cost
    O(n log n) in the attempts of each lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.fault_windows import stopped_servers
from holdfast.checkers.facts.stalls import Stall, answered_span, stalls
from holdfast.checkers.facts.starved_hosts import only_starved
from holdfast.checkers.facts.wording import drawn, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, Span
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import waited_for_silent, waited_on
from holdfast.checkers.opportunities.row import (
    CONTENDED,
    LEFT_TO_LEASES,
    OpportunityRow,
    of_any_fault,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "deadlock-freedom"
NEEDS = ("contention", "handovers", "probes", "faults")
WAITS = "spans without a grant"
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="deadlock-freedom/not-handed-on/any",
        property="deadlock-freedom",
        defect="does not grant a lock to the next client when it is free",
        sentence="a client asked for a lock, and had an answer after the hold before had ended",
        twin="majority:leaky-round",
        look=partial(
            near_faults, where=Where(waited_on, "no request was answered after a hold had ended")
        ),
        change=CONTENDED,
    ),
    of_any_fault(
        id="deadlock-freedom/never-ends/any",
        property="deadlock-freedom",
        defect="does not free a lock that its owner never gave up",
        sentence="a client asked for a lock, and had an answer after the hold of an owner that"
        " never gave it up had ended",
        twin="reference:endless-lease",
        look=partial(
            near_faults,
            where=Where(
                waited_for_silent,
                "no request was answered after a hold that was not given up",
                seldom=True,
            ),
        ),
        bounds=("lease", "session", "connection"),
        change=LEFT_TO_LEASES,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on deadlock-freedom."""
    met = exercise(case, needs=NEEDS)
    findings = deadlocks(case)
    starved = only_starved(case, findings, deadlocks, WAITS)
    doubts = (*met.doubts, *unanswered_probes(case), *starved)
    return conclude(case, PROPERTY, findings, (), replace(met, doubts=doubts))


def deadlocks(case: Case) -> list[Finding]:
    """One finding per stall in which a client waited."""
    return [_finding(case, stall) for stall in stalls(case, _waiting, dead_let_go=True)]


def unanswered_probes(case: Case) -> list[str]:
    """Reasons for UNKNOWN: why each ungranted probe is no violation either."""
    reasons = []
    attempts = table(case)
    for a in attempts.pick(np.flatnonzero((attempts.op == Op.PROBE) & ~attempts.ok)):
        lock = case.history.strings[a.key]
        if answered_span(case, a) is None:
            reasons.append(f"the probe of '{lock}' got no response: the service was unavailable")
        else:
            reasons.append(
                f"the probe of '{lock}' was not granted, but an earlier acquire or fault may"
                " still have kept the lock"
            )
    return reasons


def _waiting(case: Case, a: Attempt) -> Span | None:
    return answered_span(case, a) if a.op != Op.TRY else None


def _finding(case: Case, stall: Stall) -> Finding:
    lock = case.history.strings[stall.key]
    waiters = list(dict.fromkeys(a.node for a in stall.asked))
    named = ", ".join(waiters[:3]) + (f" and {len(waiters) - 3} more" if waiters[3:] else "")
    why = "no client had held it before"
    if stall.last is not None:
        why = f"its last owner, {who(case, stall.last)}, had released it or was dead"
    stopped = stopped_servers(case, stall.from_ns, stall.to_ns)
    ran = f", with only {' and '.join(stopped)} stopped" if stopped else ""
    ends = [] if stall.last is None else [stall.last.row, stall.last.end_row]
    return Finding(
        kind="deadlock",
        sentence=(
            f"from {seconds(case, stall.from_ns)} to {seconds(case, stall.to_ns)} no client was"
            f" granted '{lock}', although {named} asked for it and no client could hold it{ran}:"
            f" {why}"
        ),
        witnesses=(*(row for row in ends if row >= 0), *(a.row for a in stall.asked[:4])),
        lock=lock,
        t_ns=stall.from_ns,
        spans=() if stall.last is None else (drawn(case, stall.last, stall.last.end_ns),),
        proof=witnesses.stalled("deadlock", stall),
    )
