"""Applied once (idempotence): a command sent again with its identity takes effect once.

Claims
    VIOLATED: the resource's own log shows one write accepted twice. A write that is sent again
    because its response did not arrive carries the identity of the first sending.
Assumes
    The resource logs a decision before it responds; a repeat that it recognizes gets the first
    response again, without a row of its own.
Blind to
    Repeats with a new identity: they cannot be recognized.
Cost
    O(n) in the accepted writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.served_again import sent_again
from holdfast.checkers.opportunities.row import CONTENDED, OpportunityRow, of_any_fault
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "applied-once"
NEEDS = ("requests", "repeats", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="applied-once/applied-again/any",
        property="applied-once",
        defect="applies a command again that its client sent again",
        sentence="a write was sent again and accepted",
        twin="reference:forgotten-commands",
        look=partial(near_faults, where=Where(sent_again, "no accepted write was sent again")),
        change=CONTENDED,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on applied-once, with a finding per repeated effect."""
    first: dict[int, resource_log.Request] = {}
    findings = []
    for request in resource_log.requests(case):
        if request.write and request.accepted:
            before = first.setdefault(request.name, request)
            if before is not request:
                findings.append(_finding(case, before, request))
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


def _finding(case: Case, before: resource_log.Request, again: resource_log.Request) -> Finding:
    lock = case.history.strings[again.key]
    owner = name(case, again.name >> 32)
    sent = (again.sent,) if again.sent >= 0 else ()
    return Finding(
        kind="applied-twice",
        sentence=(
            f"one write of {owner} to '{lock}' was applied twice: as version {before.version} at"
            f" {seconds(case, before.from_ns)} and as version {again.version} at"
            f" {seconds(case, again.from_ns)}"
        ),
        witnesses=(*sent, before.row, again.row),
        lock=lock,
        t_ns=again.from_ns,
        proof=Proof(rule="applied-twice", roles={"before": before.row, "again": again.row}),
    )
