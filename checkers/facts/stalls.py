"""Spans in which a lock was requested, no client could hold it, and no request was granted.

Liveness is judged only where every legitimate delay is used up: possible holds, faults with the
time to recover from them plus a restarted lease, for each acquire of unknown outcome the lease that
it may still hold, and the time in which the host was starved of CPU, but no more of it than the
longest silence of the service: what it answered it had the processor time for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holdfast.checkers.facts.fault_windows import kills_only_clients, stops_a_minority
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import DEATHS, ENDS, INF, Attempt, Span
from holdfast.checkers.holds.history_index import Bools, EntryIndices, Ints, column
from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.checkers.holds.starvation import starved_ns
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Status

GAP_NS = SECOND
"""Requests with gaps up to this count as one continuous span of requests."""

NO_ANSWER = ("never-sent", "unreachable", "unavailable", "ConnectionError", "Connection refused")
"""Texts of errors without a response of the service, such as a request that was never sent."""


Asking = Callable[[Case, Attempt], Span | None]
"""The span in which an attempt counts as requesting without success, None if it does not."""
Asked = tuple[int, int, Attempt]
"""[from_ns, to_ns] in which an attempt requested and was certainly not granted"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A lock that no client could hold from from_ns on, and that was not granted until to_ns.

    asked        attempts that requested it in that span, in order
    last         the attempt that could hold it last, None if no attempt had it before
    latest       the one of `asked` with the latest response
    whole        the span lasts from the call of the first to that response; else it is only part of
                 the time of a single request
    excused_ns   how long the lock may legitimately appear held although no client holds it
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
    """Every stall of every lock that is longer than the slack and the leases of unknown acquires.

    asking       the span in which an attempt counts as requesting without success, None if it does
                 not; within its call and return
    dead_let_go  whether a dead owner's hold that nothing else would end counts as ended
    """
    attempts, spans = table(case), _free_spans(case, dead_let_go)
    for key, entries in attempts.by_family().items():
        free = spans[key]
        if not free:
            continue
        refused = (attempts.status[entries] == Status.FAIL) | (attempts.queued[entries] >= 0)
        group = attempts.pick(entries[refused & _touching(attempts, entries, free)])
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


def _touching(found: Table, entries: EntryIndices, free: Sequence[Span]) -> Bools:
    """Which of these requested at a time that overlaps a free span."""
    begun = np.array([from_ns for from_ns, _ in free])
    over = np.array([to_ns for _, to_ns in free])
    # The first span that ends after the call. Spans [0, 3] [6, 9]: a request from 4 to 7 meets the
    # second one, one from 4 to 5 does not reach it.
    first = np.minimum(np.searchsorted(over, found.inv[entries], "right"), len(free) - 1)
    last = np.maximum(found.ret, found.queued)[entries]
    return np.asarray((begun[first] < last) & (over[first] > found.inv[entries]))


def answered_span(case: Case, a: Attempt) -> Span | None:
    """From the call of an ungranted acquire to the last time at which it was certainly not granted.

    Until the service's rejection; else until the last response that it still waits.
    """
    if a.status is Status.FAIL and not _no_answer(case, a):
        return a.inv_ns, a.ret_ns
    if a.waitings:
        return a.inv_ns, int(case.history.rows["t_inv"][a.waitings[-1]])
    return None


@memoised
def longest_ns(case: Case) -> int:
    """The longest lease, or session, of the run, as the slowest declared clock may count it."""
    promises = case.promises
    ttl_ns = int(max(table(case).ttl.max(initial=0), promises.lasting_ns(case.lease_ns)))
    drift_ns = ttl_ns * promises.drift_ppm // 1_000_000
    return ttl_ns + drift_ns + promises.slip_ns


