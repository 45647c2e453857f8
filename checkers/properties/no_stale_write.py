"""No stale accepted write (fencing): after admitting a newer owner, the resource rejects the older.

Claims
    VIOLATED: the resource's own log shows a write accepted after a request of a newer, conflicting
    attempt had been admitted. Newer: certainly granted later by times; else by larger token.
Assumes
    The resource logs its decisions before it responds, in the order in which it makes them.
Blind to
    Attempts whose grants overlap in time and that carry no ordered tokens: they have no order.
    Two attempts of one client. Requests of attempts that the history does not have.
Cost
    O(n log n) in the requests; one pass over the resource's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.admissions import accepted, stale_writes
from holdfast.checkers.facts.wording import drawn, lock_name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.token_order import disordered
from holdfast.checkers.opportunities.places.checked_owners import stale_requests
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PlanChange, Proof, PropertyVerdict

PROPERTY = "no-stale-write"
NEEDS = ("contention", "requests", "stale-requests", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-stale-write/unchecked-token/any",
        property="no-stale-write",
        change=PlanChange(),
        outlives=True,
        defect="admits an older owner after a newer one",
        sentence="an older owner's request reached the resource after a newer one had been"
        " admitted",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(stale_requests, "no older owner's request came after a newer's"),
        ),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-stale-write."""
    findings = [_finding(case, *stale) for stale in stale_writes(case)]
    met = exercise(case, needs=NEEDS)
    met = replace(met, either=tuple(_disputed(case)))
    return conclude(case, PROPERTY, findings, (), met)


def _disputed(case: Case) -> list[str]:
    """Writes accepted with a larger token after a smaller one whose owner may be the newer: the
    tokens are out of order and they are stale, or two held the lock at once."""
    pairs = [pair for pairs in disordered(case).values() for pair in pairs]
    if not pairs or case.promises.tokens != "ordered":
        return []
    requests, places = accepted(case), dict[int, list[int]]()
    for n, row in enumerate(table(case).row[requests.entry].tolist()):
        places.setdefault(row, []).append(n)
    written = {row: [n for n in mine if requests.write[n]] for row, mine in places.items()}
    return [
        f"a write with token {larger.token} was accepted after a request with token"
        f" {smaller.token}: it is stale, or two held '{lock_name(case, larger)}' at once"
        for larger, smaller, _ in pairs
        if max(written.get(larger.row, ()), default=-1) > min(places.get(smaller.row, [INF]))
    ][:1]


def _finding(
    case: Case, request: resource_log.Request, old: Attempt, new: Attempt, admitted_row: int
) -> Finding:
    lock = case.history.strings[request.key]
    admitted_ns = int(case.history.rows["t_inv"][admitted_row])
    sent = (request.sent,) if request.sent >= 0 else ()
    in_time = new.inv_ns >= old.ret_ns + case.error_ns
    return Finding(
        kind="stale-accepted-write",
        sentence=(
            f"the resource accepted a write to '{lock}' from {who(case, old)} at"
            f" {seconds(case, request.from_ns)}, although it had admitted the newer owner"
            f" {who(case, new)} at {seconds(case, admitted_ns)}"
        ),
        witnesses=(old.row, new.row, admitted_row, *sent, request.row),
        lock=lock,
        t_ns=request.from_ns,
        spans=tuple(drawn(case, a, a.end_ns) for a in (old, new)),
        proof=Proof(
            rule=f"stale-accepted-write/{'time' if in_time else 'tokens'}",
            roles={
                "old": old.row,
                "new": new.row,
                "admitted": admitted_row,
                "request": request.row,
            },
        ),
    )
