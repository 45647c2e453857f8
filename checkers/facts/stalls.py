"""Spans in which a lock was asked for, nobody could hold it, and nobody was granted it.

Liveness is judged only where every excuse is used up: possible holds, faults with the time to
recover from them and a lease begun anew, and for each acquire of unknown outcome the lease that it
may yet burn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.facts.fault_windows import stops_a_minority
from holdfast.checkers.holds.attempt_table import ENDS, Bools, Table, table
from holdfast.checkers.holds.derive import INF, Attempt, Span
from holdfast.checkers.holds.history_index import Indices, Ints
from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Status

GAP_NS = SECOND
"""Requests that follow one another so closely ask for the lock all the time."""

NO_ANSWER = ("never-sent", "unreachable", "unavailable", "ConnectionError", "Connection refused")
"""Words of errors by which no service answered: FAIL because the request never left, say."""

DEATHS = ("killed", "closed")
"""Ends of a claim after which nobody renews, waits or releases any more."""

Asking = Callable[[Case, Attempt], Span | None]
"""The span in which an attempt counts as asking without success, None if it does not."""
Asked = tuple[int, int, Attempt]
"""[from_ns, to_ns] in which an attempt asked and was surely not granted"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A lock that nobody could hold from from_ns on and nobody was granted until to_ns.

    asked        who asked for it in that span, in order
    last         who could hold it last, None where nobody had it before
    latest       of those who asked the one that was answered last
    whole        the span lasts from the call of the first to that answer; else it is only a part of
                 the time in which a single one asked
    excused_ns   for how long the lock may seem closed although nobody holds it
    """

    key: int
    from_ns: int
    to_ns: int
    asked: tuple[Attempt, ...]
    last: Attempt | None
    latest: Attempt
    whole: bool
    excused_ns: int


def stalls(case: Case, asking: Asking, *, dead_let_go: bool) -> Iterator[Stall]:
    """Every stall of every lock, longer than the slack and what unknown acquires may burn.

    asking       the span in which an attempt counts as asking without success, None if it does
                 not; it lies between its call and its answer
    dead_let_go  whether a dead owner's hold that nothing else would end counts as ended
    """
    found, faults = table(case), _disturbed(case)
    for entries in found.by_family().values():
        free = _free(case, entries, faults, dead_let_go)
        if not free:
            continue
        refused = (found.status[entries] == Status.FAIL) | (found.queued[entries] >= 0)
        group = found.pick(entries[refused & _touching(found, entries, free)])
        asked = sorted(
            (
                (span[0], span[1], a)
                for a in group
                if (span := asking(case, a)) is not None and span[0] < span[1]
            ),
            key=lambda one: one[:2],
        )
        if asked:
            yield from _of_lock(case, entries, asked, free, asking)


def _touching(found: Table, entries: Indices, free: Sequence[Span]) -> Bools:
    """Which of these asked at a time that meets a free span."""
    begun = np.array([from_ns for from_ns, _ in free])
    over = np.array([to_ns for _, to_ns in free])
    first = np.minimum(np.searchsorted(over, found.inv[entries], "right"), len(free) - 1)
    last = np.maximum(found.ret, found.queued)[entries]
    return np.asarray((begun[first] < last) & (over[first] > found.inv[entries]))


def answered_span(case: Case, a: Attempt) -> Span | None:
    """From the call of an ungranted acquire to the last moment at which it surely was not granted.

    Until the refusal that the service gave; else until the last answer that it still waits.
    """
    if a.status is Status.FAIL and not _no_answer(case, a):
        return a.inv_ns, a.ret_ns
    if a.waitings:
        return a.inv_ns, int(case.history.rows["t_inv"][a.waitings[-1]])
    return None


def longest_ns(case: Case) -> int:
    """The longest lease of the run, as the slowest clock that is declared may count it."""
    if "longest" not in case.memo:
        ttl_ns = int(max(table(case).ttl.max(initial=0), case.lease_ns))
        promises = case.promises
        drift_ns = ttl_ns * promises.drift_ppm // 1_000_000
        case.memo["longest"] = ttl_ns + drift_ns + promises.slip_ns
    found: int = case.memo["longest"]
    return found


def _of_lock(
    case: Case, entries: Indices, asked: Sequence[Asked], free: Sequence[Span], asking: Asking
) -> Iterator[Stall]:
    found = table(case)
    unknown = found.inv[_burning(case, entries)]
    for from_ns, to_ns, within in _overlapping(free, asked):
        for run in _runs(from_ns, to_ns, within):
            first_ns, last_ns = run[0][0], max(e for _, e, _ in run)
            latest = max(run, key=lambda one: one[1])[2]
            span = asking(case, latest) or (0, 0)
            burning = int(np.searchsorted(unknown, last_ns))
            delay_ns = case.promises.delay_ns
            excused_ns = (
                EXPIRY_SLACK_NS
                + delay_ns
                + burning * (EXPIRY_SLACK_NS + delay_ns + longest_ns(case))
            )
            if last_ns - first_ns < excused_ns:
                continue
            before = entries[found.ok[entries] & (found.ret[entries] <= first_ns)]
            last = before[np.argmax(found.ret[before])][None] if len(before) else before
            yield Stall(
                key=run[0][2].key,
                from_ns=first_ns,
                to_ns=last_ns,
                asked=tuple(a for _, _, a in run),
                last=next(iter(found.pick(last)), None),
                latest=latest,
                whole=(first_ns, last_ns) == (run[0][2].inv_ns, span[1]),
                excused_ns=excused_ns,
            )


def _overlapping(
    free: Sequence[Span], asked: Sequence[Asked]
) -> Iterator[tuple[int, int, list[Asked]]]:
    """Each free span with what was asked in it; one pass."""
    n = 0
    going_on: list[Asked] = []
    for from_ns, to_ns in free:
        while n < len(asked) and asked[n][0] < to_ns:
            going_on.append(asked[n])
            n += 1
        going_on = [one for one in going_on if one[1] > from_ns]
        yield from_ns, to_ns, going_on


def _runs(from_ns: int, to_ns: int, asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """What was asked within a free span: each request that reaches beyond it by itself, the others
    in runs that end where nobody asked for longer than GAP_NS.

    A request that lies within is turned down wrongly in any case; one that does not may have been
    turned down in time, and only its answer was late.
    """
    run: list[Asked] = []
    asked_to_ns = 0
    for begin_ns, end_ns, a in asked:
        if begin_ns < from_ns or end_ns > to_ns:
            yield [(max(begin_ns, from_ns), min(end_ns, to_ns), a)]
            continue
        if run and begin_ns - asked_to_ns > GAP_NS:
            yield run
            run = []
        run.append((begin_ns, end_ns, a))
        asked_to_ns = max(asked_to_ns, end_ns)
    if run:
        yield run


def _free(case: Case, entries: Indices, faults: Sequence[Span], dead_let_go: bool) -> list[Span]:
    """The spans of a run, long enough to matter, in which nobody could hold this lock and no fault
    disturbed it."""
    begun, over = _blocks(case, entries, dead_let_go)
    begun = np.concatenate((begun, np.array([from_ns for from_ns, _ in faults], np.int64)))
    over = np.concatenate((over, np.array([to_ns for _, to_ns in faults], np.int64)))
    order = np.argsort(begun, kind="stable")
    reached = np.maximum.accumulate(np.concatenate(([case.start_ns], over[order] + case.error_ns)))
    ends = np.append(begun[order] - case.error_ns, case.end_ns)
    return [
        (int(reached[n]), int(ends[n]))
        for n in np.flatnonzero(ends - reached >= EXPIRY_SLACK_NS).tolist()
    ]


def _disturbed(case: Case) -> list[Span]:
    """The spans in which a fault, or what it leaves behind, excuses that nobody is granted any."""
    lease_ns, promises = longest_ns(case), case.promises
    calm_ns = promises.recovery_ns + lease_ns
    spans = []
    for window in case.windows:
        if promises.minority_ns >= 0 and stops_a_minority(case, window):
            spans.append((window.from_ns, window.from_ns + promises.minority_ns + lease_ns))
            spans.append((window.to_ns, window.to_ns + calm_ns))
        else:
            spans.append((window.from_ns, window.to_ns + calm_ns))
    return spans


def _blocks(case: Case, entries: Indices, dead_let_go: bool) -> tuple[Ints, Ints]:
    """The spans in which attempts may keep others from the lock."""
    found, bound = table(case), case.promises.bound
    gone = np.isin(found.why[entries], [ENDS.index(why) for why in DEATHS])
    stays = found.unknown[entries]
    if bound == "lease":
        stays = np.zeros(len(entries), bool)
    elif bound != "none":
        stays = stays & ~gone
    over = np.where(stays, INF, found.over[entries])
    begun = np.where(stays, found.inv[entries], np.maximum(found.inv, found.queued)[entries])
    if bound == "none":
        told = [_given_back(case, a) for a in found.pick(entries[stays])]
        over[stays] = np.array(told, np.int64)
    if dead_let_go:
        over = np.where(gone & ~stays & (over >= INF), found.end[entries], over)
    counts = stays | found.ok[entries]
    return begun[counts], over[counts]


def _burning(case: Case, entries: Indices) -> Indices:
    """The acquires of unknown outcome that may each keep others out for a lease.

    Where no lease ends a hold, those that were given back keep others out as `_blocks` says.
    """
    found = table(case)
    unknown = entries[found.unknown[entries]]
    if case.promises.bound != "none" or not len(unknown):
        return unknown
    kept = [_given_back(case, a) >= INF for a in found.pick(unknown)]
    return np.asarray(unknown[np.array(kept, bool)])


def _given_back(case: Case, a: Attempt) -> int:
    """Until when an acquire of unknown outcome may keep others out, where nothing else ends it.

    Whoever gave it back and was told that it does not hold will never release it: what arrived
    late after that is nobody's.
    """
    rows = case.history.rows
    told = [int(rows["t_ret"][r]) for r in a.releases if rows["status"][r] == Status.NOT_OWNER]
    return min(told, default=INF - longest_ns(case)) + longest_ns(case)


def _no_answer(case: Case, a: Attempt) -> bool:
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return any(words in error for words in NO_ANSWER)
