"""Counting semaphores: up to a limit of clients hold at once.

Claims: HOLDS iff the operations can be put in an order in which never more than the limit hold, and
    only a holder of a permit releases one.
Assumes: a failed operation had no effect; an operation is for one permit.
Blind to: permits that another client than their owner releases: that is a violation here.
Cost: O(n log n); a search if a process continues after an operation of unknown outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Budget, Model, ModelJudgement
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import Semaphore
from holdfast.harness.core.errors import UsageError
from holdfast.harness.foreign.operations import ForeignOp


def semaphore(limit: str) -> Model:
    """The model of a semaphore with this number of permits. UsageError if it is not a number."""
    if not (limit.isdecimal() and len(limit) < 10 and int(limit) > 0):
        raise UsageError(f"--model semaphore:{limit}: write the permits as in semaphore:3")
    permits = int(limit)

    def judge(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
        pairs = paired(ops)
        if pairs.reused:
            return linearizable(ops, Semaphore(permits), budget)
        rule = Rule(limit=permits)
        return exactly(pairs, ops, rule, f"never more than {permits} hold at once")

    return judge
