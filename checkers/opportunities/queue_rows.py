"""Rows of the table about the order of queues: under any fault, and at changes of leader."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.overtaking import (
    behind_waiters,
    has_queues,
    patient_waits,
    requeued,
    waits_beyond_queues,
)
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import ALL, BUSY, CLIENTS, OpportunityRow
from holdfast.checkers.opportunities.strokes import of_lost_leaders
from holdfast.harness.core.verdict import PlanChange, Promises

QUEUED = PlanChange(
    clients=CLIENTS,
    locks=1,
    least_leases=20,
    options={**BUSY, "hold_leases": "1", "wait_ms": "60000"},
)
"""Clients that request the lock at once, and wait for longer than many holds last."""


def _bounded(promises: Promises) -> bool:
    """Whether the order of its queue bounds how often a waiter is overtaken."""
    aging = promises.order == "priority" and promises.aging >= 0
    return promises.order == "fifo" or aging


_row = partial(OpportunityRow, bounds=ALL, tokens=True)
_CHANGE = PlanChange(
    target="leader|one",
    every_leases=2.5,
    least_leases=20,
    clients=QUEUED.clients,
    locks=QUEUED.locks,
    options=QUEUED.options,
)
"""Leaders that are lost while several clients wait."""
QUEUE_ROWS: Sequence[OpportunityRow] = (
    _row(
        id="starvation-freedom/never-served/any",
        property="starvation-freedom",
        faults=FaultClass.ANY,
        defect="grants to others for as long as a client waits",
        sentence="a client waited with another behind it, and would have waited while the lock was"
        " granted to others more often than there are clients",
        twin="reference:last-come-first",
        applies=has_queues,
        look=partial(
            near_faults,
            where=Where(patient_waits, "no wait with another behind it outlasted enough grants"),
        ),
        change=QUEUED,
    ),
    _row(
        id="bounded-bypass/served-out-of-turn/any",
        property="bounded-bypass",
        faults=FaultClass.ANY,
        defect="serves its queue in another order",
        sentence="a client waited, and another that had asked later waited behind it or came first",
        twin="reference:last-come-first",
        look=partial(
            near_faults, where=Where(behind_waiters, "no client waited behind another one")
        ),
        change=QUEUED,
        promised=_bounded,
    ),
    _row(
        id="bounded-wait/served-out-of-turn/any",
        property="bounded-wait",
        faults=FaultClass.ANY,
        defect="serves its queue in another order",
        sentence="a client waited with another behind it, and would have waited while the lock was"
        " granted to others more often than there were requests ahead of it",
        twin="reference:last-come-first",
        look=partial(
            near_faults,
            where=Where(waits_beyond_queues, "no wait with another behind it outlasted its queue"),
        ),
        change=QUEUED,
        promised=_bounded,
    ),
    *(
        _row(
            id=f"bounded-bypass/new-leader-reorders/{of}",
            property="bounded-bypass",
            faults=of,
            defect="serves its queue in another order after a change of leader",
            sentence="two clients waited for a lock when the leader was lost, and both were granted"
            " it later",
            twin="reference:reversed-queue",
            look=partial(requeued, strokes=of_lost_leaders, what="the leader"),
            change=_CHANGE,
            promised=_bounded,
        )
        for of in (FaultClass.CRASH, FaultClass.STOP, FaultClass.CUT)
    ),
)
