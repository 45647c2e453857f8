"""What a plan lacks if a need of a property was not met, as data: the change that meets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.checkers.opportunities.queue_rows import QUEUED
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PlanChange

CONTENDED = PlanChange(clients=5, locks=1)
OUTLIVED = PlanChange(
    nemesis="pause",
    target="holder",
    beside=True,
    fault_leases=1.5,
    every_leases=2.5,
    least_leases=20,
    least_lease_ns=SECOND,
    locks=1,
    # Its owners use the lock all the time, so that they meet its loss in the middle of a hold.
    workloads=("critical-section", "renewal"),
    # It asks for the order of queues as well.
    options={**QUEUED.options, "lazy_pct": "50"},
)
"""Owners that go on after their lease has ended."""
POWER_LOST = PlanChange(nemesis="power", target="majority|one", if_asked=True)
"""Power losses that take something from a service: a minority's is still known to the others."""
CHANGES: Mapping[str, PlanChange] = {
    "contention": CONTENDED,
    "judged-holds": CONTENDED,
    "handovers": CONTENDED,
    "rivals": QUEUED,
    "waits-behind": QUEUED,
    "patient-waits": QUEUED,
    "updates": CONTENDED,
    "requests": CONTENDED,
    "tokens": CONTENDED,
    "stale-requests": OUTLIVED,
    "expired-requests": OUTLIVED,
    "stale-releases": OUTLIVED,
    "losses": OUTLIVED,
    "power-losses": POWER_LOST,
}


def changes(missing: Iterable[str]) -> tuple[PlanChange, ...]:
    """The changes for some needs, each once."""
    needed = [CHANGES[need] for need in missing if need in CHANGES]
    return tuple(one for n, one in enumerate(needed) if one not in needed[:n])
