"""Text of findings: names of clients, times since the start, rows that prove a grant."""

from __future__ import annotations

from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.statements import believed
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Status


def seconds(case: Case, t_ns: int) -> str:
    """A time of the run: "3.214 s" after its start."""
    return f"{(t_ns - case.start_ns) / SECOND:.3f} s"


def span(ns: int) -> str:
    """A duration: "0.900 s", or "0.000150 s" below a millisecond."""
    return f"{ns / SECOND:.6f} s" if 0 < ns < MILLISECOND else f"{ns / SECOND:.3f} s"


def name(case: Case, process: int) -> str:
    """The node that a client runs on, or its number if the node is unknown."""
    return case.nodes.get(process, f"client {process}")


def who(case: Case, attempt: Attempt) -> str:
    """The owner of an attempt, with its token if it has one: "c2 (token 8)"."""
    owner = name(case, attempt.process)
    return owner if attempt.token < 0 else f"{owner} (token {attempt.token})"


def lock_name(case: Case, attempt: Attempt) -> str:
    """The lock that an attempt is for."""
    return case.history.strings[attempt.key]


def known_row(case: Case, attempt: Attempt) -> int:
    """The row whose return proved that an attempt holds: the grant, or, if its outcome is unknown,
    the first renewal or release that proves it; -1: none."""
    if attempt.status is Status.OK:
        return attempt.row
    rows = case.history.rows
    renewals = attempt.renewals if believed(case, attempt.key).renew_proves else ()
    for row in sorted((*renewals, *attempt.releases)):
        one = rows[row]
        proves = one["status"] == Status.OK and one["t_inv"] <= attempt.kept_ns
        if proves and one["t_ret"] == attempt.known_ns:
            return row
    return -1


def drawn(case: Case, attempt: Attempt, to_ns: int) -> tuple[int, int, str, int]:
    """A hold to draw: from the time the grant was known until to_ns, within the run."""
    from_ns = min(attempt.known_ns, case.end_ns)
    return from_ns, max(from_ns, min(to_ns, case.end_ns)), who(case, attempt), attempt.row
