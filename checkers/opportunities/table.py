"""The table of opportunities: typical defects by property and faults, and where each would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.opportunities.answer_rows import ANSWER_ROWS
from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.liveness_rows import LIVENESS_ROWS
from holdfast.checkers.opportunities.meanwhile import meanwhile
from holdfast.checkers.opportunities.outlived import outlived
from holdfast.checkers.opportunities.owner_rows import OWNER_ROWS
from holdfast.checkers.opportunities.queue_rows import QUEUE_ROWS
from holdfast.checkers.opportunities.regained import regained
from holdfast.checkers.opportunities.renumbered import renumbered
from holdfast.checkers.opportunities.row import ALL, BUSY, CLIENTS, OpportunityRow
from holdfast.checkers.opportunities.strokes import (
    of_cut_servers,
    of_deciders,
    of_fast_clocks,
    of_leaders,
    of_minorities,
    of_operations,
    of_replaced_leaders,
)
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PlanChange

LAZY = {**BUSY, "lazy_pct": "25"}
SHORT = PlanChange(
    clients=CLIENTS,
    fault_leases=0.05,
    # A new leader may count its leases from the beginning: between two faults one can end.
    every_leases=2.5,
    # A real server may take a second to start.
    least_lease_ns=4 * SECOND,
    least_leases=20,
    options=LAZY,
)
"""Faults that are over long before the leases in force, and owners that are silent meanwhile."""
HALF_LAZY = {**BUSY, "lazy_pct": "50"}
LONG = PlanChange(
    clients=CLIENTS,
    fault_leases=1.5,
    every_leases=3,
    # Another server has to be elected within a lease.
    least_lease_ns=4 * SECOND,
    least_leases=20,
    options=HALF_LAZY,
)
"""Faults in which another server is elected, and grants or refuses to before leases end."""
AHEAD = PlanChange(
    clients=CLIENTS,
    target="leader|one",
    every_leases=3,
    fault_leases=1.5,
    least_leases=20,
    options=HALF_LAZY,
)
"""By default a clock is set ahead by 2.5 leases."""
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
OPERATED = replace(SHORT, fault_leases=0, least_locks=6, options=HALF_LAZY)
"""Operations take the time that they take; owners are silent meanwhile. Of several locks some are
free when a copy is made: only of these it knows no owner whom it would keep."""
DECIDERS = "the servers that decide"
OUTLIVED = (
    "a hold outlived what took an earlier state back, and another client asked before it ended"
)
RENUMBERED = (
    "a token was known before what may have put an earlier state back, and another client was"
    " granted the lock after it"
)

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
        defect="grants without a majority that keeps the grant",
        sentence="a minority of the servers was down, and another client was answered during a"
        " hold",
        twin="redlock --set persistence=none",
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
        bounds=ALL,
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
        bounds=ALL,
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
        twin="reference:late-disk",
        look=partial(renumbered, strokes=of_leaders, what="the leader"),
        change=replace(SHORT, target="leader|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/too-few-votes/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens without a majority that keeps them",
        sentence="a token was known before a minority of the servers was struck, and another client"
        " was granted the lock after it",
        twin="reference:late-disk",
        look=partial(renumbered, strokes=of_minorities, what="a minority of the servers"),
        change=replace(SHORT, target="minority|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="mutual-exclusion/new-leader-grants/stop",
        property="mutual-exclusion",
        faults=FaultClass.STOP,
        defect="grants from an old state after a change of leader",
        sentence="a hold outlived the stop of the leader, and another client asked before it ended",
        twin="reference:impatient-leader",
        look=partial(
            outlived,
            strokes=of_replaced_leaders,
            what="a leader that others replaced within half a lease",
        ),
        # As long as a lease that the new leader counts from its election, and then some.
        change=replace(LONG, target="leader|one", fault_leases=3, every_leases=5),
    ),
    OpportunityRow(
        id="mutual-exclusion/new-leader-grants/cut",
        property="mutual-exclusion",
        faults=FaultClass.CUT,
        defect="grants from an old state after a change of leader",
        sentence="a hold outlived the loss of a leader that was cut off, and another client asked"
        " before it ended",
        twin="reference:impatient-leader",
        look=partial(
            outlived,
            strokes=of_replaced_leaders,
            what="a leader that others replaced within half a lease",
        ),
        change=replace(LONG, target="leader|one"),
    ),
    OpportunityRow(
        id="token-order/new-leader-counts/cut",
        property="token-order",
        faults=FaultClass.CUT,
        defect="counts its tokens from an old state after a change of leader",
        sentence="a token was known before the leader was cut off, and another client was granted"
        " the lock after it",
        twin="reference:lone-commit",
        look=partial(renumbered, strokes=of_leaders, what="the leader"),
        change=replace(LONG, target="leader|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/both-sides-decide/cut",
        property="token-order",
        faults=FaultClass.CUT,
        defect="counts its tokens on both sides of a partition",
        sentence="a token was known before servers were cut off from each other, and another"
        " client was granted the lock after it",
        twin="reference:small-quorum",
        look=partial(renumbered, strokes=of_cut_servers, what="servers that agree with others"),
        change=LONG,
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="mutual-exclusion/wrong-clock/clocks",
        property="mutual-exclusion",
        faults=FaultClass.CLOCK,
        defect="ends leases by a clock that can be set",
        sentence="a clock of the servers that decide was set ahead by more than a hold had left,"
        " and another client asked before it ended",
        twin="reference:wall-clock",
        look=partial(
            outlived,
            strokes=of_fast_clocks,
            what="the clocks of the servers that decide",
        ),
        change=AHEAD,
    ),
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
    *(
        OpportunityRow(
            id=f"durable-grants/{defect}/{of}",
            property="durable-grants",
            faults=of,
            defect=f"loses {lost} with an earlier state",
            sentence=sentence,
            twin="reference:late-disk" if of is FaultClass.CRASH else "reference",
            look=partial(look, strokes=strokes, what=what),
            change=change,
            bounds=ALL,
            tokens=look is renumbered,
            unsynced=of is FaultClass.CRASH,
        )
        for of, strokes, what, change in (
            (FaultClass.CRASH, of_deciders, DECIDERS, replace(SHORT, target="majority|one")),
            (FaultClass.OPERATION, of_operations, "the servers", OPERATED),
        )
        for defect, lost, sentence, look in (
            ("undone-grant", "a grant", OUTLIVED, outlived),
            ("undone-token", "a token", RENUMBERED, renumbered),
        )
    ),
    OpportunityRow(
        id="mutual-exclusion/undone-grant/operations",
        property="mutual-exclusion",
        faults=FaultClass.OPERATION,
        defect="forgets its grants in an operation",
        sentence=OUTLIVED,
        twin="reference",
        look=partial(outlived, strokes=of_operations, what="the servers"),
        change=OPERATED,
    ),
    OpportunityRow(
        id="token-order/undone-token/operations",
        property="token-order",
        faults=FaultClass.OPERATION,
        defect="counts its tokens from an old value after an operation",
        sentence=RENUMBERED,
        twin="reference",
        look=partial(renumbered, strokes=of_operations, what="the servers"),
        change=OPERATED,
        bounds=ALL,
        tokens=True,
    ),
    *OWNER_ROWS,
    *QUEUE_ROWS,
    *LIVENESS_ROWS,
    *ANSWER_ROWS,
)
"""Every row is looked at where a kind of its class was asked for."""


def rows_for(prop: str, faults: FaultClass) -> list[OpportunityRow]:
    """The rows of a property under a class of faults."""
    classes = (faults, FaultClass.ANY)
    return [row for row in ROWS if row.property == prop and row.faults in classes]
