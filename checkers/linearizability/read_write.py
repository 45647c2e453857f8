"""Read-write locks: readers share, a writer is exclusive.

Claims: HOLDS iff the operations can be put in an order in which no writer holds beside another.
Assumes: a failed operation had no effect; `mode` of an acquire is shared or exclusive (none:
    exclusive); a holder releases before it acquires again: there is no upgrade.
Blind to: fairness between readers and writers.
Cost: O(n log n); a search if a process continues after an operation of unknown outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import BUDGET, Budget, Judgement
from holdfast.checkers.linearizability.locks import exactly
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.specifications import ReadWrite
from holdfast.harness.foreign.operations import ForeignOp


def read_write(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> Judgement:
    """Judge a read-write lock without upgrade."""
    pairs = paired(ops)
    if pairs.reused or pairs.strange:
        return linearizable(ops, ReadWrite(), budget)
    return exactly(pairs, ops, Rule(readers=True), "no writer held beside another")
