"""Spans in which a lock was asked for, nobody could hold it, and nobody was granted it.

Liveness is judged only where every excuse is used up: possible holds, faults with the time to
recover from them and a lease begun anew, and for each acquire of unknown outcome the lease that it
may yet burn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.checkers.holds import INF, Attempt, Span, by_lock
from holdfast.harness.case import Case
from holdfast.harness.clock import SECOND
from holdfast.harness.events import Status

SLACK_NS = 3 * SECOND
"""A free lock may take so long to be noticed: polls, back-off, a busy host."""
GAP_NS = SECOND
"""Requests that follow one another so closely ask for the lock all the time."""

NO_ANSWER = ("never-sent", "unreachable", "unavailable", "ConnectionError", "Connection refused")
"""Words of errors by which no service answered: FAIL because the request never left, say."""

DEATHS = ("killed", "closed")
"""Ends of a claim after which nobody renews, waits or releases any more."""

Asked = tuple[int, int, Attempt]
"""[from_ns, to_ns] in which an attempt asked and was surely not granted"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A lock that nobody could hold from from_ns on and nobody was granted until to_ns.

    asked  who asked for it in that span, in order
    last   who could hold it last, None where nobody had it before
    """

    key: int
    from_ns: int
    to_ns: int
    asked: tuple[Attempt, ...]
    last: Attempt | None


def stalls(
    case: Case, asking: Callable[[Case, Attempt], Span | None], *, dead_let_go: bool
) -> Iterator[Stall]:
    """Every stall of every lock, longer than the slack and what unknown acquires may burn.

    asking       the span in which an attempt counts as asking without success, None if it does not
    dead_let_go  whether a dead owner's hold that nothing else would end counts as ended
    """
    for key, group in by_lock(case).items():
        asked = sorted(
            (
                (span[0], span[1], a)
                for a in group
                if (span := asking(case, a)) is not None and span[0] < span[1]
            ),
            key=lambda one: one[:2],
        )
        if asked:
            yield from _of_lock(case, key, group, asked, dead_let_go)


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
        ttl_ns = max((a.ttl_ns for group in by_lock(case).values() for a in group), default=0)
        ttl_ns = max(ttl_ns, case.lease_ns)
        promises = case.promises
        drift_ns = ttl_ns * promises.drift_ppm // 1_000_000
        case.memo["longest"] = ttl_ns + drift_ns + promises.slip_ns
    found: int = case.memo["longest"]
    return found


def _of_lock(
    case: Case, key: int, group: Sequence[Attempt], asked: Sequence[Asked], dead_let_go: bool
) -> Iterator[Stall]:
    unknown = [a.inv_ns for a in group if _unknown(a)]
    for from_ns, to_ns, within in _overlapping(_free(case, group, dead_let_go), asked):
        for run in _runs(from_ns, to_ns, within):
            first_ns, last_ns = run[0][0], max(e for _, e, _ in run)
            burning = bisect_left(unknown, last_ns)
            excused_ns = SLACK_NS + burning * (SLACK_NS + longest_ns(case))
            if last_ns - first_ns < excused_ns:
                continue
            before = [a for a in group if a.status is Status.OK and a.ret_ns <= first_ns]
            yield Stall(
                key=key,
                from_ns=first_ns,
                to_ns=last_ns,
                asked=tuple(a for _, _, a in run),
                last=max(before, key=lambda a: a.ret_ns, default=None),
            )


def _overlapping(
    free: Iterator[Span], asked: Sequence[Asked]
) -> Iterator[tuple[int, int, list[Asked]]]:
    """Each free span that is long enough to matter, with what was asked in it; one pass."""
    n = 0
    going_on: list[Asked] = []
    for from_ns, to_ns in free:
        if to_ns - from_ns < SLACK_NS:
            continue
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


def _free(case: Case, group: Sequence[Attempt], dead_let_go: bool) -> Iterator[Span]:
    """The spans of a run in which nobody could hold this lock and no fault disturbed it."""
    busy = [span for a in group if (span := _blocks(case, a, dead_let_go)) is not None]
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    busy += [(window.from_ns, window.to_ns + calm_ns) for window in case.windows]
    at_ns = case.start_ns
    for from_ns, to_ns in sorted(busy):
        if from_ns - case.error_ns > at_ns:
            yield at_ns, from_ns - case.error_ns
        at_ns = max(at_ns, to_ns + case.error_ns)
    if at_ns < case.end_ns:
        yield at_ns, case.end_ns


def _blocks(case: Case, a: Attempt, dead_let_go: bool) -> Span | None:
    """The span in which an attempt may keep others from the lock, None if in none."""
    if _unknown(a):
        burns = case.promises.bound == "lease" or (
            case.promises.bound != "none" and a.end_why in DEATHS
        )
        return None if burns else (a.inv_ns, INF)
    if a.status is not Status.OK or a.possible is None:
        return None
    begin_ns, over_ns = a.possible
    if a.waitings:
        begin_ns = max(begin_ns, int(case.history.rows["t_inv"][a.waitings[-1]]))
    if over_ns >= INF and dead_let_go and a.end_why in DEATHS:
        over_ns = a.end_ns
    return begin_ns, over_ns


def _unknown(a: Attempt) -> bool:
    return a.status in (Status.INFO, Status.INVOKED)


def _no_answer(case: Case, a: Attempt) -> bool:
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return any(words in error for words in NO_ANSWER)
