"""What a history carries and a model does not judge, in words for the line of its verdict.

A model that ignores leases takes a hold for one that lasts until its release, and one that ignores
modes takes readers for writers: its verdict is then about another lock than the recorded one.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import ForeignOp

LOCKS = ("mutex", "owner-mutex", "fenced", "reentrant", "semaphore", "rw", "lease-mutex")
KNOWS_MODES, KNOWS_EXPIRY = "rw", "lease-mutex"


def unjudged(ops: Sequence[ForeignOp], model: str) -> list[str]:
    """A sentence for each column of the history that this built-in model does not judge."""
    family = model.partition(":")[0]
    if family not in LOCKS:
        return []
    acquires, leased, shared = _counts(ops)
    sentences = []
    if leased and family == KNOWS_EXPIRY:
        sentences.append(
            f"leases: {leased} of {acquires} acquires carry one, but in this model a hold may"
            " end at any moment, so a grant inside a lease is no violation; holdfast check RUN"
            " judges the leases of a recorded run"
        )
    elif leased:
        sentences.append(
            f"leases: {leased} of {acquires} acquires carry one, but in this model a hold"
            " lasts until its release, so a grant after a lease expired is a violation; use"
            f" --model {KNOWS_EXPIRY}"
        )
    if shared and family != KNOWS_MODES:
        sentences.append(
            f"modes: {shared} of {acquires} acquires are shared, but in this model all are"
            f" exclusive; use --model {KNOWS_MODES}"
        )
    return sentences


def _counts(ops: Sequence[ForeignOp]) -> tuple[int, int, int]:
    """Number of acquires, of those with a lease, of shared ones."""
    if isinstance(ops, OpColumns):
        asked = ops.f.where("acquire".__eq__)
        return int(asked.sum()), int((ops.lease_ns[asked] > 0).sum()), int(ops.shared[asked].sum())
    acquires = [op for op in ops if op.f == "acquire"]
    leased = sum(op.lease_ns > 0 for op in acquires)
    return len(acquires), leased, sum(op.shared for op in acquires)
