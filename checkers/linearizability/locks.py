"""Mutexes: without owners, with owners, with fencing tokens, with leases.

Claims: HOLDS iff the operations can be put in an order that the lock allows. `mutex`: any client
    may release it. `owner-mutex`: only its holder may. `fenced`: also, every hold of a lock has a
    larger token than its predecessor. `lease-mutex`: a hold may expire, and a release that returned
    ok proves that it had not.
Assumes: a failed operation had no effect; a release that the service rejected as "not held" is one
    of those: it ends a lease's hold and never proves that it lasted until then. An owner is the
    attempt if the history names one, else the process.
Blind to: tokens of grants that never returned; what renewals prove, because they are left out;
    order between locks.
Cost: O(n) in order of invocation for the three with owners, unknown outcomes included. A search if
    a process continues after an operation of unknown outcome, or if holds have no owner and
    releases do not follow acquires; equal operations are interchangeable there, so that it stays
    almost linear.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.linearizability.exact.pairing import LockColumns, Paired, paired
from holdfast.checkers.linearizability.exact.rules import Conflict, Rule, conflicts
from holdfast.checkers.linearizability.judgement import (
    BUDGET,
    NOTHING,
    Budget,
    ModelJudgement,
    counted,
    said,
)
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import LeaseMutex, Mutex, OwnerMutex
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.foreign.op_columns import NO_ATTEMPT, Ints, OpColumns
from holdfast.harness.foreign.operations import ForeignOp, distinct

EXACT = "every hold ends before the next one begins"


def mutex(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a lock that any client may release."""
    pairs = paired(ops)
    if pairs.strange or not pairs.columns.ok.all() or _names_attempts(ops):
        return linearizable(ops, Mutex(), budget)
    return exactly(pairs, ops, Rule(), EXACT)


