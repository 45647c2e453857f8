"""Spans in which a lock was asked for, nobody could hold it, and nobody was granted it.

Liveness is judged only where every excuse is used up: possible holds, faults with the time to
recover from them and a lease begun anew, and for each acquire of unknown outcome the lease that it
may yet burn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.checkers.holds import INF, Attempt, Span, by_lock
from holdfast.harness.case import Case
from holdfast.harness.clock import SECOND
from holdfast.harness.events import Op, Status

SLACK_NS = 3 * SECOND
"""A free lock may take so long to be noticed: polls, back-off, a busy host."""

NO_ANSWER = ("never-sent", "unreachable", "unavailable", "ConnectionError", "Connection refused")
"""Words of errors by which no service answered: FAIL because the request never left, say."""

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

    A refusal that the service gave; else the last answer that the attempt still waits.
    """
    rows = case.history.rows
    if a.status is Status.FAIL and not _no_answer(case, a):
        return a.inv_ns, a.ret_ns
    if a.waitings and a.status is not Status.OK:
        return a.inv_ns, int(rows["t_inv"][a.waitings[-1]])
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
    for from_ns, to_ns in _free(case, group, dead_let_go):
        inside = [(max(s, from_ns), min(e, to_ns), a) for s, e, a in asked]
        inside = [(s, e, a) for s, e, a in inside if s < e]
        if not inside:
            continue
        first_ns, last_ns = inside[0][0], max(e for _, e, _ in inside)
        burn_ns = longest_ns(case) * sum(_unknown(a) and a.inv_ns < last_ns for a in group)
        if last_ns - first_ns >= SLACK_NS + burn_ns:
            before = [a for a in group if a.status is Status.OK and a.ret_ns <= from_ns]
            yield Stall(
                key=key,
                from_ns=first_ns,
                to_ns=last_ns,
                asked=tuple(a for _, _, a in inside),
                last=max(before, key=lambda a: a.ret_ns, default=None),
            )


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
            case.promises.bound != "none" and _process_died(case, a)
        )
        return None if burns else (a.inv_ns, INF)
    if a.status is not Status.OK or a.possible is None:
        return None
    begin_ns, over_ns = a.possible
    if a.waitings:
        begin_ns = max(begin_ns, int(case.history.rows["t_inv"][a.waitings[-1]]))
    if over_ns >= INF and dead_let_go and a.end_why in ("killed", "closed"):
        over_ns = a.end_ns
    return begin_ns, over_ns


def _unknown(a: Attempt) -> bool:
    return a.status in (Status.INFO, Status.INVOKED)


def _process_died(case: Case, a: Attempt) -> bool:
    """Whether the client of an attempt was killed, or ended all its claims, after asking."""
    if any(w.do == "kill" and a.node in w.nodes and w.to_ns >= a.inv_ns for w in case.windows):
        return True
    ends = case.history.rows[case.history.of(Op.CLOSED)]
    mine = (ends["process"] == a.process) & (ends["attempt"] == 0) & (ends["t_inv"] >= a.inv_ns)
    return bool(mine.any())


def _no_answer(case: Case, a: Attempt) -> bool:
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return any(words in error for words in NO_ANSWER)
