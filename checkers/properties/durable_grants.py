"""Durable grants: what a service acknowledged survives power losses and operations on its servers.

Claims: a lost grant (a lock was granted to another client after a power loss or an operation,
within a hold that was acknowledged before it), a token issued again (a grant after it carries a
token no larger than one acknowledged before it), a revived hold (a hold that was released before it
is renewed or released after it), a grant before its sync (an acquire began and returned ok while no
disk of a majority took a write)
Assumes: the times of a power loss, of an operation and of a hang, as they were measured; what
mutual exclusion assumes about leases
Blind to: a loss that no later call meets, such as a released hold that merely blocks others until
its lease ends, or that only a call across it meets (UNKNOWN); power losses of fewer than a
majority of the servers
Cost: n log n in the number of attempts, for each power loss or operation
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.power_losses import Span, hangs, losses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.overlaps import Reach, granted, proof_reach, reach, reaches, slack
from holdfast.checkers.opportunities.outlived import OUTLIVED, outlived
from holdfast.checkers.opportunities.renumbered import RENUMBERED, renumbered
from holdfast.checkers.opportunities.row import ALL, FaultClass, OpportunityRow
from holdfast.checkers.opportunities.strokes import (
    DECIDERS,
    OPERATING,
    SHORT,
    of_deciders,
    of_operations,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "durable-grants"
NEEDS = ("power-losses", "faults")
UNKNOWN = (Status.INFO, Status.INVOKED)
OPPORTUNITIES: Sequence[OpportunityRow] = (
    *(
        OpportunityRow(
            id=f"durable-grants/{defect}/{of}",
            property="durable-grants",
            faults=of,
            defect=f"loses {lost} with an earlier state",
            sentence=sentence,
            twin="reference:late-disk" if of is FaultClass.CRASH else "reference",
            look=partial(look, strokes=strokes, what=what),
            change=change,
            bounds=ALL,
            tokens=look is renumbered,
            unsynced=of is FaultClass.CRASH,
        )
        for of, strokes, what, change in (
            (FaultClass.CRASH, of_deciders, DECIDERS, replace(SHORT, target="majority|one")),
            (FaultClass.OPERATION, of_operations, "the servers", OPERATING),
        )
        for defect, lost, sentence, look in (
            ("undone-grant", "a grant", OUTLIVED, outlived),
            ("undone-token", "a token", RENUMBERED, renumbered),
        )
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per acknowledged change that was undone."""
    findings = [
        *chain.from_iterable(_lost(case, loss) for loss in losses(case)),
        *chain.from_iterable(_again(case, loss) for loss in losses(case)),
        *chain.from_iterable(_revived(case, loss) for loss in losses(case)),
        *chain.from_iterable(_unsynced(case, hang) for hang in hangs(case)),
    ]
    # Rows across several of them show one change that was undone: by the first.
    once = {(finding.kind, finding.witnesses): finding for finding in reversed(findings)}
    findings = sorted(once.values(), key=lambda finding: (finding.t_ns, finding.kind))
    met = exercise(case, needs=NEEDS)
    open_ones = sum(1 for loss in losses(case) for _ in _met(case, loss, during=True))
    if open_ones:
        why = (
            "grants that were requested before a power loss or an operation and acknowledged after"
            " it overlap a hold across it, and whether it undid that hold is not known:"
            f" {open_ones}"
        )
        met = replace(met, doubts=(*met.doubts, why))
    return conclude(case, PROPERTY, findings, (), met)


def _lost(case: Case, loss: Span) -> Iterator[Finding]:
    """Grants that were requested after the loss, within holds acknowledged before it."""
    for holds, newer, length in _met(case, loss):
        yield _lost_grant(case, loss, max(holds, key=length), newer, length)


