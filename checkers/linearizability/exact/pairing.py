"""Lock operations as columns, each release paired with its acquire."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.op_columns import NO_ATTEMPT, Chosen, OpColumns
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
    whole = _of_columns(ops) if isinstance(ops, OpColumns) else None
    return whole or _one_by_one(ops)


def _of_columns(ops: OpColumns) -> Paired | None:
    """The same for all operations at once; None if they are to be paired one by one.

    That is so if something is wrong or strange, and if some operations name attempts and others do
    not: a mutex that is used as such has neither.
    """
    acquire, release = ops.f.where("acquire".__eq__), ops.f.where("release".__eq__)
    if not (acquire | release | ops.f.where("renew".__eq__)).all():
        return None
    rows = np.flatnonzero((acquire | release) & ops.has(Status.OK, Status.INFO))
    released, ok = release.take(rows), (ops.status == Status.OK).take(rows)
    lock, locks = _numbered(ops.key.codes.take(rows).astype(np.int64))
    attempt = ops.attempt.take(rows)
    if (attempt == NO_ATTEMPT).all():
        numbers = _unnamed(ops.process.codes.take(rows), lock, released, ok)
    elif (attempt == NO_ATTEMPT).any():
        return None
    else:
        numbers = _named(attempt, lock, released)
    if numbers is None:
        return None
    columns = LockColumns(
        release=released,
        ok=ok,
        inv=ops.begin.take(rows),
        ret=ops.end.take(rows),
        attempt=numbers,
        lock=lock,
        token=_tokens(ops, rows, ~released & ok),
        shared=ops.shared.take(rows),
        attempts=int(numbers.max(initial=-1)) + 1,
        locks=locks,
    )
    return Paired(columns=columns, ops=Chosen(ops, rows), reused=False, strange=())


def _numbered(values: Ints) -> tuple[Ints, int]:
    """Numbers 0, 1, ... of values in the order of their first use, and how many there are.

    7 3 7 5: the different ones are 3 5 7, first used at 1 3 0, so that 7 is 0, 3 is 1 and 5 is 2.
    """
    different, first, place = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty(len(different), np.int64)
    number[np.argsort(first)] = np.arange(len(different))
    return number.take(place), len(different)


def _unnamed(process: Rows, lock: Ints, released: Bools, ok: Bools) -> Ints | None:
    """Attempts if each process acquires and releases a lock by turns; None if not.

    A process that goes on after an operation of unknown outcome may also belong to either of two
    acquires: None.
    """
    who = process.astype(np.int64) * (int(lock.max(initial=0)) + 1) + lock
    order = np.argsort(who, kind="stable")
    same = np.zeros(len(order), bool)
    same[1:] = who.take(order[1:]) == who.take(order[:-1])
    turn = released.take(order)
    before = np.zeros(len(order), bool)
    before[1:] = ~turn[:-1] & same[1:]
    if (turn != before).any() or (same[1:] & ~ok.take(order[:-1])).any():
        return None
    # Acquires are numbered in the order of their rows; a release has the number of its predecessor.
    number = np.cumsum(~released) - 1
    asked = order.copy()
    asked[1:] = np.where(turn[1:], order[:-1], order[1:])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = number.take(asked)
    return numbers


def _named(attempt: Ints, lock: Ints, released: Bools) -> Ints | None:
    """Numbers of the attempts that the operations name; None if one acquires twice."""
    numbers, attempts = _numbered(attempt)
    pairs, many = numbers * (int(lock.max(initial=0)) + 1) + lock, attempts
    if (lock != lock[:1]).any():
        numbers, many = _numbered(pairs)
    acquired = numbers[~released]
    return None if np.bincount(acquired, minlength=many).max(initial=0) > 1 else numbers


def _tokens(ops: OpColumns, rows: npt.NDArray[np.intp], granted: Bools) -> Ints:
    """As `token_of` each."""
    tokens = np.where(granted, ops.token.take(rows), NO_TOKEN)
    if ops.result is not None:
        for at in np.flatnonzero(granted & (tokens == NO_TOKEN)).tolist():
            result = ops.result[rows[at]]
            if type(result) is int and 0 <= result < 1 << 62:
                tokens[at] = result
    return tokens


def _one_by_one(ops: Sequence[ForeignOp]) -> Paired:
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
        release=np.array([op.f == "release" for op in kept], bool),
        ok=np.array([op.status is Status.OK for op in kept], bool),
        inv=np.array([op.begin for op in kept], np.int64),
        ret=np.array([op.end for op in kept], np.int64),
        attempt=np.array(attempt, np.int64),
        lock=np.array(lock, np.int64),
        token=np.array([token_of(op) for op in kept], np.int64),
        shared=np.array([op.shared for op in kept], bool),
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
