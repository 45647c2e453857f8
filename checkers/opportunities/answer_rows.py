"""Rows of the table about what a lock or its resource answers: a grant inside a hold, a token, a
query, a refusal, a command that came again. The same under every class of faults.

Those that are `beside` need no fault at all: they are asked for beside the conditions that every
kind of fault has, where the run stages none of a property's own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.places.answered_queries import answers
from holdfast.checkers.opportunities.places.granted_beside import (
    asked_in_delay,
    asked_inside,
    asked_when_full,
    numbered_after,
)
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.places.passed_on import free_tries
from holdfast.checkers.opportunities.places.served_again import (
    jobs_known,
    outdated_updates,
    requests_of_holders,
    sent_again,
)
from holdfast.checkers.opportunities.row import ALL, BUSY, CLIENTS, OpportunityRow
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op
from holdfast.harness.core.verdict import PlanChange

_row = partial(OpportunityRow, faults=FaultClass.ANY, bounds=ALL)
_CONTENDED = PlanChange(clients=CLIENTS, locks=1, least_leases=20, options=BUSY)


def _has_permits(case: Case) -> bool:
    """Whether permits of a semaphore are requested."""
    return bool((table(case).mode == Mode.PERMITS).any())


def _has_locks(case: Case) -> bool:
    """Whether clients request anything else, or nothing; the probe asks for the lock as a whole."""
    attempts = table(case)
    asked = attempts.mode[attempts.op != Op.PROBE]
    return not (_has_permits(case) and (asked == Mode.PERMITS).all())


ANSWER_ROWS: Sequence[OpportunityRow] = (
    _row(
        id="mutual-exclusion/held-at-once/any",
        property="mutual-exclusion",
        defect="grants a lock that is held",
        sentence="a client asked for a lock during another's hold, and was answered",
        twin="reference:release-by-lock",
        look=partial(
            near_faults,
            where=Where(asked_inside, "no client asked during another's hold"),
        ),
        change=_CONTENDED,
        beside=True,
        # Two holds of a semaphore conflict only beside others: it needs too few permits left.
        applies=_has_locks,
    ),
    _row(
        id="mutual-exclusion/over-admits/any",
        property="mutual-exclusion",
        defect="grants more permits of a semaphore than it has",
        sentence="a client asked for permits of a semaphore that had fewer left, and was answered",
        twin="reference:one-permit-more",
        look=partial(
            near_faults,
            where=Where(asked_when_full, "no client asked for more permits than were left"),
        ),
        change=_CONTENDED,
        beside=True,
        applies=_has_permits,
    ),
    _row(
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
        change=_CONTENDED,
        beside=True,
    ),
    _row(
        id="token-order/out-of-order/any",
        property="token-order",
        defect="grants tokens that are not in the order of its grants",
        sentence="a client was granted the lock after another client's token was known",
        twin="reference:dead-predecessor",
        look=partial(
            near_faults,
            where=Where(numbered_after, "no grant with a token came after another client's"),
        ),
        tokens=True,
        change=_CONTENDED,
        beside=True,
    ),
    _row(
        id="no-false-rejection/refuses-free/any",
        property="no-false-rejection",
        defect="refuses a try of a lock that is free",
        sentence="a try was answered after the hold before had ended",
        twin="reference:former-state",
        look=partial(
            near_faults,
            where=Where(free_tries, "no try was answered after a hold had ended", seldom=True),
        ),
        change=_CONTENDED,
    ),
    _row(
        id="no-false-rejection/refuses-holder/any",
        property="no-false-rejection",
        defect="refuses requests of the holder",
        sentence="a holder's request reached the resource",
        twin="reference:jealous-tokens",
        look=partial(
            near_faults,
            where=Where(
                requests_of_holders,
                "no holder's request reached the resource",
                seldom=True,
            ),
        ),
        change=_CONTENDED,
    ),
    _row(
        id="no-lost-update/old-version/any",
        property="no-lost-update",
        defect="admits an update that builds on an old version",
        sentence="an update that built on an old version reached the resource",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(outdated_updates, "no update built on an old version", extra=True),
        ),
        change=PlanChange(),
    ),
    _row(
        id="applied-once/applied-again/any",
        property="applied-once",
        defect="applies a command again that its client sent again",
        sentence="a write was sent again and accepted",
        twin="reference:forgotten-commands",
        look=partial(near_faults, where=Where(sent_again, "no accepted write was sent again")),
        change=_CONTENDED,
    ),
    _row(
        id="exactly-once-job/done-again/any",
        property="exactly-once-job",
        defect="forgets that a job was done",
        sentence="a client was answered that a job of another client was done",
        twin="reference:forgotten-jobs",
        look=partial(
            near_faults, where=Where(jobs_known, "no client found a job of another client done")
        ),
        change=_CONTENDED,
    ),
    _row(
        id="truthful-queries/false-answer/any",
        property="truthful-queries",
        defect="answers queries from an old or another state",
        sentence="a query was answered after a grant that was known",
        twin="reference:former-holder",
        look=partial(
            near_faults, where=Where(answers, "no query was answered after a known grant")
        ),
        change=_CONTENDED,
    ),
)
