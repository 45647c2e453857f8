"""Checks the reason of a loss notification against all that can have ended the hold.

Only if the service promises that its reasons are true, and only if the rows of the run rule out the
reported one; of several possible ends any may be reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import lock_name, name, seconds
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import UNKNOWN, column, rows_of
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.statements import believed
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.verdict import Finding, Proof

EXPIRED, REVOKED, RELEASED = "expired", "revoked", "released"
OF_SESSIONS = ("session", "closed")
KNOWN = (EXPIRED, REVOKED, RELEASED, *OF_SESSIONS)
"""Reasons that can be judged; any other word, "unknown" included, is not judged."""
Wrong = tuple[str, tuple[int, ...], Proof]
"""What rules a reason out, the rows that prove it, and the rule."""


def told(case: Case) -> list[tuple[int, str, Attempt]]:
    """Row, reason and attempt of every notice that can be judged."""
    strings, every = case.history.strings, table(case)
    if not case.promises.reasons or not len(rows_of(case, Op.LOST)) or not len(every):
        return []
    judged = np.array([reason in KNOWN for reason in strings], bool)
    notices = rows_of(case, Op.LOST)
    notices = notices[judged[column(case, "res")[notices]]]
    entries = every.of_rows(notices)
    kept = (entries >= 0) & (every.token[entries] != NO_TOKEN)
    noticed = zip(notices[kept].tolist(), every.pick(entries[kept]), strict=True)
    reasons = column(case, "res")
    return [(row, strings[int(reasons[row])], attempt) for row, attempt in noticed]


def wrong_reasons(case: Case) -> Iterator[Finding]:
    """One finding per notice whose reason cannot have been what ended the hold."""
    for row, reason, a in told(case):
        t_ns = int(case.history.rows["t_inv"][row])
        wrong = _ruled_out(case, a, reason, row, t_ns)
        if wrong is not None:
            why, shown, proof = wrong
            roles = {"notice": row, **witnesses.known(case, a=a), **proof.roles}
            yield Finding(
                kind="wrong-reason",
                sentence=(
                    f"{name(case, a.process)} was notified at {seconds(case, t_ns)} that its hold"
                    f" of '{lock_name(case, a)}' (token {a.token}) had ended as {reason!r};"
                    f" but {why}"
                ),
                witnesses=(a.row, *shown, row),
                lock=lock_name(case, a),
                t_ns=t_ns,
                proof=replace(proof, roles=roles),
            )


def _ruled_out(case: Case, a: Attempt, reason: str, row: int, t_ns: int) -> Wrong | None:
    by_ns, rows = t_ns + slack(case), case.history.rows
    if reason == REVOKED:
        if any(_may_have_revoked(case, a, f, by_ns) for f in _forced(case, a)):
            return None
        proof = Proof(rule="wrong-reason/revoked", roles={}, values={"unlocks": 0})
        return "no operator had requested the end of that hold", (), proof
    revoked = next((f for f in _forced(case, a) if _revoked(case, a, f, t_ns)), -1)
    if revoked >= 0:
        proof = Proof(rule="wrong-reason/unlocked", roles={"unlock": revoked})
        return "an operator had ended it", (revoked,), proof
    if reason == RELEASED:
        if any(int(rows["t_inv"][release]) <= by_ns for release in a.releases):
            return None
        proof = Proof(rule="wrong-reason/released", roles={}, values={"releases": 0})
        return "it had requested no release", (), proof
    if (reason in OF_SESSIONS) != (case.promises.bound == "session"):
        proof = Proof(rule="wrong-reason/kind", roles={})
        return f"the service ends holds by their {case.promises.bound}", (), proof
    # A claim that ends by this notice, and not by its lease, ends within the lease.
    early = a.end_row == row and a.bound_ns == a.end_ns and not slack(case)
    if reason == EXPIRED and early:
        from_ns = int(rows["t_inv"][a.lease_row]) if a.lease_row >= 0 else a.inv_ns
        why = f"its lease, begun at {seconds(case, from_ns)} or later, had not expired"
        proof = Proof(rule="wrong-reason/early", roles={}, values={"leased": a.bound_ns})
        return why, (a.lease_row,) if a.lease_row >= 0 else (), proof
    return None


def _forced(case: Case, a: Attempt) -> list[int]:
    rows = case.history.rows
    return [f for f in rows_of(case, Op.FORCE_UNLOCK).tolist() if int(rows["key"][f]) == a.key]


def _may_have_revoked(case: Case, a: Attempt, forced: int, by_ns: int) -> bool:
    """An unlock of any holder may be sent again, and return the later of two that it ended."""
    one = case.history.rows[forced]
    aimed = one["token"] == NO_TOKEN or int(one["token"]) >= a.token
    return bool(aimed and one["status"] != Status.FAIL and int(one["t_inv"]) <= by_ns)


def _revoked(case: Case, a: Attempt, forced: int, t_ns: int) -> bool:
    """Whether an operator certainly ended this hold: no other attempt may have its token, and no
    renewal that takes a free lock may have taken it again."""
    one = case.history.rows[forced]
    ended = one["status"] == Status.OK and int(one["token"]) == a.token
    if not ended or int(one["t_inv"]) + slack(case) > t_ns:
        return False
    lone = table(case).only_holder(a, int(one["t_ret"]) + slack(case))
    return lone and not _taken_again(case, a, int(one["t_inv"]), t_ns)


def _taken_again(case: Case, a: Attempt, from_ns: int, to_ns: int) -> bool:
    """Whether a renewal may have taken a lock that was freed between two times. One that proves an
    unbroken hold takes none."""
    if believed(case, a.key).renew_proves:
        return False
    status, inv, ret = (column(case, each) for each in ("status", "t_inv", "t_ret"))
    return any(
        status[row] in UNKNOWN or (status[row] == Status.OK and ret[row] + slack(case) >= from_ns)
        for row in a.renewals
        if inv[row] <= to_ns + slack(case)
    )