def _met(
    case: Case, loss: Span, *, during: bool = False
) -> Iterator[tuple[Sequence[Attempt], Attempt, Reach]]:
    """Holds acknowledged before the loss, a grant within them that was requested after it, and how
    far the holds reach: by responses, or else by what is promised.

    during   grants that were requested before the end of the loss and acknowledged after its begin:
             they may have been made before it
    """
    attempts, far, slack_ns = table(case), reaches(case), slack(case)
    for entries in granted(case).values():
        acknowledged = attempts.known[entries] + slack_ns < loss.from_ns
        before = entries[acknowledged]
        before = before[far[before] > loss.to_ns + slack_ns]
        late = attempts.inv[entries] > loss.to_ns + slack_ns
        after = entries[~late & ~acknowledged if during else late]
        if not len(before):
            continue
        holds = attempts.pick(before)
        for newer in attempts.pick(after):
            for length in (proof_reach, reach(case)):
                met = [
                    older
                    for older in holds
                    if length(older) > newer.known_ns + slack_ns and conflict(older, newer)
                ]
                if met:
                    yield met, newer, length
                    break


def _lost_grant(case: Case, loss: Span, older: Attempt, newer: Attempt, far: Reach) -> Finding:
    states = {"cut_from": loss.from_ns, "cut_to": loss.to_ns}
    if far is proof_reach:
        roles = witnesses.sides(case, older=older, newer=newer)
        proof = Proof(rule="lost-grant/proved", roles=roles, values=states)
    else:
        ends = {"older_reach": far(older), "newer_reach": far(newer)}
        roles = witnesses.known(case, older=older, newer=newer)
        proof = Proof(rule="lost-grant/promised", roles=roles, values={**ends, **states})
    return Finding(
        kind="lost-grant",
        sentence=(
            f"{name(case, older.process)} had been granted '{lock_name(case, older)}' by"
            f" {seconds(case, older.known_ns)} and its hold could not end before"
            f" {seconds(case, far(older))}; after the {loss.what} at {seconds(case, loss.from_ns)}"
            f" {who(case, newer)} requested it and was granted it by"
            f" {seconds(case, newer.known_ns)}"
        ),
        witnesses=_rows(known_row(case, older), older.row, newer.row, known_row(case, newer)),
        lock=lock_name(case, older),
        t_ns=newer.known_ns,
        spans=(drawn(case, older, far(older)), drawn(case, newer, far(newer))),
        proof=proof,
    )


def _again(case: Case, loss: Span) -> Iterator[Finding]:
    """Grants requested after the loss whose token is no larger than one acknowledged before it."""
    if case.promises.tokens != "ordered":
        return
    attempts, slack_ns = table(case), slack(case)
    for entries in granted(case).values():
        mine = entries[attempts.token[entries] != NO_TOKEN]
        before = mine[attempts.known[mine] + slack_ns < loss.from_ns]
        after = mine[attempts.inv[mine] > loss.to_ns + slack_ns]
        if not len(before) or not len(after):
            continue
        # The largest first: if a grant is compared with one that it does not conflict with, such
        # as another by its own client, the next smaller one decides.
        older = attempts.pick(before[attempts.token[before].argsort(kind="stable")[::-1]])
        behind = int(attempts.token[before].max() - attempts.token[after].min()) + 1
        for second in attempts.pick(after):
            for first in older:
                if first.token < second.token:
                    break
                if conflict(first, second):
                    yield _token_again(case, loss, first, second, behind)
                    break


def _token_again(case: Case, loss: Span, first: Attempt, second: Attempt, behind: int) -> Finding:
    """behind: by how much the smallest token after the loss is too small for this lock."""
    lock = lock_name(case, second)
    proof = Proof(
        rule="token-after-operation" if loss.operation else "token-after-power-loss",
        roles=witnesses.known(case, first=first, second=second),
        values={"cut_from": loss.from_ns, "cut_to": loss.to_ns},
    )
    finding = Finding(
        kind="token-after-power-loss",
        sentence=(
            f"'{lock}' was granted with token {first.token} to {name(case, first.process)} by"
            f" {seconds(case, first.known_ns)}; after the {loss.what} at"
            f" {seconds(case, loss.from_ns)} {name(case, second.process)} requested it and was"
            f" granted it with token {second.token}"
        ),
        witnesses=_rows(first.row, known_row(case, first), second.row, known_row(case, second)),
        lock=lock,
        t_ns=second.known_ns,
        spans=(drawn(case, first, first.known_ns), drawn(case, second, second.known_ns)),
        proof=proof,
    )
    if not loss.operation:
        return finding
    return replace(
        finding,
        kind="token-after-operation",
        sentence=f"{finding.sentence}; the counter had to be at least {behind} higher when the"
        " service opened again",
    )


