"""Where typical defects of mutual-exclusion would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.opportunities.meanwhile import meanwhile
from holdfast.checkers.opportunities.outlived import OUTLIVED, outlived
from holdfast.checkers.opportunities.places.granted_beside import (
    asked_in_delay,
    asked_inside,
    asked_when_full,
)
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import CONTENDED, FaultClass, OpportunityRow, of_any_fault
from holdfast.checkers.opportunities.strokes import (
    AHEAD,
    LONG,
    NEW_NS,
    OFTEN,
    OPERATING,
    SHORT,
    of_deciders,
    of_fast_clocks,
    of_leaders,
    of_minorities,
    of_operations,
    of_replaced_leaders,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op


def _has_permits(case: Case) -> bool:
    """Whether permits of a semaphore are requested."""
    return bool((table(case).mode == Mode.PERMITS).any())


def _has_locks(case: Case) -> bool:
    """Whether clients request anything else, or nothing; the probe asks for the lock as a whole."""
    attempts = table(case)
    asked = attempts.mode[attempts.op != Op.PROBE]
    return not (_has_permits(case) and (asked == Mode.PERMITS).all())


OPPORTUNITIES: Sequence[OpportunityRow] = (
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
        # Of a leader that is cut off every third is replaced in time.
        change=replace(LONG, target="leader|one", least_leases=30),
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
        id="mutual-exclusion/undone-grant/operations",
        property="mutual-exclusion",
        faults=FaultClass.OPERATION,
        defect="forgets its grants in an operation",
        sentence=OUTLIVED,
        twin="reference",
        look=partial(outlived, strokes=of_operations, what="the servers"),
        change=OPERATING,
    ),
    of_any_fault(
        id="mutual-exclusion/held-at-once/any",
        property="mutual-exclusion",
        defect="grants a lock that is held",
        sentence="a client asked for a lock during another's hold, and was answered",
        twin="reference:release-by-lock",
        look=partial(
            near_faults,
            where=Where(asked_inside, "no client asked during another's hold"),
        ),
        change=CONTENDED,
        beside=True,
        # Two holds of a semaphore conflict only beside others: it needs too few permits left.
        applies=_has_locks,
    ),
    of_any_fault(
        id="mutual-exclusion/over-admits/any",
        property="mutual-exclusion",
        defect="grants more permits of a semaphore than it has",
        sentence="a client asked for permits of a semaphore that had fewer left, and was answered",
        twin="reference:one-permit-more",
        look=partial(
            near_faults,
            where=Where(asked_when_full, "no client asked for more permits than were left"),
        ),
        change=CONTENDED,
        beside=True,
        applies=_has_permits,
    ),
    of_any_fault(
        id="mutual-exclusion/opens-early/any",
        property="mutual-exclusion",
        defect="opens a lock too early after its holder's death",
        sentence="a client asked for a lock within the delay after its holder's death",
        twin="chubby:no-lock-delay",
        look=partial(
            near_faults,
            where=Where(
                asked_in_delay, "no client asked for a lock within its lock-delay", seldom=True
            ),
        ),
        bounds=("lease", "session"),
        promised=lambda promises: promises.delay_ns > 0,
        change=CONTENDED,
        beside=True,
    ),
)
