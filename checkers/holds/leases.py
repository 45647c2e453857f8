"""The shortest time that leases bind a service, and the longest time that it may count them.

Pure arithmetic over the renewals of one attempt. Unknowns are decided in favour of the service: a
renewal of unknown outcome may have shortened a lease and never extends a promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Promises

EXPIRY_SLACK_NS = 3 * SECOND
"""How late a service or client may notice that a lock is free: polls, back-off, a busy host."""

INF = 1 << 62
"""never, in ns"""
MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewal:
    """One renewal of an attempt. ttl_ns: granted if it returned ok, else requested."""

    row: int
    inv_ns: int
    ret_ns: int
    status: Status
    ttl_ns: int


def shortest(ttl_ns: int, promises: Promises) -> int:
    """A lease as the fastest clock of the service may count it, slip not subtracted."""
    return ttl_ns + -ttl_ns * promises.drift_ppm // MILLION


def longest(ttl_ns: int, promises: Promises) -> int:
    """A lease as the slowest clock of the service may count it, slip included."""
    return ttl_ns - -ttl_ns * promises.drift_ppm // MILLION + promises.slip_ns


def contract_end(
    begun_ns: int, ttl_ns: int, renewals: Sequence[Renewal], promises: Promises
) -> tuple[int, int]:
    """(time before which the service may not end a lease, the row it counts from or -1: its grant).

    begun_ns  the earliest moment at which the lease can have begun
    renewals  in order of their sending, none after the end of the claim

    An ok renewal counts from its sending. One of unknown outcome may take effect at any time after
    that, also after a later ok one. Where ok does not mean "owned without a break" an ok renewal
    proves no more than one of unknown outcome, unless it returned before the lease could expire.
    """
    row, end_ns = -1, begun_ns + shortest(ttl_ns, promises)
    unsettled_ns, last_ret_ns, last_ttl_ns = INF, -INF, 0
    for n, renewal in enumerate(renewals):
        if renewal.status in (Status.FAIL, Status.NOT_OWNER):
            continue
        ttl = shortest(renewal.ttl_ns, promises)
        in_time = promises.renew_proves or not _may_revive(renewals, n, end_ns - promises.slip_ns)
        if renewal.status is Status.OK and in_time:
            if last_ret_ns >= renewal.inv_ns:
                unsettled_ns = min(unsettled_ns, last_ttl_ns)
            row, end_ns = renewal.row, renewal.inv_ns + min(ttl, unsettled_ns)
            last_ret_ns, last_ttl_ns = renewal.ret_ns, ttl
        else:
            unsettled_ns = min(unsettled_ns, ttl)
            end_ns = min(end_ns, renewal.inv_ns + ttl)
    return end_ns - promises.slip_ns, row


def _may_revive(renewals: Sequence[Renewal], n: int, end_ns: int) -> bool:
    """Whether the lease may have expired, or another renewal met it, before the n-th took
    effect."""
    renewal = renewals[n]
    follower = renewals[n + 1].inv_ns if n + 1 < len(renewals) else INF
    return renewal.ret_ns > end_ns or follower <= renewal.ret_ns


def possible_end(
    granted_ns: int, ttl_ns: int, renewals: Sequence[Renewal], promises: Promises
) -> int:
    """The latest time at which the service may count a lease as running, if granted by granted_ns.

    INF if the lease does not expire, or if a renewal of unknown outcome could revive it.
    """
    if ttl_ns <= 0:
        return INF
    end_ns = granted_ns + longest(ttl_ns, promises)
    for renewal in renewals:
        unknown = renewal.status in (Status.INFO, Status.INVOKED)
        if not unknown and renewal.status is not Status.OK:
            continue
        if renewal.ttl_ns <= 0 or (unknown and not promises.renew_proves):
            return INF
        if not unknown:
            end_ns = max(end_ns, renewal.ret_ns + longest(renewal.ttl_ns, promises))
        elif renewal.inv_ns <= end_ns:
            end_ns += longest(renewal.ttl_ns, promises)
    return end_ns