def _revived(case: Case, loss: Span) -> Iterator[Finding]:
    """Holds released before the loss of which a renewal or release returned ok after it."""
    rows, slack_ns, attempts, promises = case.history.rows, slack(case), table(case), case.promises
    proves = {
        Op.RENEW: promises.renew_proves,
        Op.RELEASE: promises.release_once or promises.release_proves,
    }
    for attempt in attempts.pick(attempts.ok.nonzero()[0]):
        unknown = any(rows["status"][row] in UNKNOWN for row in attempt.renewals)
        if unknown and not promises.renew_proves:
            continue  # It may have taken the lock again.
        back = [
            row
            for row in attempt.releases
            if rows["status"][row] == Status.OK
            if rows["t_ret"][row] + slack_ns < loss.from_ns
        ]
        for row in sorted((*attempt.renewals, *attempt.releases)) if back else ():
            late = rows["t_inv"][row] > loss.to_ns + slack_ns
            if late and proves[Op(int(rows["f"][row]))] and rows["status"][row] == Status.OK:
                yield _revived_hold(case, loss, attempt, back[0], row)


def _revived_hold(case: Case, loss: Span, attempt: Attempt, back: int, row: int) -> Finding:
    rows = case.history.rows
    what = "release" if rows["f"][row] == Op.RELEASE else "renewal"
    sent_ns = int(rows["t_inv"][row])
    return Finding(
        kind="revived-hold",
        sentence=(
            f"{name(case, attempt.process)}'s release of '{lock_name(case, attempt)}' had returned"
            f" ok at {seconds(case, int(rows['t_ret'][back]))}; after the {loss.what} at"
            f" {seconds(case, loss.from_ns)} a {what} of the same hold, sent at"
            f" {seconds(case, sent_ns)}, returned ok"
        ),
        witnesses=_rows(attempt.row, back, row),
        lock=lock_name(case, attempt),
        t_ns=sent_ns,
        spans=(drawn(case, attempt, int(rows["t_ret"][back])),),
        proof=Proof(
            rule="revived-hold",
            roles={"attempt": attempt.row, "release": back, "row": row},
            values={"cut_from": loss.from_ns, "cut_to": loss.to_ns},
        ),
    )


def _unsynced(case: Case, hang: Span) -> Iterator[Finding]:
    """Acquires that began and returned ok while no disk of a majority took a write."""
    attempts, slack_ns, rows = table(case), slack(case), case.history.rows
    inside = attempts.ok & (attempts.inv > hang.from_ns + slack_ns)
    inside &= attempts.ret + slack_ns < hang.to_ns
    for attempt in attempts.pick(inside.nonzero()[0]):
        if rows["op"][attempt.row] & 1:
            continue  # A holder that enters again adds nothing that a power loss could undo.
        yield Finding(
            kind="grant-before-sync",
            sentence=(
                f"{who(case, attempt)} requested '{lock_name(case, attempt)}' at"
                f" {seconds(case, attempt.inv_ns)} and was granted it at"
                f" {seconds(case, attempt.ret_ns)}, while the disks of a majority of the servers"
                f" took no write ({seconds(case, hang.from_ns)} to {seconds(case, hang.to_ns)}):"
                " a power loss would have undone it"
            ),
            witnesses=(attempt.row,),
            lock=lock_name(case, attempt),
            t_ns=attempt.ret_ns,
            spans=(drawn(case, attempt, attempt.ret_ns),),
            proof=Proof(
                rule="grant-before-sync",
                roles={"a": attempt.row},
                values={"frozen_from": hang.from_ns, "frozen_to": hang.to_ns},
            ),
        )


def _rows(*rows: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(row for row in rows if row >= 0))
