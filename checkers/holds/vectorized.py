"""Holds of attempts without special cases, derived for all of them at once with numpy.

The rules are those of `derive`, which derives attempts one by one. An attempt with calls of unknown
outcome, several releases, one without effect or overlapping renewals is left to it; a test holds
both derivations equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdfast.checkers.holds.derive import ENDS
from holdfast.checkers.holds.history_index import (
    Bools,
    Ints,
    RowIndices,
    acknowledged,
    column,
    rows_of,
)
from holdfast.checkers.holds.leases import INF, MILLION
from holdfast.checkers.holds.statements import answers
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.history.distinct_values import distinct

if TYPE_CHECKING:
    from holdfast.checkers.holds.attempt_table import Table

LONG_NS = 1 << 42
"""Longer leases could overflow when multiplied by the drift."""


def derive(table: Table) -> Bools:
    """Fill in the table; False for each attempt that has to be derived one by one."""
    follow = _Follow(table)
    plain = follow.plain
    _ends(table, follow)
    table.kept[:] = table.end
    _proofs(table, follow)
    _contracts(table, follow)
    _possible(table, follow)
    return plain


class _Follow:
    """Rows that follow acquires, in order of time, and the entry of the table of each.

    release         row of the release of an entry, -1: none
    rows, entry     of all renewals; inv, ret, status, ttl: columns of these
    renewals        places in `rows` of renewals that returned ok; refused: "not the owner"
    plain           entries that need not be derived one by one
    """

    def __init__(self, table: Table) -> None:
        case = table.case
        self.rows, self.entry = _known_rows(table, Op.RENEW)
        self.inv = column(case, "t_inv")[self.rows]
        ret = column(case, "t_ret")[self.rows]
        self.ret = np.where(ret == 0, INF, ret)
        self.status = column(case, "status")[self.rows]
        self.ttl = column(case, "res")[self.rows]
        self.renewals = np.flatnonzero(self.status == Status.OK)
        self.refused = np.flatnonzero(self.status == Status.NOT_OWNER)
        released, owner = _known_rows(table, Op.RELEASE)
        self.release = np.full(len(table), -1)
        self.release[owner] = released
        self.plain = self._plain(table, owner)
        waiting, owner = _known(table, acknowledged(case))
        table.queued[owner] = column(case, "t_inv")[waiting]

    def _plain(self, table: Table, released: Ints) -> Bools:
        """released: the entry of every release."""
        case, promises, n = table.case, table.case.promises, len(table)
        odd = np.bincount(released, minlength=n) > 1
        given_back = np.flatnonzero(self.release >= 0)
        no_effect = column(case, "status")[self.release[given_back]] == Status.FAIL
        odd[given_back[no_effect]] = True
        odd[self.entry[(self.status == Status.INFO) | (self.status == Status.INVOKED)]] = True
        answered = self.release >= 0
        answered[self.entry] = True
        odd |= answered & table.unknown
        odd |= (table.ttl > LONG_NS) | (np.bincount(table.of_rows(table.row), minlength=n) != 1)
        odd[self.entry[self.ttl > LONG_NS]] = True
        forced = rows_of(case, Op.FORCE_UNLOCK)
        wrong = [*distinct(column(case, "key")[forced]).tolist(), *answers(case)]
        if wrong:
            odd |= np.isin(table.key, wrong)
        if promises.bound == "session" and len(rows_of(case, Op.HEARTBEAT)):
            odd[:] = True
        odd[self.entry[self._overlapping(table)]] = True
        return ~odd

    def _overlapping(self, table: Table) -> Ints:
        """Places of renewals that overlap their predecessor, and of ok ones that may be late."""
        asked = self._by_entry(np.arange(len(self.rows)))
        same = np.zeros(len(asked), bool)
        same[1:] = self.entry[asked[1:]] == self.entry[asked[:-1]]
        meets = np.zeros(len(asked), bool)
        meets[1:] = same[1:] & (self.inv[asked[1:]] <= self.ret[asked[:-1]])
        odd = asked[meets]
        if table.case.promises.renew_proves:
            return odd
        # The lease before an ok renewal began with the renewal before it of the same attempt, of
        # the first one with the acquire. Attempts 0 0 1, renewals called at 4 7 5, acquires at 1 2:
        # begun 1 4 2.
        at = self._by_entry(self.renewals)
        before = np.roll(at, 1)
        later = np.zeros(len(at), bool)
        later[1:] = self.entry[at[1:]] == self.entry[at[:-1]]
        own = self.entry[at]
        begun = np.where(later, self.inv[before], table.inv[own])
        ttl = np.where(later, self.ttl[before], table.ttl[own])
        slip_ns = table.case.promises.slip_ns
        late = self.ret[at] > begun + _shortest(ttl, table.case.promises.drift_ppm) - slip_ns
        return np.concatenate((odd, at[late]))

    def _by_entry(self, places: Ints) -> Ints:
        """These places in order of entry and time."""
        return np.asarray(places[np.argsort(self.entry[places], kind="stable")])


def _known_rows(table: Table, op: Op) -> tuple[RowIndices, Ints]:
    """Rows of one kind whose attempts have an entry in the table, and these entries."""
    return _known(table, rows_of(table.case, op))


def _known(table: Table, rows: RowIndices) -> tuple[RowIndices, Ints]:
    """Those of some rows whose attempts have an entry in the table, and these entries."""
    entry = table.of_rows(rows)
    known = entry >= 0
    return (rows, entry) if known.all() else (rows[known], entry[known])


def _shortest(ttl: Ints, drift_ppm: int) -> Ints:
    return np.asarray(ttl + -ttl * drift_ppm // MILLION)


def _longest(ttl: Ints, drift_ppm: int, slip_ns: int) -> Ints:
    return np.asarray(ttl - -ttl * drift_ppm // MILLION + slip_ns)


def _sooner(table: Table, entry: Ints, t_ns: Ints, row: Ints, why: str) -> None:
    """Store these ends where they are earlier than those stored; of equal times the first row."""
    if not len(entry):
        return
    # The earliest end of each entry comes first. Entries 3 1 3 at 9 5 7 sort to (1, 5) (3, 7) (3,
    # 9), of which (1, 5) and (3, 7) count.
    order = np.lexsort((row, t_ns, entry))
    entry, t_ns, row = entry[order], t_ns[order], row[order]
    first = np.ones(len(entry), bool)
    first[1:] = entry[1:] != entry[:-1]
    entry, t_ns, row = entry[first], t_ns[first], row[first]
    end = table.end[entry]
    counts = (t_ns < end) | ((t_ns == end) & (row < table.end_row[entry]))
    counts &= table.ok[entry] | table.unknown[entry]
    entry = entry[counts]
    table.end[entry], table.end_row[entry] = t_ns[counts], row[counts]
    table.why[entry] = ENDS.index(why)


def _ends(table: Table, follow: _Follow) -> None:
    """Ends of claims: the earliest time from which each client no longer acts as owner."""
    case = table.case
    inv = column(case, "t_inv")
    released = np.flatnonzero(follow.release >= 0)
    row = follow.release[released]
    _sooner(table, released, inv[row], row, "release")
    refused = follow.refused
    _sooner(table, follow.entry[refused], follow.ret[refused], follow.rows[refused], "lost")
    for kind, why in ((Op.LOST, "lost"), (Op.CLOSED, "closed")):
        notices, owner = _known_rows(table, kind)
        _sooner(table, owner, inv[notices], notices, why)
    closed = rows_of(case, Op.CLOSED)
    closed = closed[column(case, "attempt")[closed] == 0]
    _first_after(table, closed, inv[closed], column(case, "process")[closed])
    for node, times in _kills(table).items():
        mine = np.flatnonzero(
            np.isin(table.process, [p for p, at in case.nodes.items() if at == node])
        )
        # Kills of a node at 5 12, attempts of its clients called at 3 7 13: places 0 1 2, and 2 is
        # no kill.
        place = np.searchsorted(times, table.inv[mine])
        mine, place = mine[place < len(times)], place[place < len(times)]
        _sooner(table, mine, times[place], np.full(len(mine), -1), "killed")


def _first_after(table: Table, row: Ints, t_ns: Ints, process: Ints) -> None:
    """Apply to each attempt the first end of its process's holds that is not before its call."""
    if not len(row):
        return
    order = np.lexsort((t_ns, process))
    row, t_ns, process = row[order], t_ns[order], process[order]
    for one in np.unique(process).tolist():
        low, high = np.searchsorted(process, one), np.searchsorted(process, one, "right")
        mine = np.flatnonzero(table.process == one)
        # Ends of one process at 4 9, attempts called at 3 5 10: places 0 1 2, and 2 is no end.
        place = low + np.searchsorted(t_ns[low:high], table.inv[mine])
        mine, place = mine[place < high], place[place < high]
        _sooner(table, mine, t_ns[place], row[place], "closed")


