"""Events of an imported history as columns, and the operations that they pair to.

What a well-formed history needs is done here, for a whole block of events at once. Whatever looks
odd (a wrong type, an impossible event) raises Odd, and the reader takes the file event by event
instead: what is refused, and in which words, is said in one place, in `event_fields.py` and
`operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.event_fields import (
    KINDS,
    NEMESIS,
    is_shared,
    kind_of,
    means_not_owner,
    process_of,
    word_of,
)
from holdfast.harness.foreign.op_columns import (
    FIRST_TEXT,
    NO_ATTEMPT,
    Bools,
    CodedColumn,
    Ints,
    OpColumns,
    Rows,
)
from holdfast.harness.foreign.operations import OPEN

T = TypeVar("T")
V = TypeVar("V", bound=Hashable)
NO_TIME = -1
MISSING = msgspec.UNSET
"""The key of an event that names no lock; null is a name like others."""
UNKEYED = -1
"""Code of the key of an event that names none."""
INVOKE, OK, FAIL, INFO = range(4)
assert KINDS == ("invoke", "ok", "fail", "info")
STATUS_OF = np.array([Status.INFO, Status.OK, Status.FAIL, Status.INFO], np.uint8)
"""Outcome by kind of the completion."""


class Odd(Exception):
    """Something that the columns do not hold, or that no history may have."""


class Codes(dict[Hashable, int], Generic[V]):
    """Numbers of values in the order of their first use: codes[raw] is that of `made(raw)`.

    Only texts, whole numbers and None are numbered: in Python True == 1 and 1.0 == 1.
    """

    def __init__(self, made: Callable[[Hashable], V], known: Sequence[V] = ()) -> None:
        super().__init__()
        self._made = made
        self._values: list[V] = []
        for value in known:
            self[value]

    def __missing__(self, raw: Hashable) -> int:
        value = self._made(raw)
        if value != raw:
            code = self[value]
        else:
            code = len(self._values)
            self._values.append(value)
        self[raw] = code
        return code

    def column(self, raws: Sequence[Hashable]) -> Rows:
        """The codes of these values. Odd, or Malformed, if one has none."""
        if not set(map(type, raws)) <= PLAIN:
            raise Odd("a value that is no text and no whole number")
        return np.array(list(map(self.__getitem__, raws)), np.int32)

    def numbered(self) -> list[V]:
        """The values by number."""
        return self._values

    def code_of(self, value: Hashable) -> int:
        """The number of a value, -1 if it was not used."""
        return self.get(value, -1)


PLAIN = {str, int, type(None)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RawFields:
    """The fields of consecutive events as they stand in a file; a column for each, of one length.

    kind, f  texts, with or without the colon of a keyword
    key      MISSING where an event names no lock
    time     NO_TIME, token NO_TOKEN, lease_ns 0 for none
    value    None if all are None
    number   of each event among those of a document; None where a line has one event
    """

    line: Rows
    process: Sequence[int | str]
    kind: Sequence[str]
    f: Sequence[str]
    key: Sequence[Hashable]
    value: list[Hashable] | None
    time: Sequence[int]
    token: Sequence[int]
    attempt: Sequence[int | str | None]
    mode: Sequence[str | None]
    error: Sequence[object]
    lease_ns: Sequence[int]
    number: Rows | None = None


class Block(NamedTuple):
    """Consecutive events of clients; a column for each field, of one length.

    number            0 for none
    process, f, key   codes; key is UNKEYED where an event has none
    """

    line: Rows
    number: Rows
    kind: npt.NDArray[np.uint8]
    process: Rows
    f: Rows
    key: Rows
    time: Ints
    token: Ints
    attempt: Ints
    shared: Bools
    not_owner: Bools
    lease_ns: Ints


class EventColumns:
    """Collects blocks of events; `paired` makes the operations of all."""

    def __init__(self) -> None:
        self._processes = Codes(lambda raw: process_of(raw, 0))
        self._kinds = Codes(lambda raw: kind_of(raw, 0), KINDS)
        self._fs = Codes(lambda raw: word_of(raw, "f", 0))
        self._keys = Codes(lambda raw: raw)
        self._texts: dict[str, int] = {}
        self._blocks: list[Block] = []
        self._values: list[list[Hashable] | None] = []

    def clients(self, processes: Sequence[int | str]) -> Bools | None:
        """Which events of these processes are a client's; None if all are."""
        codes = self._processes.column(processes)
        nemesis = self._processes.code_of(NEMESIS)
        theirs = codes != nemesis
        return None if nemesis < 0 or theirs.all() else theirs

    def add(self, raw: RawFields) -> None:
        """Take the next events, all of clients. Odd or Malformed if a field has a wrong value."""
        none = np.zeros(len(raw.line), bool)
        try:
            numbers = [np.array(each, np.int64) for each in (raw.time, raw.token, raw.lease_ns)]
        except OverflowError as error:
            raise Odd("a number of more than 64 bits") from error
        self._blocks.append(
            Block(
                line=raw.line,
                number=none.astype(np.int32) if raw.number is None else raw.number,
                kind=self._kinds.column(raw.kind).astype(np.uint8),
                process=self._processes.column(raw.process),
                f=self._fs.column(raw.f),
                key=self._keyed(raw.key),
                time=numbers[0],
                token=numbers[1],
                attempt=self._attempts(raw.attempt),
                shared=none if all_none(raw.mode) else _flags(raw.mode, is_shared_here),
                not_owner=none if all_none(raw.error) else _flags(raw.error, means_not_owner),
                lease_ns=numbers[2],
            )
        )
        self._values.append(raw.value)

    def _keyed(self, raws: Sequence[Hashable]) -> Rows:
        if raws.count(MISSING) == len(raws):
            return np.full(len(raws), UNKEYED, np.int32)
        if not set(map(type, raws)) <= {*PLAIN, type(MISSING)}:
            raise Odd("a lock that is no text and no whole number")
        codes = [UNKEYED if raw is MISSING else self._keys[raw] for raw in raws]
        return np.array(codes, np.int32)

    def _attempts(self, raws: Sequence[int | str | None]) -> Ints:
        """As OpColumns has them."""
        kinds = set(map(type, raws))
        try:
            if kinds <= {int}:
                return np.array(raws, np.int64)
            if kinds <= {type(None)}:
                return np.full(len(raws), NO_ATTEMPT, np.int64)
            return np.array([self._attempt(raw) for raw in raws], np.int64)
        except OverflowError as error:
            raise Odd("an attempt of more than 64 bits") from error

    def _attempt(self, raw: int | str | None) -> int:
        if raw is None:
            return NO_ATTEMPT
        if isinstance(raw, int):
            return raw
        return FIRST_TEXT - self._texts.setdefault(raw, len(self._texts))

    def operations(self) -> OpColumns:
        """The operations of all events. Odd if an event is impossible, or there is none."""
        events, values = self._joined()
        if (events.key == UNKEYED).any():
            self._keys[None]  # what an operation without a lock has
        names = Named(
            self._processes.numbered(), self._fs.numbered(), self._keys.numbered(), [*self._texts]
        )
        return paired(events, values, names)

    def _joined(self) -> tuple[Block, list[Hashable] | None]:
        """All blocks as one, and all values; no two copies of all columns exist at once."""
        if not self._blocks:
            raise Odd("no event")
        lengths = [len(block.line) for block in self._blocks]
        columns = [list(parts) for parts in zip(*self._blocks, strict=True)]
        self._blocks.clear()
        joined = []
        for parts in columns:
            joined.append(np.concatenate(parts))
            parts.clear()
        if all(part is None for part in self._values):
            return Block._make(joined), None
        values = list[Hashable]()
        for length, part in zip(lengths, self._values, strict=True):
            values += [None] * length if part is None else part
        return Block._make(joined), values


