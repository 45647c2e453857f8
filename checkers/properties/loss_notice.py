"""Loss notice: a holder that loses its lock is notified in time, with the true reason, and stops.

Claims: a client acted as owner for longer than the promised time, in a part of the run without
    faults, after its lock had certainly passed to another and after all that bound the service had
    expired; or the notification of a service that promises true reasons gave a reason that cannot
    be the cause; or the client continued to write after it had been notified; or a renewal or check
    of a hold that had certainly passed to another was answered as if it had gone on
Assumes: that a client is reachable while no fault affects its node or a server and neither it nor
    its host is starved of CPU; that a fault on a server, or a cut connection, is over one recovery
    time after it was healed
Blind to: a loss without another client's grant; a false notice; a reason in other words than ours,
    or one of several that are possible; writes after the notice in workloads whose owners never
    check (`IGNORES_NOTICES`): those are noted
Cost: n log n in the number of attempts

If a system promises no notice at all, a full lease without one counts. A rejected renewal is a
notice, and so is the end of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from holdfast.checkers.coverage.needs_of_holds import NOBODY_NOTIFIED
from holdfast.checkers.coverage.requirements import Exercise, conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.lost_holds import Loss, calm_from, last_seen, losses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, span
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.overlaps import reach
from holdfast.checkers.properties import loss_notice_opportunities
from holdfast.checkers.properties.loss_reason import told as told_reasons
from holdfast.checkers.properties.loss_reason import wrong_reasons
from holdfast.checkers.properties.silent_reacquire import finding as silent_finding
from holdfast.checkers.properties.silent_reacquire import notified_ns, reacquired
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "loss-notice"
NEEDS = ("losses", "faults")
MOST_NOTES = 5
IGNORES_NOTICES = frozenset(
    {
        "abandoned",
        "critical-section",
        "crowd",
        "duplicate-request",
        "hierarchy",
        "lost-update",
        "manual-recovery",
        "many-locks",
        "paced",
        "priority-flood",
        "queries",
        "read-write",
        "reentrant",
        "retry-storm",
        "semaphore",
        "sequencers",
        "shared-client-id",
        "singleton-job",
        "slow-dependency",
        "try-lock",
    }
)
"""Workloads whose owners write without checking for a notice: they exist to show that hazard, which
no lock can prevent. Their writes after a notice are noted, not judged."""
OPPORTUNITIES = loss_notice_opportunities.OPPORTUNITIES


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per holder not notified; UNKNOWN without a time limit."""
    met = exercise(case, needs=NEEDS)
    limit_ns = case.promises.notice_within_ns(case.lease_ns)
    if limit_ns <= 0:
        reason = "neither a time for the notice nor a lease is known, so there is no limit"
        met = replace(met, missing=(reason, *met.missing))
        return conclude(case, PROPERTY, (), (), met)
    lost = losses(case)
    findings, notes = list(wrong_reasons(case)), list[Finding]()
    again = _taken_again(case, limit_ns)
    findings += again.values()
    for loss in lost:
        calm_ns = calm_from(case, loss, limit_ns)
        # That the service confirmed the hold says more than that no notice came.
        if calm_ns >= 0 and loss.attempt.id not in again:
            findings.append(_finding(case, loss, calm_ns, limit_ns))
    late = writes_after_notice(case)
    shown = [_wrote_on(case, notice, writes) for notice, writes in late if len(writes) > 1]
    ignores = case.options.get("workload") in IGNORES_NOTICES
    (notes if ignores else findings).extend(shown)
    findings.sort(key=lambda finding: finding.t_ns)
    met = _counted(case, met, lost, sum(len(writes) for _, writes in late))
    if ignores and late:
        aside = "writes after a notice were not judged: owners of this workload ignore notices"
        met = replace(met, aside=aside)
    return conclude(case, PROPERTY, findings, notes[:MOST_NOTES], met)


def _taken_again(case: Case, limit_ns: int) -> dict[int, Finding]:
    """A finding per attempt that had lost its lock when the service confirmed its hold, unless its
    owner was notified after all or could not be: a notice may follow the answer."""
    findings: dict[int, Finding] = {}
    seen: dict[int, int] | None = None
    for one in reacquired(case):
        seen = seen or last_seen(case)
        back_ns = int(column(case, "t_ret")[one.row])
        seen_ns = min(seen[one.attempt.process], notified_ns(case, one.attempt))
        if case.promises.lapses:
            # Its library renews no longer once it has released the lock, and cannot notify it.
            seen_ns = min(seen_ns, one.attempt.end_ns)
        loss = Loss(attempt=one.attempt, other=one.other, lost_ns=back_ns, claimed_ns=seen_ns)
        calm_ns = calm_from(case, loss, limit_ns)
        if calm_ns >= 0:
            findings[one.attempt.id] = silent_finding(case, one, seen_ns, calm_ns, limit_ns)
    return findings


