"""The measurements of one run that every report shows: durations, counts, margins.

No verdict depends on them: a property is judged by its checker, from single rows.
"""

from __future__ import annotations

from holdfast.checkers.coverage.offered_load import pace
from holdfast.checkers.evidence.availability import availability, partitions, waits
from holdfast.checkers.evidence.calls import (
    acquires,
    grants_in_bins,
    latencies,
    timeouts,
    waiting,
)
from holdfast.checkers.evidence.failovers import failovers
from holdfast.checkers.evidence.load import closed_holds, hold_times, load
from holdfast.checkers.evidence.outdated_owners import beliefs, expired_owners, rejected_requests
from holdfast.checkers.evidence.renewals import margin_of_leases, renewal_margins
from holdfast.checkers.evidence.serializability import serialisability
from holdfast.checkers.evidence.token_log import token_log
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.facts.latency_breakdown import acquire_split
from holdfast.harness.core.case import Case
from holdfast.harness.history.calls import call_errors
from holdfast.harness.verdicts.evidence import (
    Evidence,
)


def evidence(case: Case) -> Evidence:
    """All numbers of a run. O(n log n) in the rows."""
    acquire, closed = acquires(case), closed_holds(case)
    hold_ns = hold_times(case, closed)
    wait_ns, depth = waiting(case)
    return Evidence(
        acquire=acquire,
        acquire_split=acquire_split(case),
        pace=pace(case),
        grants=grants_in_bins(case),
        latency_ns=latencies(case),
        wait_ns=wait_ns,
        hold_ns=hold_ns,
        renewal_margin_ns=dist(renewal_margins(case)[1]),
        queue_depth=depth,
        timeouts=timeouts(case),
        retry_rate=round(acquire.asked / acquire.granted, 3) if acquire.granted else None,
        tokens=token_log(case),
        rejected=rejected_requests(case),
        expired_owner=expired_owners(case),
        serialisability=serialisability(case),
        failovers=failovers(case),
        lease_margin=margin_of_leases(case, hold_ns.p99),
        utilisation=load(case, closed),
        stale_beliefs=beliefs(case),
        availability=availability(case),
        partitions=partitions(case),
        waits=waits(case),
        errors=tuple(call_errors(case.history)),
    )
