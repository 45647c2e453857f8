"""No hung request: every request to the lock service returns within its timeout.

Claims
    VIOLATED: an acquire, renewal or release returned later than its timeout plus a slack, or not at
    all although its client stayed alive. A return with unknown outcome is a return.
Assumes
    The client process runs: spans in which it was stopped, its clock was moved or it measured that
    it got no CPU time are subtracted, and a client that died is not judged. A request that is late
    only if the time counts in which others on the host got no CPU is UNKNOWN.
Blind to
    Waits without a bound; requests that the end of the run cut off before their timeout.
Cost
    O(n) in the rows, O(log spans) per late one, and O(spans log spans) per client that was late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.starved_hosts import excuse
from holdfast.checkers.facts.wording import name, seconds, span
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.starvation import Cover, starved_spans
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import unbounded
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.harness.client.context import GUARD_NS
from holdfast.harness.core.case import Case, Window, among
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import DELAY, Op, Status
from holdfast.harness.core.verdict import Finding, PlanChange, Proof, PropertyVerdict

PROPERTY = "no-hung-request"
NEEDS = ("contention", "bounded-waits", "faults")
SLACK_NS = GUARD_NS - SECOND
"""Slightly less than the guard by which a client gives up a call, so that such a call is late."""

ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
WITH_WAIT = Op.ACQUIRE, Op.TRY, Op.PROBE
OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="no-hung-request/unbounded-wait/any",
        property="no-hung-request",
        defect="does not end a wait when its time is over",
        sentence="the time of an acquire was over before it was granted",
        twin="reference:deaf-waiter",
        look=partial(
            near_faults,
            # One plan has no waits of both kinds: others ask for those that nothing ends.
            where=Where(unbounded, "no acquire's time was over", extra=True),
        ),
        change=PlanChange(),
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-hung-request."""
    late = list(_late(case))
    findings = [_finding(case, one) for one in late if one.net_ns > SLACK_NS]
    starved = [one for one in late if one.net_ns <= SLACK_NS]
    met = exercise(case, needs=NEEDS)
    counts = {**met.counts, "requests judged": len(rows_of(case, *ASKS))}
    doubts = met.doubts
    if starved:
        counts["late on a starved host"] = len(starved)
        doubts = (*doubts, _excuse(case, starved))
    return conclude(case, PROPERTY, findings, (), replace(met, counts=counts, doubts=doubts))


@dataclass(frozen=True, slots=True)
class Late:
    """A request, its delay, and its delay without the time in which its host was starved."""

    row: int
    late_ns: int
    net_ns: int


def hung(case: Case) -> Iterator[tuple[int, int]]:
    """(row, ns past its timeout) of every hung request, in order."""
    return ((one.row, one.late_ns) for one in _late(case) if one.net_ns > SLACK_NS)


def _late(case: Case) -> Iterator[Late]:
    """Every request that was late although its client could run, in order."""
    every = case.history.rows
    invoked = column(case, "status") == Status.INVOKED
    back = np.where(invoked, case.end_ns, column(case, "t_ret"))
    # Few are late even if they had no bound: the rest is looked up for these alone.
    asked = np.flatnonzero(back - column(case, "t_inv") > SLACK_NS)
    asked = asked[among(every["f"][asked], ASKS)]
    back = back[asked]
    bounds = np.where(among(every["f"][asked], WITH_WAIT), every["aux"][asked], 0)
    late = back - every["t_inv"][asked] - bounds
    covers: dict[str | None, tuple[Cover, Cover]] = {}
    for n in np.flatnonzero((bounds >= 0) & (late > SLACK_NS)):
        row = every[asked[n]]
        if row["status"] == Status.INVOKED and _died(case, row):
            continue
        span_ns = int(row["t_inv"]), int(back[n])
        node = case.nodes.get(int(row["process"]))
        if node not in covers:
            own = _stopped(case, node)
            covers[node] = Cover(own), Cover([*own, *starved_spans(case)])
        own_ns, all_ns = (cover.ns(*span_ns) for cover in covers[node])
        if int(late[n]) - own_ns > SLACK_NS:
            yield Late(int(asked[n]), int(late[n]) - own_ns, int(late[n]) - all_ns)


def _died(case: Case, row: Any) -> bool:
    """Whether the client of a request without a return was killed or recorded its end later."""
    process, sent_ns = int(row["process"]), int(row["t_inv"])
    node = case.nodes.get(process)
    if any(w.traits.kills and node in w.nodes and w.to_ns >= sent_ns for w in case.windows):
        return True
    ends = case.history.rows[case.history.of(Op.CLOSED)]
    mine = (ends["process"] == process) & (ends["attempt"] == 0) & (ends["t_inv"] >= sent_ns)
    return bool(mine.any())


def _excuse(case: Case, late: Sequence[Late]) -> str:
    """Why late requests are no evidence against the service."""
    from_ns = int(case.history.rows["t_inv"][[one.row for one in late]].min())
    return excuse(case, len(late), "late requests", from_ns)


def _stopped(case: Case, node: str | None) -> list[tuple[int, int]]:
    """Spans in which a fault had stopped a client or moved its clock, or it got no CPU time."""
    faults = [(w.from_ns, w.to_ns) for w in case.windows if _stops(w, node)]
    own = [one for one in case.starved if one.kind == DELAY and one.node == node]
    return [*faults, *((one.from_ns, one.to_ns) for one in own)]


def _stops(window: Window, node: str | None) -> bool:
    return window.traits.delays_clients and node in window.nodes


def _finding(case: Case, late: Late) -> Finding:
    index, late_ns = late.row, late.late_ns
    row = case.history.rows[index]
    process, op = int(row["process"]), Op(int(row["f"]))
    lock = case.history.strings[int(row["key"])]
    came = "had no response" if row["status"] == Status.INVOKED else "returned"
    acquire = op in (Op.ACQUIRE, Op.TRY, Op.PROBE)
    at = seconds(case, int(row["t_inv"]))
    bound = f" with a wait of {span(int(row['aux']))} at most" if acquire else ""
    return Finding(
        kind="hung-request",
        sentence=(
            f"{name(case, process)}'s {op.name.lower()} of '{lock}' at {at}{bound} {came}"
            f" {span(late_ns)} after its time was over"
        ),
        witnesses=(index,),
        lock=lock,
        t_ns=int(row["t_inv"]),
        proof=_proof(case, late, int(row["aux"]) if acquire else 0),
    )


def _proof(case: Case, late: Late, bound_ns: int) -> Proof:
    """`starved`: the part of its delay that is not attributable to the service."""
    row = case.history.rows[late.row]
    unanswered = row["status"] == Status.INVOKED
    back_ns = case.end_ns if unanswered else int(row["t_ret"])
    took_ns = back_ns - int(row["t_inv"]) - bound_ns
    values = {"bound_ns": bound_ns, "starved": took_ns - late.net_ns, "over": case.end_ns}
    rule = f"hung-request/{'unanswered' if unanswered else 'answered'}"
    return Proof(rule=rule, roles={"row": late.row}, values=values)
