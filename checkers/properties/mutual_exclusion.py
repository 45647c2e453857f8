"""Mutual exclusion: two owners never hold one lock at once (no split brain).

Claims: a double grant (the service's own responses prove two holds at once), a broken lease (a
grant within a lease that the service had promised), a double holder (two claims at once although
only a release frees the lock), a dead grant (to an attempt of whose loss the service had notified
the client before), an over-admission (more permits of a semaphore held at once than exist), an
early grant (within the lock-delay after the holder's death)
Assumes: what the promises declare about the service's clock and about what its ok responses prove;
that tokens declared as ordered are, unless the run contradicts it: tokens alone never prove two
owners at once, because the tokens may be wrong
Blind to: a client that acts on an expired lease, which no lock can prevent. Such stale beliefs are
noted, because fencing exists for them. Leases of exact length without tokens are judged pair by
pair
Cost: n log n in the number of attempts, one pass per lock
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.checkers.holds.contradictions import told
from holdfast.checkers.holds.derive import INF
from holdfast.checkers.holds.held_at_once import overlaps
from holdfast.checkers.holds.statements import RELEASES, RENEWALS, TOKENS
from holdfast.checkers.holds.token_order import disputes
from holdfast.checkers.properties import mutual_exclusion_opportunities
from holdfast.checkers.properties.dead_grant import dead_grants
from holdfast.checkers.properties.lock_delay import delayed, early_grants
from holdfast.checkers.properties.over_admission import over_admissions
from holdfast.checkers.properties.second_hold import second_holds
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import PropertyVerdict

PROPERTY = "mutual-exclusion"
NEEDS = ("contention", "judged-holds", "sharing", "reentry", "subtrees", "faults")
MOST_NOTES = 20
"""limit on the stale beliefs shown, longest first; all are counted"""
OPPORTUNITIES = mutual_exclusion_opportunities.OPPORTUNITIES


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per grant within another's hold."""
    findings = second_holds(case)
    findings += over_admissions(case)
    findings += dead_grants(case)
    findings += early_grants(case)
    findings.sort(key=lambda finding: finding.t_ns)
    notes = [belief.told(case) for belief in stale_beliefs(case)[:MOST_NOTES]]
    met, (delays, aside) = exercise(case, needs=NEEDS), delayed(case)
    went_without = told(case, RENEWALS, RELEASES, TOKENS)
    met = replace(
        met,
        counts={**met.counts, **delays},
        either=tuple(_disputed(case)),
        aside="; ".join(part for part in (aside, went_without) if part),
    )
    return conclude(case, PROPERTY, findings, notes, met)


def _disputed(case: Case) -> list[str]:
    """Locks whose tokens, if in order, would prove two owners at once, while times do not.

    That they may be out of order rules nothing out here, even if other tokens of that lock
    certainly are. Where their order is promised under other faults only, as of a counter that a
    crash resets, they may be out of order after the first fault of another kind.
    """
    if case.promises.tokens != "ordered":
        return []
    shown = disputes(case, before_ns=_reset_ns(case))
    return [clause for key, clause in shown.items() if not overlaps(case).get(key)]


def _reset_ns(case: Case) -> int:
    """When the first fault began under which the order of tokens is not promised, though it is
    under others; INF: none did."""
    promises = case.promises
    if "token-order" not in promises.keeps:
        return INF
    return min(
        (w.earliest_ns for w in case.windows if not promises.promised("token-order", (w.do,))),
        default=INF,
    )
