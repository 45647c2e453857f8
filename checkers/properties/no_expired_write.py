"""No expired-owner write: once its owner's hold is over, the resource takes nothing from it.

Claims
    VIOLATED: the resource's log shows a write accepted after the writer's hold had ended for
    certain, and before any newer owner had been admitted. Comparing tokens cannot stop that: there
    is nothing yet to compare with.
Assumes
    A release answered ok, an answer "not the owner", a loss notice, an operator's force-unlock of
    that hold, a lease that ran out on an undisturbed service 3 s before, or the next owner's grant
    ends a hold.
Blind to
    Leases that a fault on a server may have made longer; ends that only the service knows of.
    A write that a newer owner's request had preceded is a stale write, another property.
Cost
    O(n log n) in requests and attempts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.admissions import accepted, walked
from holdfast.checkers.facts.wording import drawn, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.hold_end import Ended, certain_end, may_have_ended
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "no-expired-write"
NEEDS = ("contention", "requests", "stale-requests", "faults")


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-expired-write."""
    findings = [_finding(case, *expired) for expired in expired_writes(case)]
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def expired_writes(case: Case) -> Iterator[tuple[resource_log.Request, Attempt, Ended]]:
    """Every accepted write of an owner whose hold had ended, in the order of the log."""
    found = accepted(case)
    late = found.write & (found.from_ns > may_have_ended(case)[found.entry] + case.error_ns)
    doubtful = np.unique(found.key[late & found.overtaken])
    expired = [
        (request, attempt)
        for request, attempt, before in walked(case, doubtful)
        if request.write and before.newer_than(attempt) is None
    ]
    sure = np.flatnonzero(late & ~np.isin(found.key, doubtful))
    attempts = table(case).pick(found.entry[sure])
    expired += zip(resource_log.requests(case, found.places[sure]), attempts, strict=True)
    place = (
        {row: n for n, row in enumerate(resource_log.log(case).rows.tolist())} if expired else {}
    )
    for request, attempt in sorted(expired, key=lambda one: place[one[0].row]):
        end = certain_end(case, attempt)
        if end is not None and request.from_ns > end.t_ns + case.error_ns:
            yield request, attempt, end


def _finding(case: Case, request: resource_log.Request, attempt: Attempt, end: Ended) -> Finding:
    lock = case.history.strings[request.key]
    sent = (request.sent,) if request.sent >= 0 else ()
    proof = (end.row,) if end.row not in (attempt.row, -1) else ()
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
    )
