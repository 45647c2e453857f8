"""Coverage of one property under each kind of fault, by the table of opportunities.

Where the table has no row, the windows of a kind are enough if a client asked inside one, a hold
was open at an edge and, unless servers crashed, a lock was granted inside and afterwards
(`facts.fault_windows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.checkers.coverage.plan_changes import outlived
from holdfast.checkers.facts.fault_windows import held_at_bite, servers_struck
from holdfast.checkers.facts.verdicts_by_fault import STROKE, Met
from holdfast.checkers.opportunities.row import FaultClass, OpportunityRow, fault_class
from holdfast.checkers.opportunities.table import rows_for
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import Seen

LIVENESS = frozenset(
    {"deadlock-freedom", "orphan-freedom", "starvation-freedom", "no-multi-lock-deadlock"}
)
"""Properties that a missing grant violates: a grant is no condition for judging them."""
GRANTS = ("grant", "after")
"""Conditions that ask for a grant during a fault, or after it."""


def by_opportunity(case: Case, prop: str, kinds: Mapping[str, Met]) -> dict[str, Met]:
    """The coverage of each kind of fault, for one property."""
    return {kind: _of_kind(case, prop, kind, met) for kind, met in kinds.items()}


def _of_kind(case: Case, prop: str, kind: str, met: Met) -> Met:
    if {"effect", "target"} & set(met.unmet):
        return met
    windows = [w for w in case.windows if w.do == kind and w.effective and held_at_bite(case, w)]
    # A client that is struck takes from no server what it had acknowledged.
    struck = any(servers_struck(case, window) for window in windows)
    of = fault_class(windows[0].traits) if struck else FaultClass.OTHER
    crash = of is FaultClass.CRASH
    loses = crash and windows[0].traits.loses_unsynced
    rows = [row for row in rows_for(prop, of) if row.concerns(case) and (loses or not row.unsynced)]
    rows = [row for row in rows if windows or not row.beside]
    seen = {row.id: _look(case, row, kind, windows) for row in rows}
    beside = {row.id: seen[row.id] for row in rows if row.beside}
    own = {name: one for name, one in seen.items() if name not in beside}
    needed = crash and any(row.faults is of for row in rows)
    if needed or any(one.staged for one in own.values()):
        return _seen(met, seen, own)
    kept = prop not in LIVENESS and not crash
    unmet = {name: why for name, why in met.unmet.items() if kept or name not in GRANTS}
    staged = {name: one for name, one in beside.items() if one.staged}
    unmet |= {name: one.nearest for name, one in staged.items() if not one.count}
    vacuous = met.vacuous | (set(beside) - set(staged)) | (set() if kept else set(GRANTS))
    conditions = (*met.conditions, *beside)
    return replace(met, unmet=unmet, vacuous=vacuous, conditions=conditions, seen=staged)


def _look(case: Case, row: OpportunityRow, kind: str, windows: list[Window]) -> Seen:
    """The opportunities of a row, with its words and the change that makes one."""
    change = replace(row.change, nemesis=kind)
    also = (outlived(case),) if row.outlives else ()
    return replace(row.look(case, windows), sentence=row.sentence, change=change, also=also)


def _seen(met: Met, seen: Mapping[str, Seen], own: Mapping[str, Seen]) -> Met:
    """A kind is covered if each row that it staged has an opportunity, and it staged one of its
    own: the others show what the run had besides."""
    seen = {
        name: one if name in own or one.count else replace(one, staged=False)
        for name, one in seen.items()
    }
    staged = {name: one for name, one in seen.items() if one.staged}
    unmet = {name: one.nearest for name, one in staged.items() if not one.count}
    if not any(one.staged for one in own.values()):
        unmet[STROKE] = "; ".join(one.nearest for one in own.values())
    return replace(
        met,
        unmet=unmet,
        vacuous=frozenset(seen) - set(staged),
        conditions=(STROKE, *seen),
        seen=seen,
    )
