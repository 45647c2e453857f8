"""Holds that ended by a death, and how long their locks stay closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import ENDS, Attempt, leased_until
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.holds.leases import shortest
from holdfast.checkers.holds.succession import Succession, succession_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Status

DEATHS = ("", "lost", "closed", "killed")
"""Ends of claims without a release."""


def deaths(case: Case) -> Iterator[tuple[Succession, Attempt]]:
    """Holds that were never released, of which it is known how long they lasted, with their
    successors."""
    attempts, status = table(case), column(case, "status")
    ends = [ENDS.index(why) for why in (*DEATHS, "release")]
    for key, entries in attempts.by_lock().items():
        succession = succession_of(case, key)
        for a in attempts.pick(
            n for n in entries.tolist() if attempts.ok[n] and attempts.why[n] in ends
        ):
            dated = a.lease_row >= 0 or (case.promises.bound == "lease" and a.ttl_ns > 0)
            if dated and all(status[row] == Status.FAIL for row in a.releases):
                yield succession, a


def confirmed(a: Attempt) -> int:
    """The row that its lease or session counts from: of a lease that was not renewed the grant."""
    return a.lease_row if a.lease_row >= 0 else a.row


def opens_ns(case: Case, a: Attempt) -> int:
    """The earliest time at which the lock can have been open to others again."""
    row, promises = case.history.rows[confirmed(a)], case.promises
    over_ns = int(row["t_inv"]) + shortest(int(row["res"]), promises) - promises.slip_ns
    if promises.bound == "lease":
        over_ns = min(over_ns, leased_until(case, a)[0])
    return over_ns + shortest(promises.delay_ns, promises) - promises.slip_ns
