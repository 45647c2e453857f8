"""A release that freed another client's hold: why a lock was granted while it was held.

A release that deletes the lock regardless of its holder fails in two steps: a client whose lease
expired releases late, which frees the hold of its successor, and the next grant overlaps that hold.
So the overlap is the effect, and the release is the cause.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable

from holdfast.checkers.facts.wording import name, seconds, span
from holdfast.checkers.holds.derive import Attempt, by_id, conflict
from holdfast.checkers.holds.held_at_once import Overlap
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.overlaps import slack
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Op, Status

FOREIGN, LATE = "foreign-release", "late-release"
"""Causes: it freed a hold that was not its own; it may have, because its lease may have expired."""
MOST_LOOKED_AT = 64
"""limit on the releases between two grants, latest first, that are searched for the cause"""

Cause = tuple[str, str, tuple[int, ...]]
"""FOREIGN or LATE; the cause, as the beginning of a sentence; the rows that show it."""


def causes(case: Case, overlaps: Iterable[Overlap]) -> dict[int, Cause]:
    """The release that caused each overlap, by the attempt granted; none without evidence of one.

    Such a grant makes two owners. Each frees the other's hold by its own release and so enables the
    next grant: the chain continues with releases inside their lease.
    """
    found, let_in = dict[int, Cause](), set[int]()
    for overlap in sorted(overlaps, key=lambda one: one.newer.known_ns):
        release = _freeing(case, overlap.older, overlap.newer, let_in)
        if release >= 0:
            cause: Cause | None = _freed(case, overlap.older, release)
            let_in.add(overlap.newer.id)
        else:
            cause = _only_its_release(case, overlap)
        if cause is not None:
            found[overlap.newer.id] = cause
    return found


def _freeing(case: Case, older: Attempt, newer: Attempt, let_in: Collection[int]) -> int:
    """The last release that returned ok, sent while `older` held, by neither of the two; -1: none.

    It was sent after the older grant was known and before the newer one was, when its own lease may
    have been over, or it or the older attempt had been granted by such a release.
    """
    rows = _ok_releases(case).get(older.key, [])
    sent, known = column(case, "t_inv"), by_id(case)
    at = bisect_left(rows, newer.known_ns, key=sent.__getitem__)
    for row in reversed(rows[max(0, at - MOST_LOOKED_AT) : at]):
        if sent[row] <= older.known_ns + slack(case):
            break
        a = known.get(int(case.history.rows["attempt"][row]))
        if a is None or a.id == newer.id or not conflict(a, older):
            continue
        if _may_be_over(case, a, older) or a.id in let_in or older.id in let_in:
            return row
    return -1


def _may_be_over(case: Case, a: Attempt, other: Attempt) -> bool:
    """Whether the lease or session of a hold may have expired before another grant.

    If it cannot have, the other grant was the error and the release was legitimate.
    """
    late = other.known_ns + slack(case)
    sent, statuses = column(case, "t_inv"), column(case, "status")
    renewed = any(statuses[r] == Status.OK and sent[r] > late for r in a.renewals)
    return 0 <= a.bound_ns <= late and not renewed


@memoised
def _ok_releases(case: Case) -> dict[int, list[int]]:
    """Per lock the releases that returned ok, in the order in which they were sent."""
    rows = rows_of(case, Op.RELEASE)
    rows = rows[column(case, "status")[rows] == Status.OK]
    rows = rows[column(case, "t_inv")[rows].argsort(kind="stable")]
    by_lock: dict[int, list[int]] = {}
    for row, key in zip(rows.tolist(), column(case, "key")[rows].tolist(), strict=True):
        by_lock.setdefault(key, []).append(row)
    return by_lock


def _freed(case: Case, older: Attempt, release: int) -> Cause:
    row = case.history.rows[release]
    lock, by = case.history.strings[int(row["key"])], name(case, int(row["process"]))
    own = by_id(case)[int(row["attempt"])]
    text = (
        f"{by}'s release of '{lock}', sent at {seconds(case, int(row['t_inv']))}, returned ok"
        f" and freed a hold that was not its own: {name(case, older.process)} had been granted the"
        f" lock by {seconds(case, older.known_ns)}. So "
    )
    return FOREIGN, text, (own.row, release)


def _only_its_release(case: Case, overlap: Overlap) -> Cause | None:
    """The cause LATE: only its release's ok proves the older hold beyond the end of its lease."""
    older, newer = overlap.older, overlap.newer
    row = case.history.rows[older.proof_row] if older.proof_row >= 0 else None
    if not overlap.proved or row is None or row["f"] != Op.RELEASE:
        return None
    if not _may_be_over(case, older, newer):
        return None
    begun_ns, ttl_ns = older.inv_ns, older.ttl_ns
    if older.lease_row >= 0:
        lease = case.history.rows[older.lease_row]
        begun_ns, ttl_ns = int(lease["t_inv"]), int(lease["res"])
    owner, since = name(case, older.process), "renewed" if older.lease_row >= 0 else "requested"
    text = (
        f"{owner}'s release of '{case.history.strings[older.key]}', sent at"
        f" {seconds(case, int(row['t_inv']))}, returned ok and may have freed a hold that was"
        f" not its own: {owner}'s lease of {span(ttl_ns)}, {since} at {seconds(case, begun_ns)},"
        " may have expired before the next grant. If not, "
    )
    return LATE, text, tuple(r for r in (older.row, older.lease_row, older.proof_row) if r >= 0)
