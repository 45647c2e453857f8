"""What a lock costs: a grant under contention, and the duration of its lease.

No verdict depends on it. A lease that is too short expires while its owner is alive; one that is
too long blocks the lock after its owner has died; without a lease the lock stays blocked.
"""

from __future__ import annotations

import numpy as np

from holdfast.checkers.evidence.availability import waits
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import DEATHS, Attempt, attempts
from holdfast.checkers.holds.history_index import column
from holdfast.harness.core.case import Case
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, Status

SECTIONS = (5, 10)
"""A suitable lease is between these multiples of the critical section's p99 under load."""


def crowding(case: Case) -> dict[str, object]:
    """{grants, latency_ns} of the granted acquires, a distribution; and the entries of `waits`."""
    asked = table(case)
    granted = asked.ok & (asked.op != Op.PROBE)
    latency = dist(asked.ret[granted] - asked.inv[granted])
    return {"grants": int(granted.sum()), "latency_ns": plain(latency), **plain(waits(case))}


def calibration(case: Case) -> dict[str, object]:
    """Counts and spans of one run, JSON-ready. O(n log n) in the attempts.

    holds            grants before the end of the workload
    false_expiries   of them those that ended before their owner released, although it was alive
    section_ns       from the grant to the end of the claim, of owners that released
    recovery_ns      from the death of an owner to the next grant of its lock
    never            deaths after which the lock was not granted before the end of the workload
    """
    held = [a for a in attempts(case) if a.status is Status.OK and a.ret_ns < case.stop_ns]
    alive = [a for a in held if a.end_why not in DEATHS]
    gaps = [_gap_ns(a, held) for a in held if a.end_why in DEATHS and a.end_ns < case.stop_ns]
    let_go = [a.end_ns - a.ret_ns for a in alive if a.end_why == "release"]
    return {
        "holds": len(held),
        "false_expiries": sum(_expired(case, a) for a in alive),
        "section_ns": plain(dist(let_go)),
        "recovery_ns": plain(dist([gap for gap in gaps if gap is not None])),
        "never": gaps.count(None),
    }


def _expired(case: Case, a: Attempt) -> bool:
    """Whether its owner was notified, by a notice or at its release, that the hold was over."""
    refused = column(case, "status")[np.array(a.releases, np.int64)] == Status.NOT_OWNER
    return a.end_why == "lost" or bool(refused.any())


def _gap_ns(dead: Attempt, held: list[Attempt]) -> int | None:
    later = [a.ret_ns for a in held if a.key == dead.key and a.ret_ns > dead.end_ns]
    return min(later) - dead.end_ns if later else None
