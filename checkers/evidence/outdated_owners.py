"""Owners whose hold was over: what they still believed and wrote, and what was refused of it."""

from __future__ import annotations

from holdfast.checkers.facts import admissions
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op
from holdfast.harness.core.statistics import clopper_pearson
from holdfast.harness.verdicts.evidence import (
    ExpiredOwner,
    Refusal,
    Rejected,
    StaleBeliefs,
)

SHOWN_REFUSALS = 50


def rejected_requests(case: Case) -> Rejected:
    rows = case.history.rows
    refused = admissions.rejected(case)
    shown = []
    for row in rows[refused[:SHOWN_REFUSALS]]:
        highest = row["aux"] if row["f"] == Op.SERVED_WRITE else row["arg"]
        shown.append(
            Refusal(
                t_ns=int(row["t_inv"]),
                lock=case.history.strings[int(row["key"])],
                process=int(row["process"]),
                token=int(row["token"]),
                highest=int(highest),
            )
        )
    stale = len(admissions.stale_refused(case))
    return Rejected(total=len(refused), stale=stale, log=tuple(shown))


def expired_owners(case: Case) -> ExpiredOwner:
    late = late_writes(case)
    accepted = sum(request.accepted for request, _, _ in late)
    refused = len(late) - accepted
    sent = refused + accepted
    if not sent:
        sentence = "no write came from an owner whose hold had certainly ended"
    elif not accepted:
        sentence = f"the resource accepted none of {sent} writes by expired owners"
    else:
        sentence = f"the resource accepted {accepted} of {sent} writes by expired owners"
    low, high = clopper_pearson(accepted, sent)
    return ExpiredOwner(
        sent=sent,
        refused=refused,
        accepted=accepted,
        rate=round(accepted / sent, 6) if sent else None,
        rate_low=round(low, 6),
        rate_high=round(high, 6),
        sentence=sentence,
    )


def beliefs(case: Case) -> StaleBeliefs:
    beliefs = stale_beliefs(case)
    return StaleBeliefs(
        count=len({belief.older.id for belief in beliefs}),
        longest_ns=max((belief.ns for belief in beliefs), default=None),
    )
