"""Rows of the table about requests that have to be answered: the same under every class of faults.

A hold that is over, or a bound that ran out, is what a service, or a client, may fail to notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.places.answered_queries import named_waiters
from holdfast.checkers.opportunities.places.crossed_waits import crossed_waits
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import (
    tried_after,
    tried_after_silent,
    unbounded,
    waited_for_silent,
    waited_on,
)
from holdfast.checkers.opportunities.row import ALL, BUSY, CLIENTS, OpportunityRow
from holdfast.harness.core.verdict import PlanChange

_row = partial(OpportunityRow, faults=FaultClass.ANY, bounds=ALL)
_HANDED = PlanChange(clients=CLIENTS, locks=1, least_leases=20, options=BUSY)
"""A lock that passes from one client to the next all the time."""
_SILENT = PlanChange(clients=CLIENTS, locks=1, least_leases=20, options={**BUSY, "lazy_pct": "50"})
"""Owners that leave the end of their hold to the lease."""
_NONE = PlanChange()
"""Of rows that require nothing: few plans have such places, or only those that lack others."""
LIVENESS_ROWS: Sequence[OpportunityRow] = (
    _row(
        id="deadlock-freedom/not-handed-on/any",
        property="deadlock-freedom",
        defect="does not grant a lock to the next client when it is free",
        sentence="a client asked for a lock, and had an answer after the hold before had ended",
        twin="majority:leaky-round",
        look=partial(
            near_faults, where=Where(waited_on, "no request was answered after a hold had ended")
        ),
        change=_HANDED,
    ),
    _row(
        id="deadlock-freedom/never-ends/any",
        property="deadlock-freedom",
        defect="does not free a lock that its owner never gave up",
        sentence="a client asked for a lock, and had an answer after the hold of an owner that"
        " never gave it up had ended",
        twin="reference:endless-lease",
        look=partial(
            near_faults,
            where=Where(
                waited_for_silent,
                "no request was answered after a hold that was not given up",
                seldom=True,
            ),
        ),
        bounds=("lease", "session", "connection"),
        change=_SILENT,
    ),
    _row(
        id="orphan-freedom/kept-for-nobody/any",
        property="orphan-freedom",
        defect="refuses a lock after its holder's time",
        sentence="a try or probe was answered after the hold before had ended",
        twin="majority:leaky-round",
        look=partial(
            near_faults,
            where=Where(tried_after, "no try was answered after a hold had ended", extra=True),
        ),
        change=_NONE,
    ),
    _row(
        id="orphan-freedom/kept-for-silent/any",
        property="orphan-freedom",
        defect="refuses a lock that its owner never gave up after its time",
        sentence="a try or probe was answered after the hold of an owner that never gave it up had"
        " ended",
        twin="reference:endless-lease",
        look=partial(
            near_faults,
            where=Where(
                tried_after_silent,
                "no try was answered after a hold that was not given up",
                extra=True,
            ),
        ),
        bounds=("lease", "session", "connection"),
        change=_NONE,
    ),
    _row(
        id="no-hung-request/unbounded-wait/any",
        property="no-hung-request",
        defect="does not end a wait when its time is over",
        sentence="the time of an acquire was over before it was granted",
        twin="reference:deaf-waiter",
        look=partial(
            near_faults,
            # One plan has no waits of both kinds: others ask for those that nothing ends.
            where=Where(unbounded, "no acquire's time was over", extra=True),
        ),
        change=_NONE,
    ),
    _row(
        id="grant-notice/late-word/any",
        property="grant-notice",
        defect="notifies a client that waits too late of its grant",
        sentence="a query named a client that had waited, within the time of a notice",
        twin="reference:late-word",
        look=partial(
            near_faults, where=Where(named_waiters, "no query named a client that had waited")
        ),
        change=PlanChange(clients=CLIENTS, locks=1, least_leases=20, options=BUSY),
    ),
    _row(
        id="no-multi-lock-deadlock/undetected-cycle/any",
        property="no-multi-lock-deadlock",
        defect="does not break a cycle of waits",
        sentence="clients that held a lock each waited for each other's",
        twin="reference:blind-to-cycles",
        look=partial(
            near_faults,
            where=Where(crossed_waits, "no clients waited for each other's locks"),
        ),
        # Of two locks, most clients that hold one wait for the other.
        change=PlanChange(clients=CLIENTS, locks=2, least_locks=2, least_leases=20, options=BUSY),
    ),
)
