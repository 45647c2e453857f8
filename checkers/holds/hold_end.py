"""When a hold had certainly ended, and which row proves it.

A client's claim ends earlier, its lease perhaps too; here only certain evidence counts, because
findings that an owner acted too late are based on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import stands_for
from holdfast.checkers.holds.derive import INF, Attempt, conflict
from holdfast.checkers.holds.history_index import UNKNOWN, Ints, column, rows_of
from holdfast.checkers.holds.leases import longest
from holdfast.checkers.holds.starvation import overdue_ns
from holdfast.checkers.holds.statements import ENDING
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldEnd:
    """A hold was over by t_ns. row: what proves it; why: text that follows "its hold".

    more: further rows from which t_ns was computed; for a lease the renewals that extended it.
    """

    t_ns: int
    row: int
    why: str
    more: tuple[int, ...] = ()


def certain_end(case: Case, a: Attempt) -> HoldEnd | None:
    """The earliest certain end of the hold of an attempt, None if there is none; memoised.

    An end that is followed by an ok renewal of the same attempt proves nothing and is left out.
    Where a renewal may take effect after the end of its lease, one of unknown outcome may have
    brought the hold back at any time: such an attempt has no certain end.
    """
    known: dict[int, HoldEnd | None] = case.memo.setdefault("ended", {})
    if a.id not in known and _may_be_revived(case, a):
        known[a.id] = None
    elif a.id not in known:
        revived_ns = _last_ok_renewal(case, a)
        ends = [end for end in _ends(case, a) if end.t_ns >= revived_ns]
        known[a.id] = min(ends, key=lambda end: end.t_ns, default=None)
    return known[a.id]


@memoised
def may_have_ended(case: Case) -> Ints:
    """Of each entry of the table a lower bound of `certain_end`; INF: it has no certain end."""
    attempts = table(case)
    soonest = np.where(attempts.over < 0, attempts.end, np.minimum(attempts.end, attempts.over))
    releases = rows_of(case, Op.RELEASE)
    entry = attempts.of_rows(releases)
    np.minimum.at(soonest, entry[entry >= 0], column(case, "t_ret")[releases[entry >= 0]])
    for entries in attempts.by_lock().values():
        # The earliest grant among those called after an attempt's return: it had no hold by
        # then. Calls 1 3 8, grants returned at 5 - 12: first 5 12 12 -; after 5 comes place 2,
        # so 12.
        back = np.where(attempts.ok[entries], attempts.ret[entries], INF)
        first = np.append(np.minimum.accumulate(back[::-1])[::-1], INF)
        later = np.searchsorted(attempts.inv[entries], attempts.ret[entries] + case.error_ns)
        soonest[entries] = np.minimum(soonest[entries], first[later])
    refused = ~attempts.ok & ~attempts.unknown
    soonest[refused] = -1
    return soonest


def _ends(case: Case, a: Attempt) -> Iterator[HoldEnd]:
    """All possible proofs of the end of a hold, unordered."""
    rows = case.history.rows
    for row in (*a.releases, *a.renewals):
        status, t_ns = int(rows["status"][row]), int(rows["t_ret"][row])
        if status == Status.NOT_OWNER:
            yield HoldEnd(t_ns=t_ns, row=row, why="had ended, as the service reported")
        elif status == Status.OK and row in a.releases:
            yield HoldEnd(t_ns=t_ns, row=row, why="had been released")
    if a.end_why == "lost":
        # The latest moment at which the client can have learned it: t_inv of a notice is widened
        # backwards by the clock error, t_ret forwards.
        t_ns = max(a.end_ns, int(rows["t_ret"][a.end_row]))
        yield HoldEnd(t_ns=t_ns, row=a.end_row, why="was lost, as the client had been notified")
    for row in _unlocked(case).get(a.key, ()):
        if _surely_ended(case, a, row):
            t_ns = int(rows["t_ret"][row])
            yield HoldEnd(t_ns=t_ns, row=row, why="had been ended by an operator")
    if a.possible is not None and a.possible[1] < INF and lease_ran_by_itself(case, a):
        # A service may notice late that a lease is over: `no-false-rejection` allows the same time.
        t_ns = overdue_ns(case, a.possible[1])
        tolerance_s = (t_ns - a.possible[1]) / SECOND
        why = f"had expired with its lease, with {tolerance_s:.3f} s of tolerance,"
        yield HoldEnd(t_ns=t_ns, row=a.row, why=why, more=_lengthening(case, a))
    successor = _successor(case, a)
    if successor is not None:
        yield HoldEnd(
            t_ns=successor.ret_ns, row=successor.row, why="had passed on to the next owner"
        )


def _may_be_revived(case: Case, a: Attempt) -> bool:
    rows = case.history.rows
    return not case.promises.renew_proves and any(
        rows["status"][row] in UNKNOWN for row in a.renewals
    )


@memoised
def _unlocked(case: Case) -> dict[int, list[int]]:
    """Per lock the force-unlocks that returned ok, the earliest first; memoised."""
    unlocks: dict[int, list[int]] = {}
    done = rows_of(case, Op.FORCE_UNLOCK)
    done = done[column(case, "status")[done] == Status.OK]
    done = done[np.argsort(column(case, "t_ret")[done], kind="stable")]
    for row in done.tolist():
        unlocks.setdefault(int(column(case, "key")[row]), []).append(row)
    return unlocks


def _surely_ended(case: Case, a: Attempt, row: int) -> bool:
    """Whether a force-unlock certainly ended this hold.

    An unlock of one token ends the only hold with that token, unless it returned before that was
    asked for: then the token was granted twice. An unlock of any holder frees an exclusive lock,
    so a hold that was granted before the unlock was sent is over when the unlock returns; one that
    was granted during the call may have come after it.
    """
    if a.status is not Status.OK:
        return False
    token = int(column(case, "token")[row])
    if token != NO_TOKEN:
        asked_before = int(column(case, "t_ret")[row]) >= a.inv_ns
        if token != a.token or not asked_before:
            return False
        return table(case).only_holder(a, int(column(case, "t_ret")[row]) + 2 * case.error_ns)
    granted_before = int(column(case, "t_inv")[row]) > a.ret_ns + case.error_ns
    return a.mode == Mode.EXCLUSIVE and granted_before


def _last_ok_renewal(case: Case, a: Attempt) -> int:
    rows = case.history.rows
    return max(
        (int(rows["t_ret"][row]) for row in a.renewals if rows["status"][row] == Status.OK),
        default=0,
    )


def _lengthening(case: Case, a: Attempt) -> tuple[int, ...]:
    """The renewals that determine the latest end of the lease: the ok one that reaches farthest, if
    it reaches farther than the grant, and every one of unknown outcome."""
    rows, promises = case.history.rows, case.promises
    ok = [row for row in a.renewals if rows["status"][row] == Status.OK]
    reached = {
        row: int(rows["t_ret"][row]) + longest(int(rows["res"][row]), promises) for row in ok
    }
    farthest = max(reached, key=reached.__getitem__, default=-1)
    unknown = [row for row in a.renewals if rows["status"][row] in UNKNOWN]
    if farthest < 0 or reached[farthest] <= a.ret_ns + longest(a.ttl_ns, promises):
        return tuple(unknown)
    return (farthest, *unknown)


def lease_ran_by_itself(case: Case, a: Attempt) -> bool:
    """Whether no fault affected the servers during the lease: a new leader may restart it."""
    if a.possible is None or not stands_for(case, a.key, ENDING):
        return False
    begun_ns, over_ns = a.possible
    clients = set(case.nodes.values()) | {"resource"}
    return not any(
        window.from_ns <= over_ns
        and window.to_ns + case.promises.recovery_ns >= begun_ns
        and not clients.issuperset(window.nodes)
        for window in case.windows
    )


def _successor(case: Case, a: Attempt) -> Attempt | None:
    """The first conflicting grant requested after a's, if a's hold need not have overlapped it."""
    if a.status is not Status.OK:
        return None
    attempts = table(case)
    group = attempts.beside(a.key)
    first: Attempt | None = None
    at = int(np.searchsorted(attempts.inv[group], a.ret_ns + case.error_ns))
    for entry in group[at:]:
        if first is not None and attempts.inv[entry] >= first.ret_ns:
            break
        if attempts.ok[entry] and (first is None or attempts.ret[entry] < first.ret_ns):
            (b,) = attempts.pick([entry])
            first = b if conflict(a, b) else first
    if first is None:
        return None
    own_ns = max(span[1] for span in (a.contract, a.proved, (0, 0)) if span is not None)
    return first if own_ns < first.ret_ns else None
