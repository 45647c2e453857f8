"""Reentrant mutexes: the holder may acquire again, and frees the lock by as many releases.

Claims: HOLDS iff the operations can be put in an order in which no client acquires while another
    holds, and only the holder releases.
Assumes: a failed operation had no effect; an owner is a process.
Blind to: fencing tokens of inner grants.
Cost: O(n): only outermost holds matter, and those are a mutex's. A search if a process continues
    after an operation of unknown outcome, because then its depth is unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Budget, ModelJudgement
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import Reentrant
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp, distinct


def reentrant(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge a mutex with reentry."""
    owned = [replace(op, attempt=None) for op in ops]
    if paired(owned).reused:
        return linearizable(owned, Reentrant(), budget)
    outer = paired(_outermost(owned))
    return exactly(outer, ops, Rule(), "every outermost hold ends before the next one begins")


def _outermost(ops: Sequence[ForeignOp]) -> list[ForeignOp]:
    """The operations without those inside a hold. One of unknown outcome is the last of its
    process: if it is a release at depth 1 it may end the hold, else it has no effect visible to
    others.
    """
    depth: dict[Hashable, int] = {}
    kept = []
    for op in ops:
        if op.status not in (Status.OK, Status.INFO) or op.f == "renew":
            continue
        who = (op.process, distinct(op.key))
        now = depth.get(who, 0)
        after = now + 1 if op.f == "acquire" else now - 1
        if min(now, after) <= 0:
            kept.append(op)
        depth[who] = max(after, 0)
    return kept
