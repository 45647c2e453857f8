"""Semaphores: so many clients may hold at once.

Claims: HOLDS iff the operations can be put in an order in which never more than the limit hold,
    and only who holds a permit gives one back.
Assumes: a failed operation had no effect; an operation is about one permit.
Blind to: permits that are given back by another than their owner: that is a violation here.
Cost: O(n log n); a search where one process goes on after an outcome that it never learned.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Judgement, Model
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import Semaphore
from holdfast.harness.core.errors import UsageError
from holdfast.harness.foreign.operations import ForeignOp


def semaphore(limit: str) -> Model:
    """The model of a semaphore with this many permits. UsageError where that is no number."""
    if not (limit.isdecimal() and len(limit) < 10 and int(limit) > 0):
        raise UsageError(f"--model semaphore:{limit}: write the permits as in semaphore:3")
    permits = int(limit)

    def judge(ops: Sequence[ForeignOp], budget: int = BUDGET) -> Judgement:
        pairs = paired(ops)
        if pairs.reused:
            return linearizable(ops, Semaphore(permits), budget)
        rule = Rule(limit=permits)
        return exactly(pairs, ops, rule, f"never more than {permits} hold at once")

    return judge
