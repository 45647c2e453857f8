"""Bounds on a hold's age and its remaining lease, to check the responses of queries.

The service measures both by its own clock, as of one time within the query; `operations.spent`
rounds them down. A suspended server's monotonic clock does not count the
suspension.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from holdfast.checkers.facts.latency_breakdown import said_ns
from holdfast.checkers.facts.wording import span
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.holds.leases import longest, shortest
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.starvation import Cover
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Status

Wrong = tuple[str, str, dict[str, int]]
"""Why a response cannot be right, the rule that proves it, and its numbers."""


def wrong_age(case: Case, holder: Attempt, said: int, inv_ns: int, ret_ns: int) -> Wrong | None:
    """Why the times of a hold, as reported between inv_ns and ret_ns, cannot be right.

    said    column `spent` of the query
    holder  the attempt whose acquire returned ok
    """
    held, left = said_ns(said)
    if held is not None:
        low_ns, high_ns = held
        most_ns = longest(ret_ns - holder.inv_ns + slack(case), case.promises)
        since_ns = max(0, inv_ns - holder.known_ns - slack(case))
        since_ns = max(0, since_ns - _standstill(case).ns(holder.known_ns, inv_ns))
        least_ns = shortest(since_ns, case.promises) - case.promises.slip_ns
        if low_ns > most_ns:
            why = f"it had been requested {span(most_ns)} before at most, not {span(low_ns)}"
            return why, "too-old", {"most": most_ns, "said": low_ns}
        if high_ns < least_ns:
            why = f"it had lasted for {span(least_ns)} at least, not {span(high_ns)}"
            return why, "too-young", {"least": least_ns, "said": high_ns}
    asked_ns = _lease_ns(case, holder, ret_ns)
    if left is not None and left[0] > asked_ns:
        why = f"no client had requested a lease of {span(left[0])} or more"
        return why, "lease-left", {"most": asked_ns, "said": left[0]}
    return None


@memoised
def _standstill(case: Case) -> Cover:
    """When the monotonic clock of a server may not have advanced."""
    clients = set(case.nodes.values())
    return Cover(
        (window.earliest_ns, window.to_ns)
        for window in case.windows
        if window.traits.stops_monotonic and not clients.issuperset(window.nodes)
    )


def _lease_ns(case: Case, holder: Attempt, by_ns: int) -> int:
    """The longest lease that can have been in force by then."""
    known: dict[int, tuple[list[int], list[int]]] = case.memo.setdefault("leases asked", {})
    if holder.id not in known:
        arg, res, inv, status = (column(case, name) for name in ("arg", "res", "t_inv", "status"))
        sent = [row for row in holder.renewals if status[row] != Status.FAIL]
        most = [max(int(arg[row]), int(res[row])) for row in (holder.row, *sent)]
        known[holder.id] = [int(inv[row]) for row in sent], list(accumulate(most, max))
    sent_ns, longest_ns = known[holder.id]
    return longest_ns[bisect_right(sent_ns, by_ns + slack(case))]
