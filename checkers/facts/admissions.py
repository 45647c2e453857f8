"""Attempts that the protected resource has admitted so far, and the writes of older ones after."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.history_index import Bools, Ints, Places, RowIndices, column
from holdfast.checkers.holds.token_order import ordered
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN, Op, Status


def newer(case: Case, b: Attempt, a: Attempt) -> bool:
    """Whether b was certainly granted after a: by times, else by ordered tokens.

    Attempts that did not return ok have no order. False if the order is unknown.
    """
    if a.status is not Status.OK or b.status is not Status.OK:
        return False
    if b.inv_ns >= a.ret_ns + case.error_ns:
        return True
    if a.inv_ns >= b.ret_ns + case.error_ns:
        return False
    return ordered(case, a.key) and a.token != NO_TOKEN and b.token > a.token


class Admitted:
    """The attempts of one lock that its resource has admitted, in the order of its log."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._attempts: dict[int, Attempt] = {}
        self._rows: dict[int, int] = {}
        self._by_inv: list[tuple[int, int]] = []
        self._by_ret: list[tuple[int, int]] = []
        self._highest = NO_TOKEN

    def add(self, a: Attempt, row: int) -> None:
        """Note that a request of `a` was accepted by that row of the log."""
        if a.id in self._rows:
            return
        self._rows[a.id] = row
        self._attempts[a.id] = a
        insort(self._by_inv, (a.inv_ns, a.id))
        insort(self._by_ret, (a.ret_ns, a.id))
        self._highest = max(self._highest, a.token)

    def newer_than(self, a: Attempt) -> tuple[Attempt, int] | None:
        """A conflicting attempt newer than `a`, and the row that admitted it first; None: none.

        O(log n) unless an attempt with a larger token was admitted; then also the acquires that
        overlapped a's.
        """
        error_ns = self._case.error_ns
        later = self._by_inv[bisect_left(self._by_inv, (a.ret_ns + error_ns, 0)) :]
        if self._highest > a.token:
            later += self._by_ret[bisect_left(self._by_ret, (a.inv_ns - error_ns, 0)) :]
        for _, ident in later:
            b = self._attempts[ident]
            if a.process != b.process and conflict(a, b) and newer(self._case, b, a):
                return b, self._rows[ident]
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """Requests that the resource accepted from attempts that the history has.

    places     in `resource_log.log`, in its order
    entry      entries of the table that sent them
    key        their locks
    write      which of them are writes
    from_ns    the earliest time at which each can have been decided
    overtaken  which of them may have come after the admission of a newer attempt
    """

    places: Places
    entry: Ints
    key: Ints
    write: Bools
    from_ns: Ints
    overtaken: Bools


@memoised
def accepted(case: Case) -> Accepted:
    """All accepted requests as columns; memoised. O(n log n)."""
    rows = resource_log.log(case).rows
    entry = table(case).of_rows(rows)
    places = np.flatnonzero((column(case, "status")[rows] == Status.OK) & (entry >= 0))
    rows, entry = rows[places], entry[places]
    key = column(case, "key")[rows]
    return Accepted(
        places=places,
        entry=entry,
        key=key,
        write=column(case, "f")[rows] == Op.SERVED_WRITE,
        from_ns=column(case, "t_inv")[rows],
        overtaken=_overtaken(case, entry, key),
    )


def rejected(case: Case) -> RowIndices:
    """Rows of all requests that the resource rejected, in the order of its log."""
    log = resource_log.log(case).rows
    return np.compress(column(case, "status")[log] == Status.FAIL, log)


@memoised
def stale_refused(case: Case) -> RowIndices:
    """Rows of outdated requests that the resource rejected although it had admitted an attempt that
    is newer than theirs: a resource without checks would have accepted them. Memoised."""
    rows = resource_log.outdated(case)
    return rows[_behind(case, rows)] if len(rows) else rows


def _behind(case: Case, rows: RowIndices) -> Bools:
    """Which of these rows of the log come after the admission of an attempt that is newer."""
    attempts, taken = table(case), accepted(case)
    log = resource_log.log(case).rows
    place = np.empty(len(case.history.rows), np.intp)
    place[log] = np.arange(len(log))
    entry, key = attempts.of_rows(rows), column(case, "key")[rows]
    stale = np.zeros(len(rows), bool)
    for one in np.unique(key).tolist():
        mine = np.flatnonzero(taken.key == one)
        # Requests of one owner follow each other: a a a b b a has the admissions a b a.
        first = np.flatnonzero(np.diff(taken.entry[mine], prepend=-1))
        admitted = taken.entry[mine][first]
        asked = np.flatnonzero((key == one) & (entry >= 0))
        upto = np.searchsorted(taken.places[mine][first], place[rows[asked]])
        for n, end in _suspects(case, admitted, entry[asked], upto):
            stale[asked[n]] = _newest(case, admitted[:end], int(entry[asked[n]]))
    return stale