def _of_lock(
    case: Case, entries: EntryIndices, asked: Sequence[Asked], free: Sequence[Span], asking: Asking
) -> Iterator[Stall]:
    attempts = table(case)
    unknown = attempts.inv[_burning(case, entries)]
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
            excused_ns += _starved(case, entries, first_ns, last_ns)
            if last_ns - first_ns < excused_ns:
                continue
            before = entries[attempts.ok[entries] & (attempts.ret[entries] <= first_ns)]
            last = before[np.argmax(attempts.ret[before])][None] if len(before) else before
            yield Stall(
                key=run[0][2].key,
                from_ns=first_ns,
                to_ns=last_ns,
                asked=tuple(a for _, _, a in run),
                last=next(iter(attempts.pick(last)), None),
                latest=latest,
                whole=(first_ns, last_ns) == (run[0][2].inv_ns, span[1]),
                excused_ns=excused_ns,
            )


def _starved(case: Case, entries: EntryIndices, from_ns: int, to_ns: int) -> int:
    """How much of a span too little processor time explains: at most the longest silence."""
    starved = starved_ns(case, from_ns, to_ns)
    return min(starved, longest_silence(case, entries, from_ns, to_ns)) if starved else 0


def longest_silence(case: Case, entries: EntryIndices, from_ns: int, to_ns: int) -> int:
    """The longest time of a span in which the service may have answered no refused request of some,
    or left one of them, which may have been the next in the queue, without an answer.

    An answer falls between the call, or the answer before it, and its return:

        requests  [1, 2] [3, 9] [4, 5]  in  0..10      3 to 9 (of the second), 4 to 10: 6
    """
    attempts, inv = table(case), column(case, "t_inv")
    met = (attempts.inv[entries] < to_ns) & (attempts.ret[entries] > from_ns)
    refused = entries[met & ~attempts.ok[entries] & ~attempts.unknown[entries]]
    longest, spans = 0, list[Span]()
    for a in attempts.pick(refused):
        answers = sorted(int(inv[row]) for row in a.waitings)
        times = [a.inv_ns, *answers, a.ret_ns]
        pieces = list(pairwise(times))
        longest = max(longest, *(min(to, to_ns) - max(begun, from_ns) for begun, to in pieces))
        spans += pieces[:-1] if _no_answer(case, a) else pieces
    whole = sorted((begun, to) for begun, to in spans if from_ns <= begun and to <= to_ns)
    # From the call of each one the service may have been silent until the earliest return of all
    # that were sent later.
    soonest = to_ns
    for begun, to in reversed(whole):
        longest = max(longest, soonest - begun)
        soonest = min(soonest, to)
    return max(longest, soonest - from_ns)


def _overlapping(
    free: Sequence[Span], asked: Sequence[Asked]
) -> Iterator[tuple[int, int, list[Asked]]]:
    """Each free span with the requests in it; one pass."""
    n = 0
    going_on: list[Asked] = []
    for from_ns, to_ns in free:
        while n < len(asked) and asked[n][0] < to_ns:
            going_on.append(asked[n])
            n += 1
        going_on = [one for one in going_on if one[1] > from_ns]
        yield from_ns, to_ns, going_on


