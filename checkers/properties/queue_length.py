"""Checks reported queue lengths against the waiters that are possible and those that are certain.

At most those wait that have an acquire that may wait in flight at some instant of the query. At
least those wait that were known to wait before it, and whose place in the queue was returned to a
query sent after it: an attempt that has left a queue does not return to it.

    c1 queued   c2 queued   length query: call ... return   c1: "place 0"   c2: "place 1"
    both waited throughout the query, so that 0 and 1 are false
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.history_index import UNKNOWN, column, places_lost, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.properties.lock_timeline import Counted
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof

MOST_SHOWN = 64
"""A length >= this is not compared with the certain waiters: a finding would name more of them."""
ASKS = (Op.ACQUIRE, Op.PROBE)
"""A try never waits."""


class _Queue:
    """The acquires of one lock, and the rows that prove that they waited.

    A wait is known from t_ret of its first such row until t_inv of its last query of its place.
    """

    def __init__(self, case: Case, asks: list[int], waits: list[tuple[int, int]]) -> None:
        inv, ret, status = (column(case, name) for name in ("t_inv", "t_ret", "status"))
        asks.sort(key=inv.__getitem__)
        self._inv = [int(inv[row]) for row in asks]
        self._over = Counted([INF if status[row] in UNKNOWN else int(ret[row]) for row in asks])
        self._waits = sorted(waits, key=lambda pair: int(ret[pair[0]]))
        self._from = [int(ret[first]) for first, _ in self._waits]
        self._until = sorted(int(inv[last]) for _, last in waits)
        self._inv_of = inv

    def at_most(self, from_ns: int, to_ns: int) -> int:
        """The largest number that can have waited at some instant of a span."""
        return self._over.at_least(bisect_right(self._inv, to_ns), from_ns)

    def at_least(self, from_ns: int, to_ns: int) -> int:
        """A lower bound of the number that certainly waited during all of it: waits that began and
        ended within the span are subtracted once too often. O(log n)."""
        return bisect_left(self._from, from_ns) - bisect_right(self._until, to_ns)

    def over_all_of(self, from_ns: int, to_ns: int, most: int) -> list[tuple[int, int]]:
        """The rows of up to `most` of these waits, the latest to begin first."""
        waits: list[tuple[int, int]] = []
        for first, last in reversed(self._waits[: bisect_left(self._from, from_ns)]):
            if self._inv_of[last] > to_ns:
                waits.append((first, last))
            if len(waits) == most:
                break
        return waits


def false_lengths(case: Case) -> Iterator[Finding]:
    """A finding per reported length that cannot be right. O(log^2 n) each."""
    asked = rows_of(case, Op.LENGTH)
    asked = asked[column(case, "status")[asked] == Status.OK]
    if not len(asked):
        return
    queues, slack_ns, keys = _queues(case), slack(case), column(case, "key")
    inv, ret, res = (column(case, name) for name in ("t_inv", "t_ret", "res"))
    for row in asked.tolist():
        if int(keys[row]) in paths(case):
            continue
        queue = queues.get(int(keys[row])) or _Queue(case, [], [])
        from_ns, to_ns, length = int(inv[row]), int(ret[row]), int(res[row])
        most = queue.at_most(from_ns - slack_ns, to_ns + slack_ns)
        if length > most:
            yield _too_many(case, row, length, most)
        elif length < MOST_SHOWN and length < queue.at_least(from_ns - slack_ns, to_ns + slack_ns):
            waits = queue.over_all_of(from_ns - slack_ns, to_ns + slack_ns, length + 1)
            yield _too_few(case, row, length, waits)


def _queues(case: Case) -> dict[int, _Queue]:
    keys, attempts, waits = column(case, "key"), column(case, "attempt"), column(case, "aux")
    asks: dict[int, list[int]] = {}
    for row in rows_of(case, *ASKS).tolist():
        if waits[row]:
            asks.setdefault(int(keys[row]), []).append(row)
    known: dict[int, dict[int, tuple[int, int]]] = {}
    for row in _waiting_rows(case):
        mine, attempt = known.setdefault(int(keys[row]), {}), int(attempts[row])
        place = column(case, "f")[row] == Op.PLACE
        first, last = mine.get(attempt, (row, -1))
        mine[attempt] = first, row if place else last
    return {
        key: _Queue(case, rows, [pair for pair in known.get(key, {}).values() if pair[1] >= 0])
        for key, rows in asks.items()
    }


def _waiting_rows(case: Case) -> list[int]:
    """Rows that prove that an attempt waits, in the order of their returns."""
    rows, lost = rows_of(case, Op.WAITING, Op.PLACE), places_lost(case)
    kind, status, res = (column(case, name)[rows] for name in ("f", "status", "res"))
    rows = rows[(status == Status.OK) & ((kind == Op.WAITING) | (res >= 0))]
    rows = rows[column(case, "attempt")[rows] != 0]
    rows = rows[column(case, "t_ret")[rows].argsort(kind="stable")]
    return [row for row in rows.tolist() if row not in lost]


def _too_many(case: Case, row: int, told: int, most: int) -> Finding:
    why = f"at most {most} can have waited"
    proof = Proof(rule="false-length/more", roles={"asked": row}, values={"most": most})
    return _finding(case, row, told, why, (row,), proof)


def _too_few(case: Case, row: int, told: int, waits: list[tuple[int, int]]) -> Finding:
    why = f"{len(waits)} waited throughout, as responses before and after it show"
    roles = {"asked": row}
    for n, (first, last) in enumerate(waits, 1):
        roles |= {f"before{n}": first, f"after{n}": last}
    shown = [each for pair in waits[:2] for each in pair]
    return _finding(
        case, row, told, why, (*shown, row), Proof(rule="false-length/fewer", roles=roles)
    )


def _finding(
    case: Case, row: int, told: int, why: str, witnesses: tuple[int, ...], proof: Proof
) -> Finding:
    one = case.history.rows[row]
    lock, asked_ns = case.history.strings[int(one["key"])], int(one["t_inv"])
    return Finding(
        kind="false-length",
        sentence=(
            f"{name(case, int(one['process']))}'s query of '{lock}', sent at"
            f" {seconds(case, asked_ns)}, returned by"
            f" {seconds(case, int(one['t_ret']))} that {told} wait; but {why}"
        ),
        witnesses=witnesses,
        lock=lock,
        t_ns=asked_ns,
        proof=proof,
    )
