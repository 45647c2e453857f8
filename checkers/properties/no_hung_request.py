"""No hung request: every request to the lock service comes back within its timeout.

Claims
    VIOLATED: an acquire, renewal or release was answered later than its timeout and a slack, or
    not at all although its client lived on. An answer "unknown" is an answer.
Assumes
    The client process runs: spans in which it was stopped or its clock was moved are taken off,
    and a client that died owes nothing.
Blind to
    Waits without a bound; requests that the end of the run cut off before their time was over.
Cost
    O(n) in the rows, and O(faults) for each late one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts.wording import name, seconds, span
from holdfast.harness.client.context import GUARD_NS
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, PropertyVerdict

PROPERTY = "no-hung-request"
NEEDS = ("contention", "bounded-waits", "faults")
SLACK_NS = GUARD_NS - SECOND
"""A little less than the guard by which a client gives up a call: what it gave up is late."""

STOPS_A_CLIENT = ("pause", "clock")
ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)


def check(case: Case) -> PropertyVerdict:
    """The verdict on no-hung-request."""
    findings = [_finding(case, row, late_ns) for row, late_ns in hung(case)]
    met = exercise(case, needs=NEEDS)
    counts = {**met.counts, "requests judged": len(case.history.of(*ASKS))}
    return conclude(case, PROPERTY, findings, (), replace(met, counts=counts))


def hung(case: Case) -> Iterator[tuple[int, int]]:
    """(row, ns past its timeout) of every hung request, in order."""
    asked = case.history.of(*ASKS)
    rows = case.history.rows[asked]
    back = np.where(rows["status"] == Status.INVOKED, case.end_ns, rows["t_ret"])
    acquires = np.isin(rows["f"], (Op.ACQUIRE, Op.TRY, Op.PROBE))
    bounds = np.where(acquires, rows["aux"], 0)
    late = back - rows["t_inv"] - bounds
    for n in np.flatnonzero((bounds >= 0) & (late > SLACK_NS)):
        row = rows[n]
        if row["status"] == Status.INVOKED and _died(case, row):
            continue
        late_ns = int(late[n]) - _stopped_ns(case, row, int(back[n]))
        if late_ns > SLACK_NS:
            yield int(asked[n]), late_ns


def _died(case: Case, row: Any) -> bool:
    """Whether the client of an unanswered request was killed, or stopped dead, after sending it."""
    process, sent_ns = int(row["process"]), int(row["t_inv"])
    node = case.nodes.get(process)
    if any(w.do == "kill" and node in w.nodes and w.to_ns >= sent_ns for w in case.windows):
        return True
    ends = case.history.rows[case.history.of(Op.CLOSED)]
    mine = (ends["process"] == process) & (ends["attempt"] == 0) & (ends["t_inv"] >= sent_ns)
    return bool(mine.any())


def _stopped_ns(case: Case, row: Any, until_ns: int) -> int:
    """For how much of a request's time a fault had stopped its client or moved its clock."""
    node = case.nodes.get(int(row["process"]))
    from_ns = int(row["t_inv"])
    spans = sorted(
        (max(from_ns, w.from_ns), min(until_ns, w.to_ns))
        for w in case.windows
        if w.do in STOPS_A_CLIENT and node in w.nodes
    )
    total_ns, counted_to_ns = 0, from_ns
    for begin_ns, over_ns in spans:
        total_ns += max(0, over_ns - max(begin_ns, counted_to_ns))
        counted_to_ns = max(counted_to_ns, over_ns)
    return total_ns


def _finding(case: Case, index: int, late_ns: int) -> Finding:
    row = case.history.rows[index]
    process, op = int(row["process"]), Op(int(row["f"]))
    lock = case.history.strings[int(row["key"])]
    came = "had no answer" if row["status"] == Status.INVOKED else "was answered"
    acquire = op in (Op.ACQUIRE, Op.TRY, Op.PROBE)
    at = seconds(case, int(row["t_inv"]))
    bound = f" that was to wait {span(int(row['aux']))} at most" if acquire else ""
    return Finding(
        kind="hung-request",
        sentence=(
            f"{name(case, process)}'s {op.name.lower()} of '{lock}' at {at}{bound} {came}"
            f" {span(late_ns)} after its time was over"
        ),
        witnesses=(index,),
        lock=lock,
        t_ns=int(row["t_inv"]),
    )
