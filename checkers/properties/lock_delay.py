"""Lock-delay: a lock whose holder died is not granted for the promised time.

Claims
    An early grant: the holder's session or lease ended without a release, and a conflicting grant
    that certainly came later was known before the delay can have been over.
Assumes
    What mutual exclusion assumes of the service's clock: the hold lasted at least as long as its
    last acknowledged heartbeat or renewal shows, or the grant of a lease.
Blind to
    Sessions without an acknowledged heartbeat, and locks that an operator freed.
Cost
    n log n in the attempts that died, times the grants that overlap the delay.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, span, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import ENDS, Attempt, leased_until
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.leases import shortest
from holdfast.checkers.holds.succession import Succession, succession_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof

DEATHS = ("", "lost", "closed", "killed")
"""Ends of claims without a release."""


def early_grants(case: Case) -> Iterator[Finding]:
    """At most one finding per grant that was early."""
    reported = set[int]()
    if not case.promises.delay_ns or len(rows_of(case, Op.FORCE_UNLOCK)):
        return
    for succession, a in _deaths(case):
        open_ns = _open_ns(case, a)
        for b in succession.successors(a, open_ns):
            if b.id not in reported:
                reported.add(b.id)
                yield _finding(case, a, b, open_ns)


def delayed(case: Case) -> tuple[dict[str, int], str]:
    """Counts of deaths that closed a lock, and of those with a later grant of it; and a text if
    there was none, because then no delay was exercised. Empty without such a promise.
    """
    if not case.promises.delay_ns:
        return {}, ""
    closed = opened = 0
    for succession, a in _deaths(case):
        closed += 1
        opened += next(succession.successors(a, case.end_ns + 1), None) is not None
    counts = {"holders that died": closed, "locks opened after a lock-delay": opened}
    if len(rows_of(case, Op.FORCE_UNLOCK)):
        return counts, "the lock-delay was not judged: an operator freed locks"
    died = "1 death" if closed == 1 else f"{closed} deaths"
    untested = f"the lock-delay was not exercised: 0 locks opened after {died}"
    return counts, "" if opened else untested


def _deaths(case: Case) -> Iterator[tuple[Succession, Attempt]]:
    """Holds that were never released, of which it is known how long they lasted, with their
    successors."""
    attempts, status = table(case), column(case, "status")
    deaths = [ENDS.index(why) for why in (*DEATHS, "release")]
    for key, entries in attempts.by_lock().items():
        succession = succession_of(case, key)
        for a in attempts.pick(
            n for n in entries.tolist() if attempts.ok[n] and attempts.why[n] in deaths
        ):
            dated = a.lease_row >= 0 or (case.promises.bound == "lease" and a.ttl_ns > 0)
            if dated and all(status[row] == Status.FAIL for row in a.releases):
                yield succession, a


def _confirmed(a: Attempt) -> int:
    """The row that its lease or session counts from: of a lease that was not renewed the grant."""
    return a.lease_row if a.lease_row >= 0 else a.row


def _open_ns(case: Case, a: Attempt) -> int:
    """The earliest time at which the lock can have been open to others again."""
    row, promises = case.history.rows[_confirmed(a)], case.promises
    over_ns = int(row["t_inv"]) + shortest(int(row["res"]), promises) - promises.slip_ns
    if promises.bound == "lease":
        over_ns = min(over_ns, leased_until(case, a)[0])
    return over_ns + shortest(promises.delay_ns, promises) - promises.slip_ns


def _finding(case: Case, a: Attempt, b: Attempt, open_ns: int) -> Finding:
    row = case.history.rows[_confirmed(a)]
    return Finding(
        kind="early-grant",
        sentence=(
            f"{name(case, b.process)} was granted '{lock_name(case, b)}' (token {b.token}) by"
            f" {seconds(case, b.known_ns)}; {who(case, a)} had held it, never released it, and was"
            f" last confirmed at {seconds(case, int(row['t_inv']))} for {span(int(row['res']))},"
            f" after which it was to be closed for {span(case.promises.delay_ns)}"
        ),
        witnesses=tuple(dict.fromkeys((a.row, _confirmed(a), b.row, known_row(case, b)))),
        lock=lock_name(case, b),
        t_ns=b.known_ns,
        spans=(drawn(case, a, open_ns), drawn(case, b, b.known_ns)),
        proof=Proof(
            rule=f"early-grant/{witnesses.how(case, a, b)}",
            roles={**witnesses.known(case, a=a, b=b), "lease": _confirmed(a)},
            values={"open": open_ns},
        ),
    )