def all_none(column: Sequence[object]) -> bool:
    """Whether no event has this field."""
    return column.count(None) == len(column)


def is_shared_here(mode: Hashable) -> bool:
    """As `is_shared`, without a line."""
    return is_shared(mode, 0)


def _flags(column: Sequence[T], holds: Callable[[T], bool]) -> Bools:
    return np.array(list(map(holds, column)), bool)


class Named(NamedTuple):
    """What the codes of a block mean, by number; attempt_texts as in OpColumns."""

    processes: Sequence[int | str]
    fs: Sequence[str]
    keys: Sequence[Hashable]
    attempt_texts: Sequence[str]


def paired(events: Block, values: list[Hashable] | None, names: Named) -> OpColumns:
    """The operations of events in the order of the file. Odd if one is impossible.

    values: of all events, None if all are None. An event without a lock needs None in `names.keys`.
    """
    completion = _completions(events)
    asked = np.flatnonzero(events.kind == INVOKE)
    answer = completion.take(asked)
    answered = answer >= 0
    # The event itself stands for a completion that is missing: every use is masked.
    last = np.where(answered, answer, asked)
    status = STATUS_OF.take(np.where(answered, events.kind.take(last), INFO))
    status[(status == Status.FAIL) & events.not_owner.take(last)] = Status.NOT_OWNER
    keys = events.key.take(asked)
    if (keys == UNKEYED).any():
        keys = np.where(keys == UNKEYED, list(names.keys).index(None), keys).astype(np.int32)
    return OpColumns(
        process=CodedColumn(events.process.take(asked), names.processes),
        f=CodedColumn(events.f.take(asked), names.fs),
        key=CodedColumn(keys, names.keys),
        value=_values(values, asked.tolist()),
        result=_values(values, answer.tolist()),
        begin=asked.astype(np.int64),
        end=np.where(status == Status.INFO, OPEN, last).astype(np.int64),
        status=status,
        token=_latest(events.token, asked, last, NO_TOKEN),
        attempt=_latest(events.attempt, asked, last, NO_ATTEMPT),
        attempt_texts=names.attempt_texts,
        shared=events.shared.take(asked),
        lease_ns=events.lease_ns.take(asked),
        line=events.line.take(asked),
        end_line=np.where(answered, events.line.take(last), 0).astype(np.int32),
        event=events.number.take(asked),
        end_event=np.where(answered, events.number.take(last), 0).astype(np.int32),
    )


