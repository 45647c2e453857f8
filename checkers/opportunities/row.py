"""The types of the table of opportunities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import PlanChange, Promises, Seen

ALL = ("lease", "session", "connection", "none")
"""Every way in which a hold can be bounded (`Promises.bound`)."""
CLIENTS = 5
"""Of a changed plan: another one has to ask while one holds, and one more where one is struck."""
BUSY = {"think_ms": "4"}
"""Of a changed plan: clients that request the next hold at once."""
Look = Callable[[Case, Sequence[Window]], Seen]
"""Counts the opportunities in a case under the windows of one kind of fault that took effect."""


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
