"""Reentrant mutexes: the holder may acquire again, and frees it by as many releases.

Claims: HOLDS iff the operations can be put in an order in which nobody acquires while another
    holds, and only the holder releases.
Assumes: a failed operation had no effect; an owner is a process.
Blind to: fencing tokens of inner grants.
Cost: O(n): only outermost holds matter, and those are a mutex's. A search where one process goes
    on after an outcome that it never learned, for then its depth is not known.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Judgement
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import Reentrant
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp, distinct


def reentrant(ops: Sequence[ForeignOp], budget: int = BUDGET) -> Judgement:
    """Judge a mutex that lets its holder in again."""
    owned = [replace(op, attempt=None) for op in ops]
    if paired(owned).reused:
        return linearizable(owned, Reentrant(), budget)
    outer = paired(_outermost(owned))
    return exactly(outer, ops, Rule(), "every outermost hold ends before the next one begins")


def _outermost(ops: Sequence[ForeignOp]) -> list[ForeignOp]:
    """Without the operations inside a hold. An unknown one is the last of its process: if it is
    a release from depth 1 it may end the hold, else it changes nothing that others can see.
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
