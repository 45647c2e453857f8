"""Cost of a grant under contention: requests, responses to wait, and latency."""

from __future__ import annotations

from holdfast.checkers.evidence.availability import waits
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.attempt_table import table
from holdfast.harness.core.case import Case
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op


def crowding(case: Case) -> dict[str, object]:
    """{grants, latency_ns} of the granted acquires, a distribution; and the entries of `waits`."""
    attempts = table(case)
    granted = attempts.ok & (attempts.op != Op.PROBE)
    latency = dist(attempts.ret[granted] - attempts.inv[granted])
    return {"grants": int(granted.sum()), "latency_ns": plain(latency), **plain(waits(case))}
