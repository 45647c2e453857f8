"""All attempts of a run as numpy columns, so that checkers can filter a million at once.

Few attempts can be part of a violation. Checkers select those by the columns (too many rather than
too few) and judge them one by one as `holds.Attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.checkers.holds.derive import ASKS, ENDS, INF, Attempt, attempts, derived
from holdfast.checkers.holds.hierarchy import families, lines, on_line, paths
from holdfast.checkers.holds.history_index import (
    Bools,
    EntryIndices,
    Ints,
    RowIndices,
    attempt_numbers,
    column,
    rows_of,
)
from holdfast.checkers.holds.log import Log
from holdfast.checkers.holds.owners import owners
from holdfast.checkers.holds.vectorized import derive
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.history.distinct_values import LOW_32, distinct

Grouping = Callable[[Case, Sequence[int]], Mapping[int, Sequence[int]]]

FEW = 4000
"""Histories up to this number of rows are derived attempt by attempt: columns would cost more."""
FOLLOWS = (Op.RENEW, Op.RELEASE, Op.WAITING, Op.LOST, Op.CLOSED)
"""Kinds of rows, besides its acquire, that decide an attempt's holds."""


class Table:
    """One entry per attempt, in order of call; the columns are those of `holds.Attempt`, each an
    array of shape (number of attempts,).

    ret, end, kept, known   INF if never; proof, bound: -1 if never
    over              end of the possible hold, -1 if there is none
    why               index into ENDS
    queued            time of the last response that it waits, -1: never
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.row: RowIndices = rows_of(case, *ASKS)
        self.id = column(case, "attempt")[self.row]
        self.process = column(case, "process")[self.row]
        self.key = column(case, "key")[self.row]
        self.mode = column(case, "mode")[self.row]
        self.op = column(case, "f")[self.row]
        self.inv = column(case, "t_inv")[self.row]
        ret = column(case, "t_ret")[self.row]
        self.ret = np.where(ret == 0, INF, ret)
        self.status = column(case, "status")[self.row]
        self.ok: Bools = self.status == Status.OK
        self.unknown: Bools = (self.status == Status.INFO) | (self.status == Status.INVOKED)
        self.wait = column(case, "aux")[self.row]
        self.ttl = np.where(self.ok, column(case, "res")[self.row], column(case, "arg")[self.row])
        n = len(self.row)
        self.token = np.where(self.ok, column(case, "token")[self.row], NO_TOKEN)
        self.end = np.full(n, INF)
        self.end_row = np.full(n, -1)
        self.why = np.zeros(n, np.int64)
        self.kept = np.full(n, INF)
        self.owner = owners(case)
        self.known = np.where(self.ok, self.ret, INF)
        self.proof = np.full(n, -1)
        self.bound = np.full(n, -1)
        self.over = np.full(n, -1)
        self.queued = np.full(n, -1)
        self._ending: RowIndices | None = None
        self._made: dict[int, Attempt] = {}

    def __len__(self) -> int:
        return len(self.row)

    @property
    def certain(self) -> Bools:
        """Mask of the attempts with a certain hold, [ret, end]."""
        return np.asarray(self.ok & (self.end >= self.ret))

    def fill(self, which: Iterable[int], found: Iterable[Attempt]) -> None:
        """Store attempts that were derived one by one in the columns."""
        inv = column(self.case, "t_inv")
        for n, a in zip(which, found, strict=True):
            self.token[n] = a.token
            self.end[n], self.end_row[n], self.why[n] = a.end_ns, a.end_row, ENDS.index(a.end_why)
            self.kept[n] = a.kept_ns
            self.known[n], self.proof[n], self.bound[n] = a.known_ns, a.proof_ns, a.bound_ns
            self.over[n] = -1 if a.possible is None else a.possible[1]
            if a.waitings:
                self.queued[n] = inv[a.waitings[-1]]

    def pick(self, which: Iterable[int] | Ints | EntryIndices) -> list[Attempt]:
        """These entries as attempts; derives those that are not known yet."""
        numbers = [int(n) for n in which]
        if "attempts" in self.case.memo:
            every = attempts(self.case)
            return [every[n] for n in numbers]
        missing = sorted({n for n in numbers if n not in self._made})
        if missing:
            made = derived(self._log(np.array(missing)), self.row[missing].tolist())
            self._made.update(zip(missing, made, strict=True))
        return [self._made[n] for n in numbers]

    def _log(self, which: Ints) -> Log:
        """A log of these attempts, and of all rows that may end the hold of any attempt."""
        order, number = self.following()
        # Rows in order of attempt, as attempts 1 1 4 4 4: those of attempt 4 are places 2 to 5.
        wanted = distinct(attempt_numbers(self.case)[1][self.row[which]])
        low, high = np.searchsorted(number, wanted), np.searchsorted(number, wanted, "right")
        mine = [order[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        if self._ending is None:
            self._ending = rows_of(self.case, Op.CLOSED, Op.FORCE_UNLOCK, Op.HEARTBEAT)
        every = np.concatenate((self.row[which], self._ending, *mine))
        return Log(self.case, distinct(every))

    def following(self) -> tuple[RowIndices, Ints]:
        """Rows of FOLLOWS in order of attempt and time, and the number of the attempt of each."""
        if "by_attempt" not in self.case.memo:
            rows = rows_of(self.case, *FOLLOWS)
            # (number, row) as one integer: to sort the values is faster than their places.
            packed = np.sort(attempt_numbers(self.case)[1][rows] << 32 | rows)
            self.case.memo["by_attempt"] = packed & LOW_32, packed >> 32
        ordered: tuple[RowIndices, Ints] = self.case.memo["by_attempt"]
        return ordered

    def places(self, some: EntryIndices, entries: EntryIndices) -> Ints:
        """For each of some entries its place among `entries`, -1 if it is not one of them."""
        if "places" not in self.case.memo:
            self.case.memo["places"] = np.empty(len(self), np.int64)
        place: Ints = self.case.memo["places"]
        place[some] = -1
        place[entries] = np.arange(len(entries))
        return place[some]

    def by_lock(self) -> Mapping[int, EntryIndices]:
        """Entries per lock (index into history.strings), each in order of call.

        Of a hierarchy: per ancestor chain, under its last lock; an entry may be on several.
        """
        return self._grouped("by line", lines)

    def by_family(self) -> Mapping[int, EntryIndices]:
        """Entries per lock; those of one hierarchy together, under one of its locks."""
        return self._grouped("by family", families)

    def beside(self, key: int) -> EntryIndices:
        """The entries of all locks that exclude this one, itself included, in order of call."""
        known = paths(self.case)
        if key not in known:
            return self._by_key()[key]
        keys = [k for k in self._by_key() if k in known and on_line(known[k], known[key])]
        return np.sort(np.concatenate([self._by_key()[k] for k in keys]))

    def only_holder(self, a: Attempt, by_ns: int) -> bool:
        """Whether what is said of its token by by_ns can be about no other attempt on the lock.

        No other was given the token, and its owner has none that was called by then and whose
        outcome and token are unknown: the entries of one owner share a token.
        """
        beside = self.beside(a.key)
        blank = self.unknown[beside] & (self.token[beside] == NO_TOKEN)
        own = (self.key[beside] == a.key) & (self.owner[beside] == a.owner) & blank
        if np.any(own & (self.inv[beside] <= by_ns)):
            return False
        return int((self.token[beside] == a.token).sum()) == 1

    def _grouped(self, name: str, kind: Grouping) -> Mapping[int, EntryIndices]:
        by_key = self._by_key()
        if not paths(self.case):
            return by_key
        if name not in self.case.memo:
            groups = kind(self.case, list(by_key))
            self.case.memo[name] = {
                key: np.sort(np.concatenate([by_key[k] for k in keys]))
                for key, keys in groups.items()
            }
        entries_of: dict[int, EntryIndices] = self.case.memo[name]
        return entries_of

    def _by_key(self) -> Mapping[int, EntryIndices]:
        if "entries" not in self.case.memo:
            # Keys 7 3 7: order 1 0 2, in which key 3 begins at 0 and key 7 at 1. The parts [1] and
            # [0, 2] are listed by their first entry: 7, 3.
            order = np.argsort(self.key, kind="stable")
            keys, first = np.unique(self.key[order], return_index=True)
            parts = np.split(order, first[1:]) if len(keys) else []
            asked = sorted(zip(keys.tolist(), parts, strict=True), key=lambda one: int(one[1][0]))
            self.case.memo["entries"] = dict(asked)
        entries_of: dict[int, EntryIndices] = self.case.memo["entries"]
        return entries_of

    def of_rows(self, rows: RowIndices) -> Ints:
        """The entry of the attempt of each of these rows, -1 if the history has none."""
        if "entry_of_row" not in self.case.memo:
            count, number = attempt_numbers(self.case)
            entry = np.full(count, -1)
            entry[number[self.row]] = np.arange(len(self))
            self.case.memo["entry_of_row"] = entry[number]
        entries: Ints = self.case.memo["entry_of_row"]
        return entries[rows]

    def of_id(self, ids: Any) -> Ints:
        """The entry of each of these attempts, -1 if the history has none."""
        if "entry_of_id" not in self.case.memo:
            order = np.argsort(self.id, kind="stable")
            self.case.memo["entry_of_id"] = order, self.id[order]
        order, known = self.case.memo["entry_of_id"]
        if not len(known):
            return np.full(len(ids), -1)
        # Ids 5 2 9 of entries 0 1 2: 5 is entry 0; the largest up to 4 is 2, so 4 has none.
        place = np.searchsorted(known, ids, "right") - 1
        return np.where(known[np.maximum(place, 0)] == ids, order[np.maximum(place, 0)], -1)


@memoised
def table(case: Case) -> Table:
    """The attempts of a run as columns; memoised. O(n log n)."""
    built = Table(case)
    if len(case.history.rows) <= FEW or "attempts" in case.memo:
        built.fill(range(len(built)), attempts(case))
    else:
        knotty = np.flatnonzero(~derive(built))
        built.fill(knotty.tolist(), built.pick(knotty))
    return built
