"""Whether all registers of a history are certainly linearizable, by their zones, in columns.

The rule and its proof are in `zones.py`. Here it is only ever a yes: what this leaves, a violation
too, is judged and put into words there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.linearizability.exact.pairing import Bools, Ints
from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import OPEN

PLAIN = {str, int, type(None)}
"""Types of values that are equal in Python only if they are equal in the file."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A history that holds. zones: of all registers; responses: that an order had to explain."""

    zones: int
    responses: int


def explained(
    ops: OpColumns, read: str = "read", write: str = "write", initial: Hashable = None
) -> Explained | None:
    """None if it is not certain. read, write, initial: as in `zones.zoned`. O(n log n)."""
    acts = ops.has(Status.OK, Status.INFO)
    is_read, is_write = ops.f.where(read.__eq__), ops.f.where(write.__eq__)
    if not (is_read | is_write)[acts].all():
        return None
    reads = np.flatnonzero(is_read & (ops.status == Status.OK))
    writes = np.flatnonzero(is_write & acts)
    keys = np.unique(ops.key.codes)
    values = _coded(ops, reads, writes, initial)
    if values is None:
        return None
    seen, written, first = values
    # A register's value as one number: key * width + value.
    width = int(max(seen.max(initial=0), written.max(initial=0), first)) + 1
    key = np.searchsorted(keys, ops.key.codes).astype(np.int64) * width
    seen, written = seen + key.take(reads), written + key.take(writes)
    firsts = np.arange(len(keys)) * width + first
    if len(keys) * width > 8 * len(ops) + 1024:
        return None
    wanted = np.zeros(len(keys) * width, bool)
    wanted[seen] = True
    writers = np.bincount(np.concatenate((written, firsts)), minlength=len(wanted))
    if (writers[wanted] != 1).any():
        return None
    took_place = (ops.end.take(writes) != OPEN) | wanted.take(written)
    writes, written = writes[took_place], written[took_place]
    low, high = _zones(ops, (reads, seen), (writes, written), firsts, wanted)
    if low is None or _conflict(low, high, np.concatenate((firsts, written)) // width, len(ops)):
        return None
    return Explained(len(low), len(reads) + int((ops.status.take(writes) == Status.OK).sum()))


def _coded(
    ops: OpColumns, reads: Ints, writes: Ints, initial: Hashable
) -> tuple[Ints, Ints, int] | None:
    """Numbers of the values read, of those written, and of the first value; None if not plain."""
    nothing = [None]
    results: Sequence[Hashable] = ops.result or nothing * len(ops)
    values: Sequence[Hashable] = ops.value or nothing * len(ops)
    seen = [results[row] for row in reads.tolist()]
    written = [values[row] for row in writes.tolist()]
    if not set(map(type, seen)) | set(map(type, written)) <= PLAIN:
        return None
    codes: dict[Hashable, int] = {initial: 0}
    numbers = [
        np.array([codes.setdefault(value, len(codes)) for value in column], np.int64)
        for column in ([initial if value is None else value for value in seen], written)
    ]
    return numbers[0], numbers[1], 0


def _zones(
    ops: OpColumns,
    reads: tuple[Ints, Ints],
    writes: tuple[Ints, Ints],
    firsts: Ints,
    wanted: Bools,
) -> tuple[Ints | None, Ints]:
    """Earliest end and latest begin of each cluster: of the first values, then of the writes.

    reads, writes: rows and values. None if a read ended before its write began.
    """
    clusters = len(firsts) + len(writes[0])
    cluster = np.full(len(wanted), -1, np.int64)
    cluster[firsts] = np.arange(len(firsts))
    read = np.flatnonzero(wanted.take(writes[1]))
    cluster[writes[1][read]] = read + len(firsts)
    low, high = np.full(clusters, -1, np.int64), np.full(clusters, -1, np.int64)
    low[len(firsts) :], high[len(firsts) :] = ops.end.take(writes[0]), ops.begin.take(writes[0])
    mine = cluster.take(reads[1])
    ends = ops.end.take(reads[0])
    if (ends < high.take(mine)).any():
        return None, high
    np.minimum.at(low, mine, ends)
    np.maximum.at(high, mine, ops.begin.take(reads[0]))
    return low, high


def _conflict(low: Ints, high: Ints, key: Ints, ops: int) -> bool:
    """Whether two clusters of a register must come before each other."""
    # A stretch of one axis per register; the numbers of events are below twice the operations.
    stretch = 2 * ops + 3
    low = np.minimum(low, stretch - 2) + 1 + key * stretch
    high = high + 1 + key * stretch
    forward = low < high
    if not forward.any():
        return False  # Two zones that are not are never in conflict.
    order = np.argsort(low[forward], kind="stable")
    lows, highs = low[forward].take(order), high[forward].take(order)
    furthest = np.maximum.accumulate(highs)
    if (lows[1:] < furthest[:-1]).any():
        return True
    # A forward zone that encloses another one began before its `high` and ends after its `low`.
    at = np.searchsorted(lows, high[~forward], "left") - 1
    return bool(((at >= 0) & (low[~forward] < furthest.take(np.maximum(at, 0)))).any())