def _kills(table: Table) -> dict[str, Ints]:
    kills: dict[str, list[int]] = {}
    for window in sorted(table.case.windows, key=lambda window: window.from_ns):
        for node in window.nodes if window.traits.kills else ():
            kills.setdefault(node, []).append(window.from_ns)
    return {node: np.array(times) for node, times in kills.items()}


def _proofs(table: Table, follow: _Follow) -> None:
    """The last time, up to the end of the claim, at which the service proved each hold."""
    promises, case = table.case.promises, table.case
    if promises.renew_proves:
        at = follow.renewals
        own = follow.entry[at]
        counts = (follow.inv[at] <= table.end[own]) & table.ok[own]
        # An attempt may have several renewals: `at` compares with each of them, where an assignment
        # to repeated entries would keep one. Entries 3 3 with 5 9: proof 9.
        np.maximum.at(table.proof, own[counts], follow.inv[at][counts])
    if promises.release_proves:
        own = np.flatnonzero((follow.release >= 0) & table.ok)
        row = follow.release[own]
        sent = column(case, "t_inv")[row]
        counts = (column(case, "status")[row] == Status.OK) & (sent <= table.end[own])
        np.maximum.at(table.proof, own[counts], sent[counts])


def _contracts(table: Table, follow: _Follow) -> None:
    """The end of what the service promised by leases."""
    promises = table.case.promises
    if promises.bound != "lease":
        return
    until = table.inv + _shortest(table.ttl, promises.drift_ppm)
    at = follow.renewals
    own = follow.entry[at]
    sent = follow.inv[at] <= table.end[own]
    at, own = at[sent], own[sent]
    # Renewals are in order of call, and of an assignment to repeated entries the last one stays:
    # entries 2 2 with 8 11 leave 11, the lease of the last renewal.
    until[own] = follow.inv[at] + _shortest(follow.ttl[at], promises.drift_ppm)
    bound = np.minimum(until - promises.slip_ns, table.end)
    table.bound[table.ok] = bound[table.ok]


