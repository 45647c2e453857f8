"""Holds that outlive a stroke, and requests of others before they end.

A server that forgets a grant shows it only to a client that asks while the grant is still in force.

    owner   |--grant--|............lease..............|
    server                 x----down----|
    another                        |-----asks-----|           an opportunity
    another                                              |asks|   none: the lease is over
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from holdfast.checkers.facts.wording import seconds, span
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.history_index import Indices, column, rows_of
from holdfast.checkers.holds.leases import INF, Renewal, contract_end, shortest
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.statements import believed
from holdfast.checkers.opportunities.open_spans import OpenSpans, open_spans
from holdfast.checkers.opportunities.responses import first_response
from holdfast.checkers.opportunities.strokes import Stroke, unstaged
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Seen

Strokes = Callable[[Case, Sequence[Window]], list[Stroke]]
RECENT = 12
"""Number of the last grants of a lock before a stroke among which open holds are looked for."""

LOOKS = 20
"""So often in a lease a service is taken to look for leases that are over; an answer that was on
its way at a stroke is taken to have arrived by the next time."""
OUTLIVED = (
    "a hold outlived what took an earlier state back, and another client asked before it ended"
)
"""What an opportunity is, as a clause that follows "3 times"."""


class Outlived(NamedTuple):
    """A hold that was open at a stroke.

    until_ns   its owner certainly still had a right to it, and acted as its owner
    left_ns    how much of it was left at the stroke; if its owner then lost it, of what it had been
               promised: the loss may be what the defect did
    """

    hold: Attempt
    stroke: Stroke
    until_ns: int
    left_ns: int

    @property
    def age_ns(self) -> int:
        """The time from the moment at which the grant was known to the stroke."""
        return self.stroke.from_ns - self.hold.known_ns


def outlived(
    case: Case, windows: Sequence[Window], strokes: Strokes, what: str, new_ns: int = INF
) -> Seen:
    """Holds across a stroke of which another client asked before they ended.

    what     the servers that a stroke strikes, for the nearest miss
    new_ns   the grant must have become known in this time before the stroke
    """
    hits = strokes(case, windows)
    if not hits:
        return unstaged(windows, what)
    across = [one for stroke in hits for one in _held(case, stroke)]
    moved = [one for one in across if _over_by_clock(case, one)]
    if across and not moved:
        return Seen(nearest=_not_moved(across))
    held = [one for one in moved if one.age_ns < new_ns]
    if moved and not held:
        youngest_ns = min(one.age_ns for one in moved)
        return Seen(
            nearest=f"the newest hold at a {hits[0].window.do} was {span(youngest_ns)} old, and"
            f" only one of less than {span(new_ns)} could be lost"
        )
    met = [(one, row) for one in held if (row := _asked(case, one)) >= 0]
    if met:
        first, asked = met[0]
        roles = {"hold": first.hold.row, "asked": asked}
        return Seen(count=len(met), roles=roles, fault=first.stroke.window.id)
    return Seen(nearest=_nearest(case, hits, held))


def _over_by_clock(case: Case, one: Outlived) -> bool:
    """Whether a stroke that set clocks ahead took all that a hold had left, and that was more than
    the time in which a service may not look at its clocks; True of other strokes."""
    moved_ns = one.stroke.moved_ns
    return moved_ns < 0 or case.lease_ns // LOOKS <= one.left_ns < moved_ns


def _not_moved(held: Sequence[Outlived]) -> str:
    stroke, every = held[0].stroke, [one.left_ns for one in held]
    most_ns = max(one.stroke.moved_ns for one in held)
    return (
        f"the holds had {span(min(every))} to {span(min(max(every), INF // 2))} left when a"
        f" {stroke.window.do} set clocks ahead by {span(most_ns)} at most"
    )


def _held(case: Case, stroke: Stroke) -> Iterator[Outlived]:
    """The holds that were known before a stroke and not given up by it, one lock after another."""
    attempts = table(case)
    before_ns = stroke.from_ns - slack(case)
    for key, entries in attempts.by_lock().items():
        if stroke.kept_ns >= 0 and _maybe_held(case, entries, stroke.kept_ns):
            continue
        made = partial(OpenSpans, entries, attempts.known, attempts.end)
        known = open_spans(case, ("hold", key), made).between(stroke.from_ns, before_ns)
        known = known[attempts.known[known] > stroke.kept_ns]
        last = known[np.argsort(attempts.known[known], kind="stable")][-RECENT:]
        for hold in attempts.pick(last):
            promised_ns = promised_until(case, hold, before_ns)
            until_ns = min(promised_ns, hold.end_ns)
            until_ns = min(until_ns, _first_answer(case, hold, stroke.from_ns)) - slack(case)
            if until_ns > stroke.from_ns:
                last_ns = promised_ns if hold.end_why == "lost" else until_ns
                yield Outlived(hold, stroke, until_ns, last_ns - stroke.from_ns)


def _maybe_held(case: Case, entries: Indices, t_ns: int) -> bool:
    """Whether any client may have held a lock at a time. A copy of then keeps the lock for that
    client when it is put back, until its lease is over: no other client is granted it meanwhile."""
    attempts, around_ns = table(case), slack(case)
    begun = attempts.ok[entries] | attempts.unknown[entries]
    begun &= attempts.inv[entries] <= t_ns + around_ns
    return bool((begun & (attempts.over[entries] >= t_ns - around_ns)).any())


def promised_until(case: Case, hold: Attempt, by_ns: int) -> int:
    """The end of a hold as the answers known by a time promise it; -1 if they promise nothing."""
    promises, inv, ret = case.promises, column(case, "t_inv"), column(case, "t_ret")
    if promises.bound == "none":
        return INF
    status, res = column(case, "status"), column(case, "res")
    if promises.bound == "session":
        beats = rows_of(case, Op.HEARTBEAT)
        mine = beats[column(case, "process")[beats] == hold.process]
        if not len(mine):
            return _by_renewals(case, hold, by_ns)
        mine = mine[(status[mine] == Status.OK) & (ret[mine] < by_ns)]
        if not len(mine):
            return -1
        last = mine[np.argmax(inv[mine])]
        return int(inv[last]) + shortest(int(res[last]), promises) - promises.slip_ns
    if promises.bound != "lease":
        return -1
    arg, sent = column(case, "arg"), list[Renewal]()
    for row in hold.renewals:
        if inv[row] >= by_ns:
            continue
        answered = 0 < ret[row] < by_ns
        outcome = Status(int(status[row])) if answered else Status.INFO
        ttl = res[row] if outcome is Status.OK else arg[row]
        ret_ns = int(ret[row]) if answered else INF
        sent.append(
            Renewal(row=row, inv_ns=int(inv[row]), ret_ns=ret_ns, status=outcome, ttl_ns=int(ttl))
        )
    return contract_end(hold.inv_ns, hold.ttl_ns, sent, believed(case, hold.key))[0]


def _by_renewals(case: Case, hold: Attempt, by_ns: int) -> int:
    """The same in a session that a library keeps alive unseen: the service heard of its owner when
    it confirmed the hold, at the latest, and each ok renewal names the session's length."""
    status, inv, ret, res = (column(case, name) for name in ("status", "t_inv", "t_ret", "res"))
    calls = [
        (int(inv[row]), int(res[row]))
        for row in hold.renewals
        if status[row] == Status.OK and 0 < ret[row] < by_ns
    ]
    ends = [sent_ns + shortest(ttl_ns, case.promises) for sent_ns, ttl_ns in calls if ttl_ns > 0]
    return max(ends) - case.promises.slip_ns if ends else -1


