"""Lock operations as columns, each release paired with its acquire."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.operations import ForeignOp, brief, distinct

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]

FS = ("acquire", "release")


@dataclass(frozen=True, kw_only=True)
class LockColumns:
    """Operations that had, or may have had, an effect; in order of `inv`, all columns one length.

    release   True for a release, False for an acquire
    ok        True for one that took effect, False for one of unknown outcome
    inv, ret  begin and end; `ret` is never read if `ok` is False
    attempt   0 ... attempts - 1; each has one acquire at most
    lock      0 ... locks - 1
    token     as granted, NO_TOKEN if none is known
    shared    True for operations of a reader of a read-write lock
    """

    release: Bools
    ok: Bools
    inv: Ints
    ret: Ints
    attempt: Ints
    lock: Ints
    token: Ints
    shared: Bools
    attempts: int
    locks: int

    def __len__(self) -> int:
        return len(self.inv)


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Columns with the operations of their rows, and problems that the pairing found.

    reused   an owner identity was used again after an operation of unknown outcome, so that a later
             operation may belong to either of two acquires: only a search can decide
    strange  a release without an acquire of its own process, or an acquire by a holder
    """

    columns: LockColumns
    ops: Sequence[ForeignOp]
    reused: bool
    strange: Sequence[ForeignOp]


class _Pairs:
    """Assigns an attempt to every operation: the one it names, else its process's last acquire."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.strange: list[ForeignOp] = []
        self.reused = False
        self._acquired: dict[Hashable, ForeignOp] = {}
        self._open: dict[Hashable, list[int]] = {}
        self._doubtful: set[Hashable] = set()

    def attempt(self, op: ForeignOp) -> int:
        """The attempt of the next operation, in order of invocation."""
        if op.attempt is not None:
            return self._named(op)
        who = (op.process, distinct(op.key))
        self.reused |= who in self._doubtful
        if op.status is Status.INFO:
            self._doubtful.add(who)
        held = self._open.setdefault(who, [])
        if op.f == "acquire":
            if held:
                self.strange.append(op)
            held.append(self._new())
            return held[-1]
        if not held:
            self.strange.append(op)
            return self._new()
        return held.pop()

    def _new(self) -> int:
        number = len(self.numbers)
        self.numbers["unnamed", number] = number
        return number

    def _named(self, op: ForeignOp) -> int:
        name = (distinct(op.key), "attempt", op.attempt)
        if op.f == "acquire":
            if name in self._acquired:
                raise UsageError(
                    f"{op.where}: attempt {op.attempt} acquires a second time, after"
                    f" {self._acquired[name].where}; every acquire needs an attempt of its own"
                )
            self._acquired[name] = op
        return self.numbers.setdefault(name, len(self.numbers))


def paired(ops: Sequence[ForeignOp]) -> Paired:
    """Columns of a lock history. UsageError if an operation is not a lock operation."""
    kept = []
    for op in ops:
        if op.f == "renew":
            continue
        if op.f not in FS:
            raise UsageError(
                f"{op.where}: '{brief(op.f)}' is not an operation of a lock ({', '.join(FS)});"
                " choose another --model"
            )
        if op.status in (Status.OK, Status.INFO):
            kept.append(op)
    pairs, locks = _Pairs(), dict[Hashable, int]()
    attempt = [pairs.attempt(op) for op in kept]
    lock = [locks.setdefault(distinct(op.key), len(locks)) for op in kept]
    columns = LockColumns(
        release=_column([op.f == "release" for op in kept], bool),
        ok=_column([op.status is Status.OK for op in kept], bool),
        inv=_column([op.begin for op in kept], np.int64),
        ret=_column([op.end for op in kept], np.int64),
        attempt=_column(attempt, np.int64),
        lock=_column(lock, np.int64),
        token=_column([token_of(op) for op in kept], np.int64),
        shared=_column([op.shared for op in kept], bool),
        attempts=len(pairs.numbers),
        locks=len(locks),
    )
    return Paired(columns=columns, ops=kept, reused=pairs.reused, strange=pairs.strange)


def token_of(op: ForeignOp) -> int:
    """The fencing token of a granted acquire: its token, else an integer that it returned."""
    if op.f != "acquire" or op.status is not Status.OK:
        return NO_TOKEN
    if op.token == NO_TOKEN and type(op.result) is int and 0 <= op.result < 1 << 62:
        return op.result
    return op.token


def _column(values: Sequence[Any], kind: Any) -> npt.NDArray[Any]:
    return np.array(values, kind)