def _possible(table: Table, follow: _Follow) -> None:
    """The end of each possible hold: until then the service may have counted it as the owner."""
    case, promises = table.case, table.case.promises
    over = np.full(len(table), INF)
    own = np.flatnonzero((follow.release >= 0) & table.ok)
    row = follow.release[own]
    status = column(case, "status")[row]
    answered = (status == Status.OK) | (status == Status.NOT_OWNER)
    back = column(case, "t_ret")[row]
    over[own[answered]] = np.where(back == 0, INF, back)[answered]
    refused = follow.refused
    np.minimum.at(over, follow.entry[refused], follow.ret[refused])
    if promises.bound == "lease":
        # The longest of all leases counts, whose ends need not be in order: returns 4 6 with TTLs 9
        # 2 end at 13 8. A lease without a TTL may last forever.
        lease = table.ret + _longest(table.ttl, promises.drift_ppm, promises.slip_ns)
        at = follow.renewals
        longest = _longest(follow.ttl[at], promises.drift_ppm, promises.slip_ns)
        np.maximum.at(lease, follow.entry[at], follow.ret[at] + longest)
        lease[follow.entry[at][follow.ttl[at] <= 0]] = INF
        lease[table.ttl <= 0] = INF
        over = np.minimum(over, lease)
    gone = (table.why == ENDS.index("closed")) | (table.why == ENDS.index("killed"))
    if promises.bound == "session":
        session_ns = np.array(promises.lasting_ns(case.lease_ns))
        lasts_ns = int(_longest(session_ns, promises.drift_ppm, promises.slip_ns))
        over[gone] = np.minimum(over, table.end + lasts_ns)[gone]
    elif promises.bound == "connection":
        over[gone] = np.minimum(over, np.maximum(table.end, case.stop_ns) + promises.recovery_ns)[
            gone
        ]
    held = np.maximum(table.ret, over)
    table.over[table.ok] = held[table.ok]
    table.over[table.unknown] = INF
    table.token[~table.ok] = NO_TOKEN
