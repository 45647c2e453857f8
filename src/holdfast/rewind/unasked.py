"""Calls that returned ok although no message of a server reached the client since the call."""

from __future__ import annotations

from bisect import bisect_right

from holdfast.clusters.backends.sim.observed.steps import NONE, Fate, Kind, Recorded
from holdfast.harness.core.operations import Op, Status
from holdfast.rewind.execution import Execution

CALLS = (Op.ACQUIRE, Op.TRY, Op.RENEW, Op.RELEASE, Op.PROBE)


def first_unasked(done: Execution) -> int:
    """The step in which the first such call returned, NONE if there is none.

    A lock whose state is in its servers cannot answer so. Clients to which no server ever sends
    anything are left out: their lock is in their own process.
    """
    servers = dict.fromkeys(done.judged.servers)
    delivered: dict[str, list[int]] = {}
    for step in done.steps:
        arrived = step.kind is Kind.MESSAGE and step.fate is Fate.DELIVERED
        if arrived and step.source in servers:
            delivered.setdefault(step.node, []).append(step.number)
    history = done.history
    for row in history.rows[history.of(*CALLS)]:
        if int(row["status"]) != Status.OK:
            continue
        writer, number = history.writers[int(row["writer"])], int(row["row"])
        called = done.edges.get(Recorded(writer, number, False), NONE)
        returned = done.edges.get(Recorded(writer, number, True), NONE)
        if NONE in (called, returned):
            continue
        arrivals = delivered.get(done.steps[returned].node)
        if arrivals and bisect_right(arrivals, called) == bisect_right(arrivals, returned):
            return returned
    return NONE
