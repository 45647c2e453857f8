"""Livelock: clients keep trying a lock that no client could hold, and it is not granted."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.stalls import Stall, answered_span, stalls
from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.holds.derive import Attempt, Span
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding

LEAST = 10
"""Minimum number of rejected tries of one lock in a retry storm."""


def livelocks(case: Case) -> Iterator[Finding]:
    """Every stall in which several clients kept trying, no less often towards its end."""
    for stall in stalls(case, _tried, dead_let_go=False):
        if storms(stall):
            yield _finding(case, stall)


def storms(stall: Stall) -> bool:
    """Whether two or more tried at least LEAST times, at least half of them in the second half."""
    several = len({a.process for a in stall.asked}) > 1
    return several and len(stall.asked) >= LEAST and 2 * _later(stall) >= len(stall.asked)


def _later(stall: Stall) -> int:
    middle_ns = (stall.from_ns + stall.to_ns) // 2
    return sum(a.inv_ns >= middle_ns for a in stall.asked)


def _tried(case: Case, a: Attempt) -> Span | None:
    if a.op != Op.TRY or a.status is Status.OK:
        return None
    return answered_span(case, a)


def _finding(case: Case, stall: Stall) -> Finding:
    lock = case.history.strings[stall.key]
    clients = sorted({a.process for a in stall.asked})
    names = ", ".join(name(case, process) for process in clients[:4])
    more = f" and {len(clients) - 4} more" if len(clients) > 4 else ""
    return Finding(
        kind="livelock",
        sentence=(
            f"'{lock}' was tried {len(stall.asked)} times from {seconds(case, stall.from_ns)} to"
            f" {seconds(case, stall.to_ns)} by {names}{more}, no less often towards the end; no"
            " client could hold it, and no client was granted it"
        ),
        witnesses=tuple(a.row for a in (*stall.asked[:2], *stall.asked[-2:])),
        lock=lock,
        t_ns=stall.from_ns,
        proof=witnesses.stalled(
            "livelock",
            stall,
            tries=len(stall.asked),
            clients=len(clients),
            later=_later(stall),
        ),
    )
