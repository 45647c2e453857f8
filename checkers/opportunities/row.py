"""What a row of opportunities is: a typical defect of a property, and where it would show.

The rows of a property are OPPORTUNITIES of its module. Classes of faults are kinds that a lock
survives, or does not, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.verdict import PlanChange, Promises, Seen

ALL = ("lease", "session", "connection", "none")
"""Every way in which a hold can be bounded (`Promises.bound`)."""
CLIENTS = 5
"""Of a changed plan: another one has to ask while one holds, and one more where one is struck."""
BUSY = {"think_ms": "4"}
"""Of a changed plan: clients that request the next hold at once."""
CONTENDED = PlanChange(clients=CLIENTS, locks=1, least_leases=20, options=BUSY)
"""A lock that passes from one client to the next all the time."""
LEFT_TO_LEASES = PlanChange(
    clients=CLIENTS, locks=1, least_leases=20, options={**BUSY, "lazy_pct": "50"}
)
"""Owners that leave the end of their hold to the lease."""
QUEUED = PlanChange(
    clients=CLIENTS,
    locks=1,
    least_leases=20,
    options={**BUSY, "hold_leases": "1", "wait_ms": "60000"},
)
"""Clients that request the lock at once, and wait for longer than many holds last."""
Look = Callable[[Case, Sequence[Window]], Seen]
"""Counts the opportunities in a case under the windows of one kind of fault that took effect."""


class FaultClass(StrEnum):
    """What a fault does to the servers that it strikes."""

    CRASH = "crash"
    """they stop, and may come back with less than they had acknowledged: kills and power losses"""
    STOP = "stop"
    """they stop, and go on later with all that they had, unaware of the time: pauses"""
    CUT = "cut"
    """they go on, and do not reach each other or their clients: partitions"""
    CLOCK = "clocks"
    """they go on, and the clock by which they may count leases is wrong"""
    OPERATION = "operations"
    """an operator puts an earlier state back, or stops, replaces or promotes them in turn"""
    OTHER = "other"
    """the rest, and all that strikes no server: disks, links, limits, system calls and the calls of
    clients. What may be lost there is the same, an answer or a write that was under way"""
    ANY = "any"
    """of rows that are the same under every class"""


def fault_class(traits: Traits) -> FaultClass:
    """The class of a kind of fault. One that may kill later is no crash: it may never have."""
    does = {
        FaultClass.CRASH: traits.kills,
        FaultClass.STOP: traits.stops,
        FaultClass.CUT: traits.cuts,
        FaultClass.CLOCK: traits.shifts_clocks,
        FaultClass.OPERATION: bool(traits.operates),
    }
    return next((of for of, applies in does.items() if applies), FaultClass.OTHER)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpportunityRow:
    """One way in which a typical defect of a property shows under a class of faults.

    id        "property/defect/fault class"
    defect    the defect, as a verb phrase about the service
    sentence  what an opportunity is, as a clause that follows "N times"
    twin      a planted bug that turns these opportunities into findings: "system" or
              "system:mutant"
    look      its pattern
    change    of a plan without opportunities; outlives: it needs owners that go on after their
              lease has ended
    bounds    what ends a hold (`Promises.bound`) where the defect can exist
    tokens    whether it concerns only locks with ordered tokens
    unsynced  whether only kinds that lose what was not synced can show it
    promised  whether a lock with these promises can have the defect
    beside    it needs no fault: asked for beside the conditions that every kind of fault has, where
              the run stages no other row of the property
    applies   whether the use of the lock in a run can show the defect
    """

    id: str
    property: str
    faults: FaultClass
    defect: str
    sentence: str
    twin: str
    look: Look
    change: PlanChange
    outlives: bool = False
    bounds: tuple[str, ...] = ("lease", "session", "none")
    tokens: bool = False
    unsynced: bool = False
    beside: bool = False
    promised: Callable[[Promises], bool] = lambda _: True
    applies: Callable[[Case], bool] = lambda _: True

    def concerns(self, case: Case) -> bool:
        """Whether a lock with these promises can have the defect, and such a run show it."""
        ordered = case.promises.tokens == "ordered"
        may = case.promises.bound in self.bounds and self.promised(case.promises)
        return may and (ordered or not self.tokens) and self.applies(case)


of_any_fault = partial(OpportunityRow, faults=FaultClass.ANY, bounds=ALL)
"""A row that is the same under every class of faults."""
