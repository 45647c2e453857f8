"""What a lease of a certain length costs: holds that it ended too soon, and the wait after a death.

It decides nothing. A lease that is too short expires under owners that are alive; one that is too
long keeps the lock from everybody after its owner has died; with none at all nobody ever gets it.
"""

from __future__ import annotations

import numpy as np

from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.facts.stalls import DEATHS
from holdfast.checkers.holds.derive import Attempt, attempts
from holdfast.checkers.holds.history_index import column
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Status

SECTIONS = (5, 10)
"""A lease that suits is so many times the 99th percentile of the critical section, under load."""


def calibration(case: Case) -> dict[str, object]:
    """Counts and spans of one run, JSON-ready. O(n log n) in the attempts.

    holds            grants before the end of the workload
    false_expiries   of them those that ended before their owner let go, though it was alive
    section_ns       from the grant to the end of the claim, of owners that let go by themselves
    recovery_ns      from the death of an owner to the next grant of its lock
    never            deaths after which nobody was granted the lock before the workload was over
    """
    held = [a for a in attempts(case) if a.status is Status.OK and a.ret_ns < case.stop_ns]
    alive = [a for a in held if a.end_why not in DEATHS]
    gaps = [_gap_ns(a, held) for a in held if a.end_why in DEATHS and a.end_ns < case.stop_ns]
    let_go = [a.end_ns - a.ret_ns for a in alive if a.end_why == "release"]
    return {
        "holds": len(held),
        "false_expiries": sum(_expired(case, a) for a in alive),
        "section_ns": dist(let_go),
        "recovery_ns": dist([gap for gap in gaps if gap is not None]),
        "never": gaps.count(None),
    }


def _expired(case: Case, a: Attempt) -> bool:
    """Whether its owner was told, unasked or at its release, that the hold was over."""
    refused = column(case, "status")[np.array(a.releases, np.int64)] == Status.NOT_OWNER
    return a.end_why == "lost" or bool(refused.any())


def _gap_ns(dead: Attempt, held: list[Attempt]) -> int | None:
    later = [a.ret_ns for a in held if a.key == dead.key and a.ret_ns > dead.end_ns]
    return min(later) - dead.end_ns if later else None