def _suspects(case: Case, admitted: Ints, asked: Ints, upto: Places) -> list[tuple[int, int]]:
    """Each of the asked, and how many were admitted before it, that any of those may have overtaken
    by its time or token: a running maximum tells of most that none has."""
    attempts = table(case)
    of_owner = attempts.ok[admitted]
    # Calls 1 5 3 have the latest ones 1 5 5; -1 stands for nothing admitted.
    inv = np.where(of_owner, attempts.inv[admitted], -1)
    token = np.where(of_owner, attempts.token[admitted], NO_TOKEN)
    latest = np.maximum.accumulate(np.concatenate(([-1], inv)))
    largest = np.maximum.accumulate(np.concatenate(([NO_TOKEN], token)))
    may = latest[upto] >= attempts.ret[asked] + case.error_ns
    if len(asked) and ordered(case, int(attempts.key[asked[0]])):
        may |= largest[upto] > attempts.token[asked]
    may &= attempts.ok[asked]
    return list(zip(np.flatnonzero(may).tolist(), upto[may].tolist(), strict=True))


def _newest(case: Case, admitted: Ints, entry: int) -> bool:
    """Whether one of these attempts is newer than another; the latest ones are tried first."""
    attempts, (a,) = table(case), table(case).pick([entry])
    at = admitted[attempts.ok[admitted]]
    may = attempts.inv[at] >= a.ret_ns + case.error_ns
    if ordered(case, a.key):
        may |= (attempts.token[at] > a.token) & (a.inv_ns < attempts.ret[at] + case.error_ns)
    others = np.unique(at[may & (attempts.process[at] != a.process)])[::-1]
    return any(conflict(a, b) and newer(case, b, a) for b in _each(case, others))


def _each(case: Case, entries: Ints) -> Iterator[Attempt]:
    """The attempts of these entries, made one by one."""
    for entry in entries.tolist():
        yield from table(case).pick([entry])


def _overtaken(case: Case, entry: Ints, key: Ints) -> Bools:
    """Whether any attempt admitted before, of the same key, was requested after this one's grant,
    or has a larger token."""
    attempts = table(case)
    late = np.zeros(len(entry), bool)
    for one in np.unique(key).tolist():
        places = np.flatnonzero(key == one)
        mine = entry[places]
        inv = np.where(attempts.ok, attempts.inv, -1)[mine]
        token = np.where(attempts.ok, attempts.token, NO_TOKEN)[mine]
        # Running maxima over what was admitted before each request: calls 1 5 3 with returns 2 6 4:
        # latest call before the third is 5 >= 4, so the third may be overtaken.
        latest, largest = np.maximum.accumulate(inv)[:-1], np.maximum.accumulate(token)[:-1]
        after = latest >= attempts.ret[mine][1:] + case.error_ns
        if ordered(case, one):
            after |= largest > token[1:]
        late[places[1:]] = after
    return late


def walked(case: Case, keys: Ints) -> Iterator[tuple[resource_log.Request, Attempt, Admitted]]:
    """Each accepted request of these keys in the log's order, with the attempts admitted before."""
    found = accepted(case)
    which = np.flatnonzero(np.isin(found.key, keys))
    admitted: dict[int, Admitted] = {}
    attempts = table(case).pick(found.entry[which])
    for request, attempt in zip(
        resource_log.requests(case, found.places[which]), attempts, strict=True
    ):
        before = admitted.setdefault(request.key, Admitted(case))
        yield request, attempt, before
        before.add(attempt, request.row)


Stale = tuple[resource_log.Request, Attempt, Attempt, int]
"""An accepted write, its attempt, the newer attempt, and the row that had admitted it."""


def stale_writes(case: Case) -> Iterator[Stale]:
    """Every stale accepted write, in the order of the resource's log."""
    requests = accepted(case)
    keys = np.unique(requests.key[requests.write & requests.overtaken])
    for request, attempt, before in walked(case, keys):
        overtaken = before.newer_than(attempt) if request.write else None
        if overtaken is not None:
            yield request, attempt, *overtaken