def owner_mutex(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a lock that only its holder may release."""
    pairs = paired(ops)
    if pairs.reused:
        return linearizable(ops, OwnerMutex(), budget)
    return exactly(pairs, ops, Rule(), EXACT)


def fenced(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a lock whose grants carry increasing tokens. UsageError if no grant has one."""
    pairs = paired(ops)
    if len(ops) and not (pairs.columns.token != NO_TOKEN).any():
        raise UsageError("no ok acquire carries a token; judge it with --model owner-mutex")
    if pairs.reused or _hurried(pairs.columns):
        return linearizable(ops, OwnerMutex(tokens=True), budget)
    return exactly(pairs, ops, Rule(tokens=True), f"{EXACT}, with a larger token")


def lease_mutex(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a lock whose holds may expire. Notes report holds that were lost before a release."""
    pairs = paired(ops)
    if pairs.reused:
        judgement = linearizable(ops, LeaseMutex(), budget)
    else:
        judgement = exactly(pairs, ops, Rule(leases=True), "no grant fell inside a proved hold")
    return _with_notes(judgement, tuple(_lost(ops)))


def exactly(pairs: Paired, ops: Sequence[ForeignOp], rule: Rule, holds: str) -> ModelJudgement:
    """Judge by certain holds; `holds` is the reason if nothing contradicts it."""
    contradictions = conflicts(pairs.columns, rule)
    findings = tuple(_finding(conflict, pairs) for conflict in contradictions)
    exercised = counted(ops)
    exercised["grants"] = int((~pairs.columns.release & pairs.columns.ok).sum())
    verdict = Verdict.VIOLATED if findings else Verdict.HOLDS
    reason = findings[0].sentence if findings else holds
    if len(findings) > 1:
        reason += f"; and {len(findings) - 1} more"
    if not findings and not pairs.columns.ok.any():
        verdict, reason = Verdict.UNKNOWN, NOTHING
    return ModelJudgement(verdict=verdict, reason=reason, exercised=exercised, findings=findings)


SAYS = {
    "double-hold": "{0} was granted while {1} had not been released",
    "no-instant": "{0} must have held at some moment, and {1} held throughout",
    "token-order": "{0} has token {t0}, not larger than {t1} of {1} before it",
    "not-holding": "{0} returned ok, although it had nothing to release",
}


def _finding(conflict: Conflict, pairs: Paired) -> Finding:
    ops = [pairs.ops[row] for row in conflict.rows]
    acquires = [op for op in ops if op.f == "acquire"] or ops
    rows = [row for row in conflict.rows if not pairs.columns.release[row]]
    tokens = [int(pairs.columns.token[row]) for row in rows]
    sentence = SAYS[conflict.kind].format(
        said(acquires[0]),
        " and ".join(said(op) for op in acquires[1:]) or "another",
        t0=tokens[0] if tokens else NO_TOKEN,
        t1=tokens[1] if len(tokens) > 1 else NO_TOKEN,
    )
    key = ops[0].key
    return Finding(
        kind=conflict.kind,
        sentence=sentence,
        witnesses=tuple(op.place for op in ops),
        lock="" if key is None else str(key),
        t_ns=ops[0].begin,
    )


def _names_attempts(ops: Sequence[ForeignOp]) -> bool:
    if isinstance(ops, OpColumns):
        return bool((ops.attempt != NO_ATTEMPT).any())
    return any(op.attempt is not None for op in ops)


def _hurried(columns: LockColumns) -> bool:
    """Whether a release was called before its acquire had returned.

    An acquire of unknown outcome counts as returned at its call.
    """
    asked = np.flatnonzero(~columns.release)
    row = np.full(columns.attempts, len(columns), np.int64)
    row[columns.attempt.take(asked)] = asked
    returned = np.full(columns.attempts, -1, np.int64)
    over = np.where(columns.ok, columns.ret, columns.inv).take(asked)
    returned[columns.attempt.take(asked)] = over
    # A release that comes before its acquire in order of invocation has nothing to wait for.
    released = np.flatnonzero(columns.release)
    attempt = columns.attempt.take(released)
    late = columns.inv.take(released) < returned.take(attempt)
    return bool((late & (row.take(attempt) < released)).any())


def _lost(ops: Sequence[ForeignOp]) -> list[Finding]:
    """Notes on holds that had ended before their release, as its response shows."""
    if isinstance(ops, OpColumns):
        return [_lost_note(ops[row]) for row in _lost_rows(ops).tolist()]
    held: set[tuple[int | str, object]] = set()
    notes = []
    for op in ops:
        who = (op.process, distinct(op.key))
        if op.f == "acquire" and op.status is Status.OK:
            held.add(who)
        elif op.f == "release" and who in held:
            held.discard(who)
            if op.status is Status.NOT_OWNER:
                notes.append(_lost_note(op))
    return notes


def _lost_rows(ops: OpColumns) -> Ints:
    """The releases that `_lost` is about: those that follow a granted acquire of their process."""
    granted = ops.f.where("acquire".__eq__) & ops.has(Status.OK)
    released = ops.f.where("release".__eq__)
    rows = np.flatnonzero(granted | released)
    who = ops.process.codes.take(rows).astype(np.int64) * len(ops.key.values)
    who += ops.key.codes.take(rows)
    rows = rows.take(np.argsort(who, kind="stable"))
    who = np.sort(who, kind="stable")
    after = np.zeros(len(rows), bool)
    after[1:] = (who[1:] == who[:-1]) & granted.take(rows[:-1]) & released.take(rows[1:])
    return np.sort(rows[after & ops.has(Status.NOT_OWNER).take(rows)])


def _lost_note(op: ForeignOp) -> Finding:
    return Finding(
        kind="lost-without-notice",
        sentence=f"{said(op)} returned only then that its hold had ended",
        witnesses=(op.place,),
        lock="" if op.key is None else str(op.key),
        t_ns=op.begin,
    )


def _with_notes(judgement: ModelJudgement, notes: tuple[Finding, ...]) -> ModelJudgement:
    return ModelJudgement(
        verdict=judgement.verdict,
        reason=judgement.reason,
        exercised={**judgement.exercised, "lost": len(notes)},
        findings=judgement.findings,
        notes=notes,
    )
