"""The result of a model for a history: verdict, witnesses, and how far a search got."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Finding, Verdict, worst
from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import ForeignOp, brief, distinct

NOTHING = "no operation returned ok, so there is nothing to check"
EXPLAINED = "one order of the operations explains every response"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Limits a search.

    configurations   number that it may visit; a million takes about seven seconds of CPU
    tell             called now and then with the number visited, and with how many responses of the
                     present lock or register are explained, of how many
    """

    configurations: int = 1_000_000
    tell: Callable[[int, int, int], None] | None = None


BUDGET = Budget()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelJudgement:
    """The verdict on one history. exercised: counts of its coverage; notes are no violations."""

    verdict: Verdict
    reason: str
    exercised: dict[str, int]
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()


class Model(Protocol):
    """Judges the operations of a history, in order of invocation; `budget` bounds a search."""

    def __call__(self, ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement: ...


def by_key(ops: Iterable[ForeignOp]) -> dict[Hashable, list[ForeignOp]]:
    """The operations of each lock or register, in order."""
    groups: dict[Hashable, list[ForeignOp]] = {}
    for op in ops:
        groups.setdefault(distinct(op.key), []).append(op)
    return groups


def counted(ops: Sequence[ForeignOp]) -> dict[str, int]:
    """Number of operations per outcome."""
    if isinstance(ops, OpColumns):
        return {
            "ops": len(ops),
            "ok": int(ops.has(Status.OK).sum()),
            "unknown": int(ops.has(Status.INFO).sum()),
            "keys": len(np.unique(ops.key.codes)),
        }
    return {
        "ops": len(ops),
        "ok": sum(op.status is Status.OK for op in ops),
        "unknown": sum(op.status is Status.INFO for op in ops),
        "keys": len({distinct(op.key) for op in ops}),
    }


def joined(
    parts: Sequence[ModelJudgement], ops: Sequence[ForeignOp], holds: str, explained: int
) -> ModelJudgement:
    """The judgement of a history from those of its keys; `holds` is the reason if all hold.

    explained   number of return values that an order had to explain; if 0, the verdict is UNKNOWN
    """
    verdict = worst(part.verdict for part in parts)
    reasons = [part.reason for part in parts if part.verdict is verdict and part.reason]
    exercised = counted(ops)
    if verdict is Verdict.HOLDS and not explained:
        verdict, reasons = Verdict.UNKNOWN, [NOTHING]
    for part in parts:
        for name, count in part.exercised.items():
            exercised[name] = exercised.get(name, 0) + count
    return ModelJudgement(
        verdict=verdict,
        reason=holds if verdict is Verdict.HOLDS else "; ".join(reasons[:3]),
        exercised=exercised,
        findings=tuple(finding for part in parts for finding in part.findings),
        notes=tuple(note for part in parts for note in part.notes),
    )


def said(op: ForeignOp) -> str:
    """An operation as text, with its place in the file."""
    about = "" if op.key is None else f" of {brief(op.key)}"
    value = "" if op.value is None else f" {shown(op.value)}"
    answer = ""
    if op.status is Status.INFO:
        answer = ", no response" if op.end_place == 0 else ", outcome unknown"
    elif op.told_value and op.result != op.value:
        answer = f" -> {shown(op.result)}"
    one = op.end_place in (0, op.place)
    lines = op.where if one else f"{op.unit}s {op.place} to {op.end_place}"
    return f"{brief(op.f)}{about}{value}{answer} by process {brief(op.process)} ({lines})"


def shown(value: Hashable, most: int = 60) -> str:
    """A value as text, abbreviated in the middle if it is long."""
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    text = "nil" if value is None else str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"
