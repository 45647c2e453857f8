"""Input of a checker: the merged history, the observed faults, the promises. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import ROW_FIELDS, Op, Starved
from holdfast.harness.core.verdict import Finding, Promises, PropertyVerdict

Column = npt.NDArray[np.int64]
"""of a history: of int64, or of another type of whole numbers, as MERGED_DTYPE says"""


class Columns:
    """Rows by column: `rows["f"]` is a column, `rows[3]` one row, `rows[mask]` some of the rows.

    Checkers scan few columns of many rows: 8 bytes a row, where a structured array has to be walked
    in steps of a hundred. Reading is that of a structured array, and `np.asarray(rows)` is one, as
    pandas takes it.

    A selection (mask, indices or slice) gathers a column when it is first read; its columns are
    copies, those of a slice are views.

    columns   arrays of equal length, by name, in the order of `dtype`
    """

    def __init__(self, dtype: np.dtype[np.void], columns: Mapping[str, Column]) -> None:
        self.dtype = dtype
        self._columns = dict(columns)
        self._of: Columns | None = None
        self._chosen: npt.NDArray[np.intp] | slice = slice(None)
        self._length = len(next(iter(self._columns.values())))

    @classmethod
    def _selected(cls, of: Columns, chosen: slice | npt.ArrayLike) -> Columns:
        rows = cls.__new__(cls)
        rows.dtype, rows._columns, rows._of = of.dtype, {}, of
        if isinstance(chosen, slice):
            rows._chosen, rows._length = chosen, len(range(*chosen.indices(len(of))))
        else:
            places = np.asarray(chosen)
            if places.dtype == bool:
                places = np.flatnonzero(places)
            rows._chosen, rows._length = places.astype(np.intp, copy=False), len(places)
        return rows

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: int | np.integer) -> Row: ...
    @overload
    def __getitem__(self, key: slice | npt.NDArray[np.generic]) -> Columns: ...
    @overload
    def __getitem__(self, key: list[str]) -> npt.NDArray[np.void]: ...
    @overload
    def __getitem__(self, key: list[int]) -> Columns: ...
    def __getitem__(self, key: object) -> object:
        if isinstance(key, str):
            found = self._columns.get(key)
            if found is None:
                if self._of is None:
                    raise KeyError(key)
                found = self._columns[key] = self._of[key][self._chosen]
            return found
        if isinstance(key, int | np.integer):
            return Row(self, int(key))
        if isinstance(key, list) and key and isinstance(key[0], str):
            return np.asarray(self)[key]
        return Columns._selected(self, key)  # type: ignore[arg-type]

    def __setitem__(self, name: str, values: npt.ArrayLike) -> None:
        self[name][...] = values

    def fill(self, part: Columns) -> None:
        """Makes these rows equal to others, as many."""
        for name in self.dtype.names or ():
            self[name] = part[name]

    def __iter__(self) -> Iterator[Row]:
        return (Row(self, at) for at in range(len(self)))

    def __array__(
        self, dtype: np.dtype[np.void] | None = None, copy: bool | None = None
    ) -> npt.NDArray[np.void]:
        made = np.empty(len(self), self.dtype)
        for name in self.dtype.names or ():
            made[name] = self[name]
        return made if dtype is None else made.astype(dtype)

    def copy(self) -> Columns:
        """The same rows; a change of the copy does not change these."""
        return Columns(self.dtype, {name: self[name].copy() for name in self.dtype.names or ()})

    def tolist(self) -> list[tuple[int, ...]]:
        """Every row as a tuple of its numbers."""
        columns = (self[name].tolist() for name in self.dtype.names or ())
        return list(zip(*columns, strict=True))

    def shortened(self, rows: int) -> Columns:
        """These rows without those from a number on."""
        self._columns = {name: column[:rows] for name, column in self._columns.items()}
        self._length = rows
        return self

    def sorted_by(self, order: npt.NDArray[np.intp]) -> Columns:
        """The rows in another order. These here are gone: their columns are freed one by one."""
        made = {}
        for name in self.dtype.names or ():
            column = self[name]
            del self._columns[name]
            made[name] = column[order]
        return Columns(self.dtype, made)


class Row:
    """One row of `Columns`: `row["t_inv"]` is a number of the column's type."""

    __slots__ = ("_at", "_rows")

    def __init__(self, rows: Columns, at: int) -> None:
        if not -len(rows) <= at < len(rows):
            raise IndexError(at)
        self._rows, self._at = rows, at

    def __getitem__(self, name: str) -> Any:
        return self._rows[name][self._at]

    def __setitem__(self, name: str, value: int) -> None:
        self._rows[name][self._at] = value

    @property
    def dtype(self) -> np.dtype[np.void]:
        return self._rows.dtype

    def tolist(self) -> tuple[int, ...]:
        """Its numbers, in the order of the columns."""
        return tuple(self[name].item() for name in self.dtype.names or ())


Rows = npt.NDArray[np.void] | Columns
"""Rows of MERGED_DTYPE: what was read from files by column, a structured array is as good."""

MERGED_DTYPE = np.dtype([*ROW_FIELDS, ("writer", "<u2"), ("row", "<u4")])
"""A row of a merged history: `key` and `err` (and `res` of LOST and CLOSED) index
History.strings; `writer` and `row` say where it came from."""


def by_column(rows: npt.NDArray[np.void] | Columns) -> Columns:
    """The same rows by column; what is so already stays as it is."""
    if isinstance(rows, Columns):
        return rows
    return Columns(rows.dtype, {name: rows[name] for name in rows.dtype.names or ()})


def room(dtype: np.dtype[np.void], rows: int) -> Columns:
    """Columns without content for a number of rows."""
    return Columns(dtype, {name: np.empty(rows, dtype[name]) for name in dtype.names or ()})


