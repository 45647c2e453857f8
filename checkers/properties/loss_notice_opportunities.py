"""Where typical defects of loss-notice would show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.places.checked_owners import lost_holds
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.regained import regained
from holdfast.checkers.opportunities.row import CLIENTS, FaultClass, OpportunityRow, of_any_fault
from holdfast.harness.core.verdict import PlanChange

OPPORTUNITIES: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="loss-notice/silent-reacquire/clients",
        property="loss-notice",
        faults=FaultClass.OTHER,
        defect="renews a lost lock by taking it again",
        sentence="an owner had lost its lock to another while a fault kept it away, and its renewal"
        " was answered while the lock was free again",
        # Its issue 175, fixed in 5.3.1. tests/front/test_silent_reacquire.py plants it in a lease,
        # and in a library that renews by itself.
        twin="redis --set library=npm:redis-semaphore@5.3.0",
        look=regained,
        # The other one has to be done with the lock before the fault is over, and its owner must
        # go on for as long afterwards as a notice may take.
        change=PlanChange(
            clients=CLIENTS,
            target="holder",
            fault_leases=2,
            every_leases=4,
            least_leases=40,
            workloads=("critical-section", "renewal"),
            options={"hold_leases": "8", "brief_pct": "60"},
        ),
        bounds=("lease", "none"),
        promised=lambda promises: promises.bound == "lease" or promises.lapses,
    ),
    of_any_fault(
        id="loss-notice/no-notice/any",
        property="loss-notice",
        change=PlanChange(),
        outlives=True,
        defect="does not notify a holder of the loss of its lock",
        sentence="a holder that could be reached lost its lock",
        twin="reference:unheard-loss",
        look=partial(near_faults, where=Where(lost_holds, "no holder lost its lock")),
    ),
)