def _finding(case: Case, loss: Loss, calm_ns: int, limit_ns: int) -> Finding:
    attempt, other = loss.attempt, loss.other
    owner, lock = name(case, attempt.process), lock_name(case, attempt)
    waited = f"for {span(loss.claimed_ns - calm_ns)} after {seconds(case, calm_ns)}"
    if calm_ns > loss.lost_ns:
        waited += ", when the last fault that kept it out of reach was over"
    rows = [attempt.row, other.row, known_row(case, other), *_reach_rows(attempt)]
    rows.append(attempt.end_row if loss.claimed_ns == attempt.end_ns else _last_row(case, attempt))
    return Finding(
        kind="lost-without-notice",
        sentence=(
            f"{owner} lost '{lock}' to {name(case, other.process)} by"
            f" {seconds(case, loss.lost_ns)} and could be reached, but was not notified {waited};"
            f" the limit is {span(limit_ns)}"
        ),
        witnesses=tuple(dict.fromkeys(row for row in rows if row >= 0)),
        lock=lock,
        t_ns=calm_ns + limit_ns,
        spans=(drawn(case, attempt, loss.claimed_ns), drawn(case, other, reach(case)(other))),
        proof=Proof(
            rule=f"lost-without-notice/{witnesses.how(case, attempt, other)}",
            roles=witnesses.known(case, a=attempt, other=other),
            values={
                "lost": loss.lost_ns,
                "claimed": loss.claimed_ns,
                "limit": limit_ns,
                "calm": calm_ns,
            },
        ),
    )


def _reach_rows(a: Attempt) -> tuple[int, ...]:
    """The rows that prove the end of a hold: of its lease or of its last proof."""
    return (a.proof_row,) if a.proof_ns >= a.bound_ns else (a.lease_row,)


def _last_row(case: Case, a: Attempt) -> int:
    """The last row of an attempt's client."""
    kind, process = column(case, "f"), column(case, "process")
    mine = (kind != Op.SERVED_READ) & (kind != Op.SERVED_WRITE) & (process == a.process)
    edges = np.where(mine, np.maximum(column(case, "t_inv"), column(case, "t_ret")), -1)
    return int(edges.argmax())


def _counted(case: Case, met: Exercise, lost: Sequence[Loss], late: int) -> Exercise:
    """Adds counts of holds lost to another, delays of notices, and writes after them.

    If holds were lost, but every owner gave up without a notice or was unreachable until it did, no
    notice was due: the property was not exercised.
    """
    notified = [loss for loss in lost if loss.attempt.end_why in ("lost", "closed")]
    slowest_ns = max((loss.attempt.end_ns - loss.lost_ns for loss in notified), default=0)
    counts = {
        **met.counts,
        "holds lost to another": len(lost),
        "of them notified": len(notified),
        "slowest notice ms": slowest_ns // 1_000_000,
        "reasons judged": len(told_reasons(case)),
        "writes after the notice": late,
    }
    missing = met.missing
    if lost and not notified and not met.counts["holders notified"]:
        none = f"no holder was notified of a loss: 0 of {len(lost)} holds lost to another"
        missing = (*(reason for reason in missing if reason != NOBODY_NOTIFIED), none)
    return replace(met, counts=counts, missing=missing)


Written = tuple[int, list[int]]
"""The row of a notice, and those of the writes that its owner called after it, in order."""


def writes_after_notice(case: Case) -> list[Written]:
    """Per notified attempt the writes that its client decided on later; O(n log n).

    An attempt that was renewed after the notice is left out: the notice was false.
    """
    inv, attempt = column(case, "t_inv"), column(case, "attempt")
    notice_of: dict[int, int] = {}
    for row in rows_of(case, Op.LOST).tolist():
        notice_of.setdefault(int(attempt[row]), row)
    if not notice_of:
        return []
    for row in rows_of(case, Op.RENEW).tolist():
        notice = notice_of.get(int(attempt[row]), -1)
        if notice >= 0 and column(case, "status")[row] == Status.OK and inv[row] > inv[notice]:
            del notice_of[int(attempt[row])]
    late: dict[int, list[int]] = {}
    writes = rows_of(case, Op.WRITE)
    # Time of the decision to write, not of the sending: a notice may have come in between.
    called = inv[writes] - column(case, "tx")[writes]
    for row, called_ns in zip(writes.tolist(), called.tolist(), strict=True):
        notice = notice_of.get(int(attempt[row]), -1)
        if notice >= 0 and called_ns > inv[notice]:
            late.setdefault(notice, []).append(row)
    return sorted(late.items())


def _wrote_on(case: Case, notice: int, writes: Sequence[int]) -> Finding:
    """A finding only from the second write on: an owner may check, be notified, and then send the
    first.

    Both are calls of one process, by one clock, so that no clock error applies.
    """
    one, inv = case.history.rows[notice], column(case, "t_inv")
    first, second = writes[:2]
    owner, lock = name(case, int(one["process"])), case.history.strings[int(one["key"])]
    entry = int(table(case).of_id([int(one["attempt"])])[0])
    asked = (int(table(case).row[entry]),) if entry >= 0 else ()
    return Finding(
        kind="write-after-notice",
        sentence=(
            f"{owner} was notified at {seconds(case, int(inv[notice]))} that it had lost '{lock}',"
            f" and went on writing: at {seconds(case, int(inv[first]))} and again at"
            f" {seconds(case, int(inv[second]))}"
        ),
        witnesses=(*asked, notice, first, second),
        lock=lock,
        t_ns=int(inv[second]),
        proof=Proof(
            rule="write-after-notice",
            roles={"notice": notice, "first": first, "second": second},
        ),
    )