def stacked(dtype: np.dtype[np.void], parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, one after the other."""
    names = dtype.names or ()
    return Columns(dtype, {name: np.concatenate([part[name] for part in parts]) for name in names})


def among(kinds: Column, ops: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Which of these bytes are one of some numbers. To look each up in a table takes thirty times
    as long as to compare all with one number."""
    found = np.zeros(len(kinds), bool)
    for op in ops:
        found |= kinds == int(op)
    return found


@dataclass(frozen=True, kw_only=True)
class History:
    """All rows of a run in order of t_inv (ties: writer, then row).

    rows      all rows, as `Rows`; witnesses are indices into it
    strings   one table for the whole run; index 0 is the empty string
    writers   names of the writers, by `writer` number
    problems  why the log may be incomplete, one sentence each; empty if complete
    attempts  (n, of each row a number below n, larger for a larger attempt), if that is known
    """

    rows: Rows
    strings: Sequence[str]
    writers: Sequence[str]
    problems: Sequence[str] = ()
    attempts: tuple[int, Column] | None = None

    def of(self, *ops: Op) -> npt.NDArray[np.intp]:
        """Indices of the rows of these kinds, in order."""
        return np.flatnonzero(among(self.rows["f"], ops))


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One injected fault, as observed.

    effective whether it took effect; False also if it was never injected
    evidence  measurements of the agent, for display: {"dropped": 214}, {"state": "T"} ...
    holder    the client node whose hold was the target, if the target was "holder"
    leader    the server that led when it was injected, if the target depended on it
    term      of this leader; None if unknown
    traits    what its kind does, as the run's manifest says
    requested_ns  just before the agent was asked for it, -1 if unknown: from then on it may have
              been in effect, since `from_ns` is read when it certainly was
    """

    id: str
    do: str
    target: str
    nodes: Sequence[str]
    from_ns: int
    to_ns: int
    effective: bool
    evidence: Mapping[str, Json]
    holder: str = ""
    leader: str = ""
    term: int | None = None
    reason: str = ""
    traits: Traits = UNKNOWN
    requested_ns: int = -1

    @property
    def earliest_ns(self) -> int:
        """From when on it may have been in effect."""
        return self.from_ns if self.requested_ns < 0 else min(self.requested_ns, self.from_ns)


class Planned(NamedTuple):
    """A kind of fault as the plan asks for it, whether or not one took effect.

    target   of its faults, as the plan names it; "" if the kind chooses
    """

    traits: Traits = UNKNOWN
    target: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Election:
    """A server that began to lead at a time. term: of it; None if unknown."""

    t_ns: int
    leader: str
    term: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Two rows of one run that cannot both be true under an assumption.

    why     text that follows the assumption's name and a colon
    """

    rows: tuple[int, int]
    why: str


Contradicted = Mapping[str, Mapping[int, Contradiction]]
"""assumption -> per lock what contradicts it"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that a checker may read.

    asked        property ids that the workload requests
    start_ns     start of the workload; stop_ns: last heal, then only probes acquire; end_ns: end
    error_ns     proven clock error between writers on several hosts, by which all intervals are
                 widened already; 0 on one host
    nodes        process number -> node name of the logical client
    kinds        fault kinds of the plan; planned: what it asks of them, where that is known
    options      of the run: "resource", "lease_ns", "workload" ...
    starved      spans in which one of our processes, or its host, was starved of CPU
    since_ns     everything that went on since then is in the history; -1 unless it is a later part
                 of a run
    elections    of leaders, in order, if the backend notes them; else who led is known only from
                 faults whose target depended on it
    contradicted what other parts of the run contradict of its assumptions, by their own rows
    memo         cache of derivations shared by checkers; not part of the data
    """

    history: History
    promises: Promises
    windows: Sequence[Window]
    asked: Sequence[str]
    start_ns: int
    stop_ns: int
    end_ns: int
    lease_ns: int
    error_ns: int = 0
    nodes: Mapping[int, str] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    planned: Mapping[str, Planned] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    starved: Sequence[Starved] = ()
    elections: Sequence[Election] = ()
    since_ns: int = -1
    contradicted: Contradicted = field(default_factory=dict)
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


T = TypeVar("T")


def memoised(derive: Callable[[Case], T]) -> Callable[[Case], T]:
    """What follows from a case alone: derived when it is first asked for, and kept in its memo."""
    name = f"{derive.__module__}.{derive.__qualname__}"

    @wraps(derive)
    def known(case: Case) -> T:
        if name not in case.memo:
            case.memo[name] = derive(case)
        kept: T = case.memo[name]
        return kept

    return known


class Checker(Protocol):
    """Judges one property. Pure: no file, no clock, no cluster, no plot."""

    def __call__(self, case: Case) -> PropertyVerdict: ...


class Coverage(Protocol):
    """What all parts so far of a run that is judged in parts exercised of one property."""

    def add(
        self,
        part: tuple[Case, PropertyVerdict],
        again: tuple[Case, PropertyVerdict] | None,
        to_come: Collection[str],
    ) -> None:
        """Adds one part and its verdict.

        again     the rows of it that the next part has too; None if it is the last
        to_come   kinds of fault of which a window begins after the part
        """

    def conclude(
        self, case: Case, findings: Sequence[Finding], notes: Sequence[Finding], doubt: str
    ) -> PropertyVerdict:
        """The verdict on the whole run. doubt: why it cannot be HOLDS, whatever was exercised."""


class AcrossParts(NamedTuple):
    """What the checkers have for a run that is judged in parts.

    contradicted   what a part contradicts of the assumptions that its checkers have asked for
    coverage       of a property, none so far
    """

    contradicted: Callable[[Case], Contradicted]
    coverage: Callable[[str], Coverage]
