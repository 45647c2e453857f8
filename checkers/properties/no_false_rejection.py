"""No false rejection: neither a holder's request nor a try of a free lock is rejected.

Claims
    VIOLATED: the resource rejected a request that carried its owner's own token while that owner's
    hold was proved or promised; or a try returned "held" although no client could hold the lock at
    any time between its call and its return, and no client was queued for it.
Assumes
    The response to a try is true at some instant between its call and its return. A hold that was
    not released may be ended late, by the time allowed to notice a free lock, and its lock stays
    closed for the promised delay.
Blind to
    Rejections of locks that several hold at once; tries during faults and until the service has
    recovered from them; rejections without a clear reason, or of a client whose session may have
    ended meanwhile; a strict resource's rejection of an equal token. After an acquire of unknown
    outcome no rejection is judged.
Cost
    O(n log n) in the attempts of each lock and the requests to the resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import resource_log
from holdfast.checkers.facts.wording import drawn, lock_name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, column
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import free_tries
from holdfast.checkers.opportunities.places.served_again import requests_of_holders, within_holds
from holdfast.checkers.opportunities.row import CONTENDED, OpportunityRow, of_any_fault
from holdfast.checkers.properties.spurious_refusal import (
    amid,
    refused_tries,
    spurious_refusals,
    troubled,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "no-false-rejection"
NEEDS = ("contention", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-false-rejection/refuses-free/any",
        property="no-false-rejection",
        defect="refuses a try of a lock that is free",
        sentence="a try was answered after the hold before had ended",
        twin="reference:former-state",
        look=partial(
            near_faults,
            where=Where(free_tries, "no try was answered after a hold had ended", seldom=True),
        ),
        change=CONTENDED,
    ),
    of_any_fault(
        id="no-false-rejection/refuses-holder/any",
        property="no-false-rejection",
        defect="refuses requests of the holder",
        sentence="a holder's request reached the resource",
        twin="reference:jealous-tokens",
        look=partial(
            near_faults,
            where=Where(
                requests_of_holders,
                "no holder's request reached the resource",
                seldom=True,
            ),
        ),
        change=CONTENDED,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-false-rejection, with a finding per unjustified rejection."""
    met = exercise(case, needs=NEEDS)
    holders = within_holds(case)
    tries = refused_tries(case)
    findings = [*_requests(case, holders), *spurious_refusals(case, tries)]
    findings.sort(key=lambda finding: finding.t_ns)
    calm = int((~amid(case, tries, troubled(case))).sum())
    counts = {**met.counts, "requests of holders": int(holders.sum()), "refused tries": len(tries)}
    counts["of them apart from faults"] = calm
    missing = [*met.missing]
    if not holders.any() and not calm:
        missing.append(
            "no certain holder sent the resource a request, and no try was refused apart from"
            " faults and what follows them"
        )
    met = replace(met, counts=counts, missing=tuple(missing))
    return conclude(case, PROPERTY, findings, (), met)


def _requests(case: Case, holders: Bools) -> Iterator[Finding]:
    rows = resource_log.log(case).rows
    write = column(case, "f")[rows] == Op.SERVED_WRITE
    highest = np.where(write, column(case, "aux")[rows], column(case, "arg")[rows])
    refused = holders & (column(case, "status")[rows] == Status.FAIL)
    if case.options.get("resource") == "strict":
        refused &= column(case, "token")[rows] != highest
    which = np.flatnonzero(refused)
    owners = table(case).pick(table(case).of_rows(rows[which]))
    for place, owner in zip(which.tolist(), owners, strict=True):
        row = int(rows[place])
        at = int(column(case, "t_inv")[row])
        sent = int(resource_log.log(case).sent[place])
        yield Finding(
            kind="false-rejection",
            sentence=(
                f"the resource refused a request of {who(case, owner)} at {seconds(case, at)},"
                f" which held '{lock_name(case, owner)}'; the highest token that it had admitted"
                f" was {int(highest[place])}"
            ),
            witnesses=tuple(r for r in (owner.row, sent, row) if r >= 0),
            lock=case.history.strings[int(column(case, "key")[row])],
            t_ns=at,
            spans=(drawn(case, owner, owner.end_ns),),
            proof=Proof(
                rule="false-rejection",
                roles={"owner": owner.row, "request": row},
                values={"owner_until": max(owner.proof_ns, owner.bound_ns)},
            ),
        )
