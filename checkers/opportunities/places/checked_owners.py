"""Places at which a service or a resource had to tell an owner from a former one.

A service that applies a release or a renewal to the current holder, a resource that admits every
write, and a service that does not notify holders of a loss show it only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from holdfast.checkers.facts.admissions import accepted, stale_refused, walked
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.facts.lost_holds import calm_from, losses
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.history_index import Indices, Ints, column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.checkers.holds.succession import succession_of
from holdfast.checkers.holds.token_order import ordered
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN, Op, Status

ANSWERED = (Status.OK, Status.FAIL, Status.NOT_OWNER)
MOST = 2000
"""So many attempts of a lock that may be overtaken are looked at one by one, and counted."""


def foreign_releases(case: Case) -> Places:
    """Answered releases of attempts that did not hold the lock any more, or never did."""
    return _foreign(case, Op.RELEASE)


def foreign_renewals(case: Case) -> Places:
    """The same of renewals."""
    return _foreign(case, Op.RENEW)


def _foreign(case: Case, op: Op) -> Places:
    """Columns select the attempts whose last answered call came after a later grant, after their
    own release, or after a refusal: the calls of those are looked at one by one."""
    attempts, inv = table(case), column(case, "t_inv")
    status, kind = column(case, "status"), column(case, "f")
    rows = rows_of(case, op)
    of = status[rows]
    rows = rows[np.logical_or.reduce([of == one for one in ANSWERED])]
    entry = attempts.of_rows(rows)
    rows, entry = rows[entry >= 0], entry[entry >= 0]
    last_ns = np.full(len(attempts), -1)
    np.maximum.at(last_ns, entry, inv[rows])
    done_ns = _released_ns(case)
    calls = list[tuple[int, int]]()
    for key, entries in attempts.by_lock().items():
        entries = entries[last_ns[entries] >= 0]
        asked_ns = last_ns[entries]
        doubtful = succession_of(case, key).overtaken(entries, asked_ns)
        doubtful |= ~attempts.ok[entries] | (done_ns[entries] < asked_ns)
        suspects = entries[doubtful][:MOST]
        for n, attempt in zip(suspects.tolist(), attempts.pick(suspects), strict=True):
            every = (*attempt.renewals, *attempt.releases)
            mine = [row for row in every if kind[row] == op and status[row] in ANSWERED]
            since_ns = min(_over_ns(case, attempt, key), int(done_ns[n]))
            calls += [(attempt.row, row) for row in mine if inv[row] > since_ns]
    return _called(case, "call", dict.fromkeys(calls))


@memoised
def _released_ns(case: Case) -> Ints:
    """When each attempt was first known to be released, INF: never. Memoised."""
    attempts, rows = table(case), rows_of(case, Op.RELEASE)
    rows = rows[column(case, "status")[rows] == Status.OK]
    entry = attempts.of_rows(rows)
    known_ns = np.full(len(attempts), INF)
    np.minimum.at(known_ns, entry[entry >= 0], column(case, "t_ret")[rows[entry >= 0]])
    return known_ns


def _over_ns(case: Case, attempt: Attempt, key: int) -> int:
    """From when on an attempt certainly does not hold: a later grant to another is known, or its
    own was refused; INF: never."""
    if attempt.status is Status.FAIL:
        return attempt.ret_ns
    other = _successor(case, attempt, key)
    return INF if other is None else other.known_ns + slack(case)


def _successor(case: Case, attempt: Attempt, key: int) -> Attempt | None:
    """The grant that `Succession.first` finds, mostly without the columns that it makes: the first
    one with a later request, or a larger token, is another owner's."""
    attempts, entries = table(case), granted(case)[key]
    ways = [("inv", attempt.known_ns + slack(case))]
    if attempt.token > NO_TOKEN and ordered(case, key):
        ways.append(("token", attempt.token))
    # Requests 1 5 3 9 have latest ones 1 5 5 9: the first after 4 is the second.
    at = min(int(np.searchsorted(_latest(case, key, name), more, "right")) for name, more in ways)
    if at == len(entries):
        return None
    (first,) = attempts.pick(entries[at : at + 1])
    return first if conflict(attempt, first) else succession_of(case, key).first(attempt, INF)


def _latest(case: Case, key: int, name: str) -> Ints:
    """The largest value so far of a column, of the grants of a lock by when they were known."""
    memo: dict[tuple[int, str], Ints] = case.memo.setdefault("largest so far", {})
    if (key, name) not in memo:
        attempts, entries = table(case), granted(case)[key]
        values = attempts.inv[entries] if name == "inv" else attempts.token[entries]
        memo[key, name] = np.maximum.accumulate(values)
    return memo[key, name]


def stale_requests(case: Case) -> Places:
    """Requests of an older owner after a newer one had been admitted: those that the resource
    refused for their token, and those that it accepted."""
    attempts = table(case)
    refused = stale_refused(case)
    entry = attempts.of_rows(refused)
    own = zip(attempts.row[entry[entry >= 0]].tolist(), refused[entry >= 0].tolist(), strict=True)
    return _called(case, "request", dict.fromkeys([*own, *_admitted(case)]))


def _admitted(case: Case) -> Iterator[tuple[int, int]]:
    """The acquire and the request of each stale one that was accepted."""
    among = accepted(case)
    keys = np.unique(among.key[among.write & among.overtaken])
    for request, attempt, before in walked(case, keys):
        if request.write and before.newer_than(attempt) is not None:
            yield attempt.row, request.row


def expired_requests(case: Case) -> Places:
    """Writes that reached the resource after their owner's hold had certainly ended."""
    late = [(attempt.row, request.row) for request, attempt, _ in late_writes(case)]
    return _called(case, "request", late)


def lost_holds(case: Case) -> Places:
    """Holders that were notified of a loss, or that could have been and were not."""
    attempts, status, inv = table(case), column(case, "status"), column(case, "t_inv")
    renewals, notices = rows_of(case, Op.RENEW), rows_of(case, Op.LOST)
    rows: Indices = np.concatenate((notices, renewals[status[renewals] == Status.NOT_OWNER]))
    entry = attempts.of_rows(rows)
    kept = (entry >= 0) & attempts.ok[entry]
    told = list(zip(attempts.row[entry[kept]].tolist(), rows[kept].tolist(), strict=True))
    limit_ns = case.promises.notice_within_ns(case.lease_ns)
    silent = [
        (loss.attempt.row, loss.other.row, calm_ns + limit_ns)
        for loss in losses(case)
        if limit_ns > 0 and (calm_ns := calm_from(case, loss, limit_ns)) >= 0
    ]
    every = [(owner, row, int(inv[row])) for owner, row in told] + silent
    return _at(case, "shows", every)


def _called(case: Case, name: str, pairs: Iterable[tuple[int, int]]) -> Places:
    """Places where a row of an attempt was sent; pairs of its acquire and that row."""
    inv = column(case, "t_inv")
    return _at(case, name, [(owner, row, int(inv[row])) for owner, row in pairs])


def _at(case: Case, name: str, places: Sequence[tuple[int, int, int]]) -> Places:
    """Places from (acquire of an owner, row that shows it, time)."""
    columns = np.array(places, np.int64).reshape(-1, 3)
    owner, row, t_ns = columns[:, 0], columns[:, 1], columns[:, 2]
    inv = column(case, "t_inv")
    from_ns = np.minimum(np.minimum(inv[owner], inv[row]), t_ns)
    return Places(t_ns, from_ns, {"owner": owner, name: row})
