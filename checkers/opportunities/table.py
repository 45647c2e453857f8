"""The table of opportunities: per property and class of faults, the typical defects and where each
of them would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.meanwhile import meanwhile
from holdfast.checkers.opportunities.outlived import outlived
from holdfast.checkers.opportunities.renumbered import renumbered
from holdfast.checkers.opportunities.row import OpportunityRow
from holdfast.checkers.opportunities.strokes import of_deciders, of_leaders, of_minorities
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PlanChange

LAZY = {"lazy_pct": "25"}
SHORT = PlanChange(
    fault_leases=0.05,
    # A new leader may count its leases from the beginning: between two faults one can end.
    every_leases=2.5,
    # A real server may take a second to start.
    least_lease_ns=4 * SECOND,
    least_leases=20,
    options=LAZY,
)
"""Faults that are over long before the leases in force, and owners that are silent meanwhile."""

NEW_NS = SECOND
"""What is written to disk within a second after its acknowledgement (Redis's `everysec`) can be
lost only while it is new: at a stroke in that second, in half of them on average."""
OFTEN = replace(
    SHORT,
    target="majority|one",
    every_leases=1.5,
    least_leases=32,
    options={**LAZY, "hold_leases": "1"},
)
"""At one stroke the newest hold is seldom that new: more strokes, and shorter holds."""

ROWS: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="mutual-exclusion/forgotten-grant/crash",
        property="mutual-exclusion",
        faults=FaultClass.CRASH,
        defect="forgets its grants when it restarts",
        sentence="a hold outlived the restart of the servers that decide, and another client asked"
        " before it ended",
        twin="single",
        look=partial(outlived, strokes=of_deciders, what="the servers that decide"),
        change=replace(SHORT, target="majority|one"),
    ),
    OpportunityRow(
        id="mutual-exclusion/unsynced-grant/crash",
        property="mutual-exclusion",
        faults=FaultClass.CRASH,
        defect="acknowledges a grant before it is durable",
        sentence="a hold of less than a second outlived the restart of the servers that decide, and"
        " another client asked before it ended",
        twin="redis --set persistence=everysec",
        look=partial(outlived, strokes=of_deciders, what="the servers that decide", new_ns=NEW_NS),
        change=OFTEN,
        unsynced=True,
    ),
    OpportunityRow(
        id="mutual-exclusion/new-leader-grants/crash",
        property="mutual-exclusion",
        faults=FaultClass.CRASH,
        defect="grants from an old state after a change of leader",
        sentence="a hold outlived the loss of the leader, and another client asked before it ended",
        twin="reference:impatient-leader",
        look=partial(outlived, strokes=of_leaders, what="the leader"),
        change=replace(SHORT, target="leader|one"),
    ),
    OpportunityRow(
        id="mutual-exclusion/too-few-votes/crash",
        property="mutual-exclusion",
        faults=FaultClass.CRASH,
        defect="grants without a majority",
        sentence="a minority of the servers was down, and another client was answered during a"
        " hold",
        twin="reference:small-quorum",
        look=partial(meanwhile, strokes=of_minorities, what="a minority of the servers"),
        change=replace(SHORT, target="minority|one"),
    ),
    OpportunityRow(
        id="token-order/counter-restarts/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens from an old value when it restarts",
        sentence="a token was known before the restart of the servers that decide, and another"
        " client was granted the lock after it",
        twin="single",
        look=partial(renumbered, strokes=of_deciders, what="the servers that decide"),
        change=replace(SHORT, target="majority|one"),
        bounds=("lease", "session", "connection", "none"),
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/unsynced-counter/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="acknowledges a token before it is durable",
        sentence="a token of less than a second was known before the restart of the servers that"
        " decide, and another client was granted the lock after it",
        twin="redis --set persistence=everysec --set tokens=counter",
        look=partial(
            renumbered, strokes=of_deciders, what="the servers that decide", new_ns=NEW_NS
        ),
        change=OFTEN,
        bounds=("lease", "session", "connection", "none"),
        tokens=True,
        unsynced=True,
    ),
    OpportunityRow(
        id="token-order/new-leader-counts/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens from an old state after a change of leader",
        sentence="a token was known before the loss of the leader, and another client was granted"
        " the lock after it",
        twin="reference:stale-counter",
        look=partial(renumbered, strokes=of_leaders, what="the leader"),
        change=replace(SHORT, target="leader|one"),
        bounds=("lease", "session", "connection", "none"),
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/too-few-votes/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens without a majority",
        sentence="a token was known before a minority of the servers was struck, and another client"
        " was granted the lock after it",
        twin="reference:small-quorum",
        look=partial(renumbered, strokes=of_minorities, what="a minority of the servers"),
        change=replace(SHORT, target="minority|one"),
        bounds=("lease", "session", "connection", "none"),
        tokens=True,
    ),
)
"""Every row is looked at where a kind of its class was asked for."""


def rows_for(prop: str, faults: FaultClass) -> list[OpportunityRow]:
    """The rows of a property under a class of faults."""
    return [row for row in ROWS if row.property == prop and row.faults is faults]
