"""What a plan lacks if a need of a property was not met, as data: the change that meets it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from holdfast.checkers.facts.fault_windows import AIMED_AT_CLIENTS
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.opportunities.row import (
    BUSY,
    CLIENTS,
    QUEUED,
    FaultClass,
    OpportunityRow,
    fault_class,
)
from holdfast.checkers.opportunities.strokes import OFTEN
from holdfast.checkers.opportunities.table import rows_for, rows_of
from holdfast.harness.core.case import Case, Planned
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import IN_TURN
from holdfast.harness.core.verdict import PlanChange

CONTENDED = PlanChange(clients=CLIENTS, locks=1, options=BUSY)
OUTLIVED = PlanChange(
    nemesis="pause",
    # Others that are granted the lock after them.
    clients=CLIENTS,
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
WITH_SHORT_WAITS = replace(OUTLIVED, options={**OUTLIVED.options, "wait_ms": "500"})
"""The same where no token orders the grants: that another was granted the lock later is certain
only if it asked for it later, and a client that waits for long asks before. And where no client
hears that it waits, only a refusal shows that the lock is held."""
POWER_LOST = replace(OFTEN, nemesis="power", target="majority|one", if_asked=True)
"""Power losses that take something from a service: a minority's is still known to the others. Its
servers are back before the leases in force end."""
STRUCK = replace(CONTENDED, every_leases=2.5, least_leases=20, least_lease_ns=SECOND)
"""Faults that take effect during requests and holds, and time for grants after the last one."""
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


def outlived(case: Case) -> PlanChange:
    """Owners that go on after their lease, in such a way that it is certain who came after them."""
    kinds = {*case.kinds, *(window.do for window in case.windows)}
    ordered = case.promises.tokens == "ordered" and case.promises.promised("token-order", kinds)
    acknowledged = bool((table(case).queued >= 0).any())
    change = OUTLIVED if ordered and acknowledged else WITH_SHORT_WAITS
    # Its library notifies an owner when its session ends, and few go on.
    return replace(change, least_leases=30) if case.promises.bound == "session" else change


def changes(case: Case, missing: Iterable[str]) -> tuple[PlanChange, ...]:
    """The changes for some needs, each once."""
    needed = [CHANGES[need] for need in missing if need in CHANGES]
    needed = [outlived(case) if change is OUTLIVED else change for change in needed]
    return tuple(one for n, one in enumerate(needed) if one not in needed[:n])


def of_faults(case: Case, prop: str, kind: str, unmet: Collection[str]) -> tuple[PlanChange, ...]:
    """The changes after which faults of a kind meet what they did not: conditions of the table's
    rows, by their ids, and those that every kind has.

    Without any fault that took effect it is not known which rows they would have staged: those of
    the first target are wanted.
    """
    if not unmet:
        return ()
    planned = case.planned.get(kind, Planned())
    roles = set(planned.target.replace("|", IN_TURN).replace("+", IN_TURN).split(IN_TURN))
    at_clients = bool(planned.target) and roles <= AIMED_AT_CLIENTS
    of = FaultClass.OTHER if at_clients else fault_class(planned.traits)
    rows = [row for row in rows_of(prop) if row.id in unmet]
    if not rows:
        asked = [row for row in rows_for(prop, of) if row.concerns(case)]
        asked = [row for row in asked if planned.traits.loses_unsynced or not row.unsynced]
        rows = [row for row in asked if row.change.target == asked[0].change.target]
    made = [_made(row, kind, planned.target) for row in rows]
    timed = any(one.every_leases for one in made)
    owners = [outlived(case)] if any(row.outlives for row in rows) else []
    return (*([] if timed else [replace(STRUCK, nemesis=kind)]), *made, *owners)


def _made(row: OpportunityRow, kind: str, target: str) -> PlanChange:
    """The change of a row for one kind of fault. A plan that names a target keeps it."""
    return replace(row.change, nemesis=kind, target="" if target else row.change.target)