def _first_answer(case: Case, hold: Attempt, after_ns: int) -> int:
    """The return of the owner's first call of this hold that was sent after a time, INF if none:
    by then the service has learned of the hold again, or has refused it."""
    inv, ret = column(case, "t_inv"), column(case, "t_ret")
    calls = [row for row in (*hold.renewals, *hold.releases) if inv[row] > after_ns and ret[row]]
    return min((int(ret[row]) for row in calls), default=INF)


def _asked(case: Case, one: Outlived) -> int:
    """The row of an acquire of another client that the service answered, or had acknowledged to
    wait, while a hold outlived a stroke; -1 if there is none."""
    attempts, from_ns, until_ns = table(case), one.stroke.from_ns + slack(case), one.until_ns
    key = one.hold.key
    calls = open_spans(case, ("call", key), partial(_calls, attempts, key))
    near = calls.between(from_ns, until_ns)
    near = near[attempts.process[near] != one.hold.process]
    for other in attempts.pick(near):
        if conflict(one.hold, other) and _answered(case, other, one, from_ns):
            return other.row
    return -1


def _calls(attempts: Table, key: int) -> OpenSpans:
    """The acquires of a lock and of those that exclude it, while they were in flight."""
    return OpenSpans(attempts.beside(key), attempts.inv, attempts.ret)


def _answered(case: Case, other: Attempt, one: Outlived, from_ns: int) -> bool:
    """Whether a service that had forgotten the hold would have shown it to this acquire.

    A client may give up by itself and call that a refusal, and a response may be on its way when
    the servers are struck. So one that is no grant counts only if the servers had responded before
    it was sent, or were seen to be back; an acknowledgement also if it answers a request that was
    sent after the stroke, or came so long after it that it was not on its way.
    """
    until_ns, inv = one.until_ns, column(case, "t_inv")
    if other.status is Status.OK and from_ns < other.ret_ns < until_ns:
        return True
    up_ns = min(one.stroke.back_ns, first_response(case, from_ns))
    answers = [int(inv[row]) for row in other.waitings]
    # Acknowledged before, and still waiting when the servers were back.
    if answers and answers[0] < from_ns and one.stroke.back_ns < until_ns:
        return True
    if other.status in (Status.FAIL, Status.NOT_OWNER):
        back = other.inv_ns > up_ns or other.ret_ns > one.stroke.back_ns
        if back and other.ret_ns < until_ns:
            return True
    first_ns = min(up_ns, from_ns + (0 if other.inv_ns > from_ns else case.lease_ns // LOOKS))
    return any(first_ns < t_ns < until_ns for t_ns in answers)


def _nearest(case: Case, strokes: Sequence[Stroke], held: Sequence[Outlived]) -> str:
    """The nearest miss: what was missing, in numbers."""
    kind = strokes[0].window.do
    if not held:
        return f"no lock was held across a {kind}: 0 of {len(strokes)}"
    most = max(held, key=lambda one: one.until_ns - one.stroke.back_ns)
    lasted_ns = min(one.stroke.back_ns - one.stroke.from_ns for one in held)
    left_ns = max(one.until_ns - one.stroke.from_ns for one in held)
    if most.until_ns <= most.stroke.back_ns:
        return (
            f"the holds at a {kind} had {span(min(left_ns, INF // 2))} left at most, and the"
            f" shortest {kind} lasted {span(lasted_ns)}"
        )
    return (
        f"no other client asked for a lock that was held across a {kind} before that hold ended:"
        f" 0 of {len(held)} holds; the last one ended at {seconds(case, most.until_ns)}"
    )
