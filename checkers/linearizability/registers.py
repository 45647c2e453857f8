"""Registers: one value with read, write and compare-and-set.

Claims: HOLDS iff some order of the operations explains every value read and every comparison.
Assumes: `write` writes its value, `cas` sets its second value if the register has the first, `read`
    returns the value; the register is empty (nil) at first. A read that returned without a value
    returned nil.
Blind to: a comparison that fails although it should not; only a response that *reports* "it
    differed" (porcupine's logs) is judged, any other failed cas is an operation without effect.
Cost: O(n log n) for a register whose read values have one write each, without cas; see `zones.py`.
    Else that of the search; see `search.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.checkers.linearizability.judgement import (
    BUDGET,
    Budget,
    ModelJudgement,
    counted,
    said,
)
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.zones import certainly, zoned
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp, brief, distinct


@dataclass(frozen=True, slots=True)
class RegisterModel:
    """The sequential register. fs: operations that it accepts. State: the value in a tuple."""

    fs: tuple[str, ...]

    @property
    def initial(self) -> Hashable:
        return (None,)

    def command(self, op: ForeignOp) -> Hashable | None:
        """("read", v), ("write", v), ("cas", old, new) or ("differs", old)."""
        if op.f not in self.fs:
            raise UsageError(
                f"{op.where}: '{brief(op.f)}' is not an operation of this model"
                f" ({', '.join(self.fs)}); choose another --model"
            )
        if op.f == "read":
            return ("read", distinct(op.result)) if op.status is Status.OK else None
        if op.f == "write":
            return ("write", distinct(op.value))
        if not isinstance(op.value, tuple) or len(op.value) != 2:
            raise UsageError(f"{op.where}: a cas takes [old new], not {op.value!r}")
        if op.status is Status.OK and op.result is False:
            return ("differs", distinct(op.value[0]))
        return ("cas", *map(distinct, op.value))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, tuple) and isinstance(command, tuple)
        what, value = command[0], command[1]
        if what == "write":
            return (value,)
        if what == "differs":
            return state if state[0] != value else None
        if state[0] != value:
            return None
        return state if what == "read" else (command[2],)

    def reads(self, command: Hashable) -> bool:
        assert isinstance(command, tuple)
        return command[0] in ("read", "differs")


def register(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge reads and writes."""
    return _judged(ops, RegisterModel(("read", "write")), budget)


def cas_register(ops: Sequence[ForeignOp], budget: Budget = BUDGET) -> ModelJudgement:
    """Judge reads, writes and compare-and-set."""
    return _judged(ops, RegisterModel(("read", "write", "cas")), budget)


def _judged(ops: Sequence[ForeignOp], spec: RegisterModel, budget: Budget) -> ModelJudgement:
    whole = certainly(ops)
    if whole is not None:
        return whole
    early = tuple(_from_nowhere(ops, spec))
    if not early:
        return linearizable(ops, spec, budget, zoned)
    return ModelJudgement(
        verdict=Verdict.VIOLATED,
        reason=early[0].sentence,
        exercised=counted(ops),
        findings=early,
    )


def _from_nowhere(ops: Sequence[ForeignOp], spec: RegisterModel) -> Iterator[Finding]:
    """Reads of a value of which no write had begun when they ended: no search is needed."""
    first: dict[Hashable, int] = {}
    reads = []
    for op in ops:
        if op.status not in (Status.OK, Status.INFO):
            continue
        command = spec.command(op)
        if isinstance(command, tuple) and command[0] == "read" and command[1] is not None:
            reads.append((op, (distinct(op.key), command[1])))
        elif isinstance(command, tuple) and command[0] in ("write", "cas"):
            first.setdefault((distinct(op.key), command[-1]), op.begin)
    for op, value in reads:
        if first.get(value, OPEN) > op.end:
            yield Finding(
                kind="not-linearizable",
                sentence=f"{said(op)} returned before any write of that value began",
                witnesses=(op.place,),
                lock="" if op.key is None else str(op.key),
                t_ns=op.end,
            )