def _values(values: list[Hashable] | None, rows: list[int]) -> list[Hashable] | None:
    """The values of these events, None for -1."""
    if values is None:
        return None
    column = [None if row < 0 else values[row] for row in rows]
    return column if any(value is not None for value in column) else None


def _latest(
    column: Ints, asked: npt.NDArray[np.intp], answer: npt.NDArray[np.intp], none: int
) -> Ints:
    """What the completion says, or the invocation if it does not."""
    later = column.take(answer)
    return np.where(later != none, later, column.take(asked))


def _completions(events: Block) -> npt.NDArray[np.int64]:
    """Per event the number of the completion of an invocation, -1 for none. Odd.

    Sorted by process, with the order of the file kept within each, invocations and completions of a
    process alternate:

        process      0  0  1  0  1        order     0 1 3   2 4
        kind         i  k  i  i  k        kind      i k i   i k
        completion   1 -1  4 -1 -1
    """
    order = np.argsort(events.process, kind="stable")
    process, invokes = events.process.take(order), events.kind.take(order) == INVOKE
    same = np.zeros(len(order), bool)
    same[1:] = process[1:] == process[:-1]
    # after[n]: the event before n in this order is an invocation of the same process.
    after = same.copy()
    after[1:] &= invokes[:-1]
    if (invokes == after).any():
        raise Odd("an invocation or a completion too many")
    completes = np.flatnonzero(after)
    answer, asked = order.take(completes), order.take(completes - 1)
    if (events.f.take(answer) != events.f.take(asked)).any():
        raise Odd("the completion of another operation")
    keyed = events.key.take(answer)
    if ((keyed != UNKEYED) & (keyed != events.key.take(asked))).any():
        raise Odd("the completion of another lock, or of one that was not named")
    _check_times(events.time.take(order), process)
    completion = np.full(len(order), -1, np.int64)
    completion[asked] = answer
    return completion


def _check_times(time: Ints, process: Rows) -> None:
    """Odd if time goes backwards within a process; events without a time do not count."""
    timed = time != NO_TIME
    if not timed.all():
        time, process = time[timed], process[timed]
    if ((time[1:] < time[:-1]) & (process[1:] == process[:-1])).any():
        raise Odd("time goes backwards")
