"""No expired-owner write: the resource accepts no write of an owner whose hold is over.

Claims
    VIOLATED: the resource's log shows a write accepted after the writer's hold had certainly ended,
    with or without a newer owner by then. With one, the same write is a stale write too; without
    one, comparing tokens cannot prevent it: there is nothing to compare with.
Assumes
    A hold ends by a release that returned ok, a response "not the owner", a loss notice, an
    operator's force-unlock of this hold, a lease that expired 3 s before on a service without
    faults, or the next owner's grant.
Blind to
    Leases that a fault on a server may have extended; holds that a renewal of unknown outcome may
    have revived; an owner that re-entered the lock and still holds it by another attempt; ends that
    only the service knows.
Cost
    O(n log n) in requests and attempts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.facts.wording import drawn, seconds, who
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.hold_end import HoldEnd
from holdfast.checkers.opportunities.places.checked_owners import expired_requests
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, PlanChange, Proof, PropertyVerdict

PROPERTY = "no-expired-write"
NEEDS = ("contention", "requests", "expired-requests", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-expired-write/unchecked-end/any",
        property="no-expired-write",
        change=PlanChange(),
        outlives=True,
        defect="admits an owner whose hold is over",
        sentence="a write reached the resource after its owner's hold had certainly ended",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(expired_requests, "no write of an owner whose hold had ended came"),
        ),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-expired-write."""
    findings = [_finding(case, *expired) for expired in expired_writes(case)]
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def expired_writes(case: Case) -> Iterator[tuple[resource_log.Request, Attempt, HoldEnd]]:
    """Every accepted write of an owner whose hold had ended, in the order of the log."""
    return (late for late in late_writes(case) if late[0].accepted)


def _finding(case: Case, request: resource_log.Request, attempt: Attempt, end: HoldEnd) -> Finding:
    lock = case.history.strings[request.key]
    sent = (request.sent,) if request.sent >= 0 else ()
    proof = tuple(row for row in (end.row, *end.more) if row not in (attempt.row, -1))
    return Finding(
        kind="expired-owner-write",
        sentence=(
            f"the resource accepted a write to '{lock}' from {who(case, attempt)} at"
            f" {seconds(case, request.from_ns)}, although its hold {end.why} by"
            f" {seconds(case, end.t_ns)}"
        ),
        witnesses=(attempt.row, *proof, *sent, request.row),
        lock=lock,
        t_ns=request.from_ns,
        spans=(drawn(case, attempt, attempt.end_ns),),
        proof=_proof(case, request, attempt, end),
    )


def _proof(case: Case, request: resource_log.Request, a: Attempt, end: HoldEnd) -> Proof:
    roles = {"owner": a.row, "request": request.row}
    if end.row == a.row:
        rule = "expired-owner-write/lease"
        return Proof(rule=rule, roles=roles, values={"over": end.t_ns})
    row = case.history.rows[end.row]
    values: dict[str, int] = {}
    if row["f"] in (Op.ACQUIRE, Op.TRY, Op.PROBE):
        how = "passed"
        spans = [span for span in (a.contract, a.proved) if span is not None]
        values = {"owner_until": max((span[1] for span in spans), default=0)}
    elif row["f"] == Op.FORCE_UNLOCK:
        how = "unlocked"
    elif row["f"] == Op.LOST:
        how = "told"
    else:
        how = "released" if row["status"] == Status.OK else "answered"
    roles["end"] = end.row
    return Proof(rule=f"expired-owner-write/{how}", roles=roles, values=values)
