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
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import rows_of
from holdfast.checkers.opportunities.places.lock_delays import confirmed, deaths, opens_ns
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Finding, Proof


def early_grants(case: Case) -> Iterator[Finding]:
    """At most one finding per grant that was early."""
    reported = set[int]()
    if not case.promises.delay_ns or len(rows_of(case, Op.FORCE_UNLOCK)):
        return
    for succession, a in deaths(case):
        open_ns = opens_ns(case, a)
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
    for succession, a in deaths(case):
        closed += 1
        opened += next(succession.successors(a, case.end_ns + 1), None) is not None
    counts = {"holders that died": closed, "locks opened after a lock-delay": opened}
    if len(rows_of(case, Op.FORCE_UNLOCK)):
        return counts, "the lock-delay was not judged: an operator freed locks"
    died = "1 death" if closed == 1 else f"{closed} deaths"
    untested = f"the lock-delay was not exercised: 0 locks opened after {died}"
    return counts, "" if opened else untested


def _finding(case: Case, a: Attempt, b: Attempt, open_ns: int) -> Finding:
    row = case.history.rows[confirmed(a)]
    return Finding(
        kind="early-grant",
        sentence=(
            f"{name(case, b.process)} was granted '{lock_name(case, b)}' (token {b.token}) by"
            f" {seconds(case, b.known_ns)}; {who(case, a)} had held it, never released it, and was"
            f" last confirmed at {seconds(case, int(row['t_inv']))} for {span(int(row['res']))},"
            f" after which it was to be closed for {span(case.promises.delay_ns)}"
        ),
        witnesses=tuple(dict.fromkeys((a.row, confirmed(a), b.row, known_row(case, b)))),
        lock=lock_name(case, b),
        t_ns=b.known_ns,
        spans=(drawn(case, a, open_ns), drawn(case, b, b.known_ns)),
        proof=Proof(
            rule=f"early-grant/{witnesses.how(case, a, b)}",
            roles={**witnesses.known(case, a=a, b=b), "lease": confirmed(a)},
            values={"open": open_ns},
        ),
    )
