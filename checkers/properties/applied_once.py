"""Applied once: a command that is sent again under its own identity takes effect once.

Claims
    VIOLATED: the resource's own log shows one write accepted twice. A write that is asked for again
    because its answer did not come carries the identity that it had the first time.
Assumes
    The resource logs what it decides before it answers; a repeat that it knows is answered as the
    first time, without a row of its own.
Blind to
    Repeats under a new identity: nobody can know those again.
Cost
    O(n) in the accepted writes.
"""

from __future__ import annotations

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import orders, resource_log
from holdfast.checkers.facts.wording import name, seconds
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "applied-once"
NEEDS = ("requests", "repeats", "faults")


def check(case: Case) -> PropertyVerdict:
    """The verdict on applied-once, with a finding per second time."""
    first: dict[int, resource_log.Request] = {}
    findings = []
    for request in resource_log.requests(case):
        if request.write and request.accepted:
            before = first.setdefault(request.name, request)
            if before is not request:
                findings.append(_finding(case, before, request))
    verdict = conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))
    return orders.ordered(case, verdict, orders.of_writes)


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