def _runs(from_ns: int, to_ns: int, asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """The requests of a free span: each one that extends beyond it separately, the others in runs
    that end where no request was pending for longer than GAP_NS.

    A request within the span was rejected wrongly in any case; one that extends beyond it may have
    been rejected in time, with only its response late.
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


def _free_spans(case: Case, dead_let_go: bool) -> Mapping[int, Sequence[Span]]:
    """Per lock, those of one hierarchy together, the spans of `_free`; memoised."""
    known: dict[bool, dict[int, list[Span]]] = case.memo.setdefault("free spans", {})
    if dead_let_go not in known:
        faults = _disturbed(case)
        known[dead_let_go] = {
            key: _free(case, entries, faults, dead_let_go)
            for key, entries in table(case).by_family().items()
        }
    return known[dead_let_go]


def _free(
    case: Case, entries: EntryIndices, faults: Sequence[Span], dead_let_go: bool
) -> list[Span]:
    """The spans of at least EXPIRY_SLACK_NS in which no client could hold this lock and no fault
    disturbed it."""
    begun, over = _blocks(case, entries, dead_let_go)
    begun = np.concatenate((begun, np.array([from_ns for from_ns, _ in faults], np.int64)))
    over = np.concatenate((over, np.array([to_ns for _, to_ns in faults], np.int64)))
    order = np.argsort(begun, kind="stable")
    # Blocks sorted by beginning, with the latest end so far: [1, 4] [2, 9] [12, 15] in a run [0,
    # 20]. reached 0 4 9 15, ends 1 2 12 20: the gaps are [0, 1], [9, 12] and [15, 20].
    reached = np.maximum.accumulate(np.concatenate(([case.start_ns], over[order] + case.error_ns)))
    ends = np.append(begun[order] - case.error_ns, case.end_ns)
    return [
        (int(reached[n]), int(ends[n]))
        for n in np.flatnonzero(ends - reached >= EXPIRY_SLACK_NS).tolist()
    ]


def _disturbed(case: Case) -> list[Span]:
    """The spans in which a fault, or its lasting effect, is a legitimate reason for no grant."""
    lease_ns, promises = longest_ns(case), case.promises
    calm_ns = promises.recovery_ns + lease_ns
    spans = []
    for window in case.windows:
        if kills_only_clients(case, window):
            continue
        if promises.minority_ns >= 0 and stops_a_minority(case, window):
            spans.append((window.from_ns, window.from_ns + promises.minority_ns + lease_ns))
            spans.append((window.to_ns, window.to_ns + calm_ns))
        else:
            spans.append((window.from_ns, window.to_ns + calm_ns))
    return spans


def _blocks(case: Case, entries: EntryIndices, dead_let_go: bool) -> tuple[Ints, Ints]:
    """The spans in which attempts may exclude others from the lock."""
    attempts, bound = table(case), case.promises.bound
    gone = np.isin(attempts.why[entries], [ENDS.index(why) for why in DEATHS])
    stays = attempts.unknown[entries]
    if bound == "lease":
        stays = np.zeros(len(entries), bool)
    elif bound != "none":
        stays = stays & ~gone
    over = np.where(stays, INF, attempts.over[entries])
    begun = np.where(
        stays, attempts.inv[entries], np.maximum(attempts.inv, attempts.queued)[entries]
    )
    if bound == "none":
        told = [_given_back(case, a) for a in attempts.pick(entries[stays])]
        over[stays] = np.array(told, np.int64)
    if dead_let_go:
        # If it was granted, then to a dead owner, and else no client holds the lock.
        over = np.where(gone & stays, np.minimum(over, attempts.end[entries]), over)
        over = np.where(gone & ~stays & (over >= INF), attempts.end[entries], over)
    counts = stays | attempts.ok[entries]
    return begun[counts], over[counts]


def _burning(case: Case, entries: EntryIndices) -> EntryIndices:
    """The acquires of unknown outcome that may each exclude others for a lease.

    Where no lease ends a hold, those that were released exclude others as `_blocks` computes.
    """
    attempts = table(case)
    unknown = entries[attempts.unknown[entries]]
    if case.promises.bound != "none" or not len(unknown):
        return unknown
    kept = [_given_back(case, a) >= INF for a in attempts.pick(unknown)]
    return np.asarray(unknown[np.array(kept, bool)])


def _given_back(case: Case, a: Attempt) -> int:
    """Until when an acquire of unknown outcome may exclude others if nothing else ends it.

    After a release with the response "not the owner" the client never releases it again: an acquire
    that takes effect later has no owner to release it.
    """
    rows = case.history.rows
    told = [int(rows["t_ret"][r]) for r in a.releases if rows["status"][r] == Status.NOT_OWNER]
    return min(told, default=INF - longest_ns(case)) + longest_ns(case)


def _no_answer(case: Case, a: Attempt) -> bool:
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return any(words in error for words in NO_ANSWER)
