"""The operations of an imported history as columns.

A million take far less memory than as many objects, and models that know columns judge them without
making one.

    columns[5]              the sixth operation, as a ForeignOp
    columns.begin[5]        the same number as columns[5].begin
    columns.key.codes[5]    stands for columns[5].key
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.operations import Status
from holdfast.harness.foreign.operations import ForeignOp

V = TypeVar("V")
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
NO_ATTEMPT = -1
FIRST_TEXT = -2
"""The attempt that is the text number n of `attempt_texts` is stored as FIRST_TEXT - n."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn(Generic[V]):
    """A column of few different values: `values[codes[n]]` is that of operation n."""

    codes: Rows
    values: Sequence[V]

    def where(self, wanted: Callable[[V], bool]) -> Bools:
        """Which operations have a value that is wanted."""
        return np.array([wanted(value) for value in self.values], bool).take(self.codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class OpColumns(Sequence[ForeignOp]):
    """Operations in order of their begin; all columns have their number as length.

    The fields are those of ForeignOp. value, result: None if no operation has one. status: numbers
    of Status. attempt: see `attempt_texts`; NO_ATTEMPT if the history names none. line, end_line,
    event, end_event: 32 bits; no history that fits in memory has more lines.
    """

    process: CodedColumn[int | str]
    f: CodedColumn[str]
    key: CodedColumn[Hashable]
    value: Sequence[Hashable] | None
    result: Sequence[Hashable] | None
    begin: Ints
    end: Ints
    status: npt.NDArray[np.uint8]
    token: Ints
    attempt: Ints
    attempt_texts: Sequence[str]
    shared: Bools
    lease_ns: Ints
    line: Rows
    end_line: Rows
    event: Rows
    end_event: Rows

    def __len__(self) -> int:
        return len(self.begin)

    @overload
    def __getitem__(self, at: int) -> ForeignOp: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ForeignOp]: ...
    def __getitem__(self, at: int | slice) -> ForeignOp | Sequence[ForeignOp]:
        if isinstance(at, slice):
            return self._objects[at]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        rows = np.array([at % len(self)])
        return next(self._made(rows))

    def __iter__(self) -> Iterator[ForeignOp]:
        return iter(self._objects)

    @cached_property
    def _objects(self) -> list[ForeignOp]:
        """All as objects, for models that need them more than once."""
        return list(self._made(np.arange(len(self))))

    def _made(self, rows: npt.NDArray[np.intp]) -> Iterator[ForeignOp]:
        nothing = [None] * len(rows)
        value, result = (
            nothing if column is None else [column[row] for row in rows.tolist()]
            for column in (self.value, self.result)
        )
        fields = zip(
            map(self.process.values.__getitem__, self.process.codes[rows].tolist()),
            map(self.f.values.__getitem__, self.f.codes[rows].tolist()),
            map(self.key.values.__getitem__, self.key.codes[rows].tolist()),
            value,
            result,
            self.begin[rows].tolist(),
            self.end[rows].tolist(),
            map(STATUSES.__getitem__, self.status[rows].tolist()),
            self.token[rows].tolist(),
            map(self.attempt_of, self.attempt[rows].tolist()),
            self.shared[rows].tolist(),
            self.lease_ns[rows].tolist(),
            self.line[rows].tolist(),
            self.end_line[rows].tolist(),
            self.event[rows].tolist(),
            self.end_event[rows].tolist(),
            strict=True,
        )
        for process, f, key, asked, answer, begin, end, status, token, attempt, *rest in fields:
            shared, lease_ns, line, end_line, event, end_event = rest
            yield ForeignOp(
                process=process,
                f=f,
                key=key,
                value=asked,
                result=answer,
                begin=begin,
                end=end,
                status=status,
                told_value=answer is not None,
                token=token,
                attempt=attempt,
                shared=shared,
                lease_ns=lease_ns,
                line=line,
                end_line=end_line,
                event=event,
                end_event=end_event,
            )

    def attempt_of(self, stored: int) -> int | str | None:
        """The attempt that a number of the column stands for."""
        if stored >= 0:
            return stored
        return None if stored == NO_ATTEMPT else self.attempt_texts[FIRST_TEXT - stored]

    def has(self, *statuses: Status) -> Bools:
        """Which operations have one of these outcomes."""
        return np.isin(self.status, np.array(statuses, np.uint8))


STATUSES = {int(status): status for status in Status}


@dataclass(frozen=True, slots=True, eq=False)
class Chosen(Sequence[ForeignOp]):
    """Some rows of columns, in this order."""

    columns: OpColumns
    rows: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> ForeignOp: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ForeignOp]: ...
    def __getitem__(self, at: int | slice) -> ForeignOp | Sequence[ForeignOp]:
        if isinstance(at, slice):
            return Chosen(self.columns, self.rows[at])
        return self.columns[int(self.rows[at])]
