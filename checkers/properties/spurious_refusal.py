"""Tries that were rejected as held although no client could hold the lock then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.checkers.facts.stalls import longest_ns
from holdfast.checkers.facts.wording import name, seconds
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import ENDS
from holdfast.checkers.holds.history_index import Bools, Indices, Ints, column
from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.checkers.holds.starvation import overdue_ns
from holdfast.checkers.holds.statements import believed
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Finding, Proof
from holdfast.harness.history.distinct_values import distinct

RELEASED = ENDS.index("release")
HELD = "held"


def refused_tries(case: Case) -> Indices:
    """Entries of the tries that returned "held", or were rejected without a reason."""
    attempts = table(case)
    tries = np.flatnonzero((attempts.op == Op.TRY) & (attempts.status == Status.FAIL))
    errors = column(case, "err")[attempts.row[tries]]
    texts = case.history.strings
    plain = [not texts[e] or texts[e].startswith(HELD) for e in errors.tolist()]
    tries = np.compress(np.array(plain, bool), tries)
    return np.compress(~_session_ended(case, tries), tries)


def _session_ended(case: Case, tries: Indices) -> Bools:
    """Whether a try may have been rejected because its client's session was over.

    The service ends a session before the client is notified: a try in [1.0, 1.3] of a client that
    is notified at 1.4 may have reached a service that no longer knew its session.
    """
    attempts, closed = table(case), case.history.of(Op.CLOSED)
    closed = closed[column(case, "attempt")[closed] == 0]
    promises = case.promises
    limit_ns = case.error_ns + (promises.notice_ns or promises.lasting_ns(case.lease_ns))
    # Calls and ends of sessions in one order, per process by time. Of c1's call at 1.0 and c1's
    # ends at 0.5 and 1.4 the order is 0.5 end, 1.0 call, 1.4 end: what follows the call counts.
    ends = np.repeat([True, False], [len(closed), len(tries)])
    process = np.concatenate((column(case, "process")[closed], attempts.process[tries]))
    t_ns = np.concatenate((column(case, "t_inv")[closed], attempts.inv[tries] - case.error_ns))
    order = np.lexsort((ends, t_ns, process))
    places = np.where(ends[order], np.arange(len(order)), len(order) - 1)
    following = order[np.minimum.accumulate(places[::-1])[::-1]]
    after = np.empty_like(order)
    after[order] = following
    mine = after[len(closed) :]
    own = ends[mine] & (process[mine] == attempts.process[tries])
    return np.asarray(own & (t_ns[mine] <= attempts.ret[tries] + limit_ns))


def spurious_refusals(case: Case, tries: Indices) -> Iterator[Finding]:
    attempts = table(case)
    for key, entries in attempts.by_lock().items():
        mine = tries[attempts.key[tries] == key]
        if not len(mine):
            continue
        spans = _spans(case, entries)
        free = mine[~amid(case, mine, spans)]
        shut = _shut_until(case, free, spans).tolist()
        for a, shut_ns in zip(attempts.pick(free), shut, strict=True):
            yield Finding(
                kind="spurious-refusal",
                sentence=(
                    f"{name(case, a.process)} asked for '{case.history.strings[key]}' from"
                    f" {seconds(case, a.inv_ns)} to {seconds(case, a.ret_ns)} and was rejected"
                    " as held, although no client could hold it then or waited for it"
                ),
                witnesses=(a.row,),
                lock=case.history.strings[key],
                t_ns=a.inv_ns,
                proof=Proof(
                    rule="spurious-refusal",
                    roles={"refused": a.row},
                    values={"shut_until": shut_ns},
                ),
            )


def amid(case: Case, mine: Indices, spans: tuple[Ints, Ints]) -> Bools:
    """Which entries were in flight in one of the spans, given as their begins and ends."""
    met = _shut_until(case, mine, spans)
    return np.asarray(met + case.error_ns >= table(case).inv[mine])


def _shut_until(case: Case, mine: Indices, spans: tuple[Ints, Ints]) -> Ints:
    """The latest end of these spans that began before each entry's return; -1: none."""
    attempts = table(case)
    begun, over = spans
    order = np.argsort(begun, kind="stable")
    begun = begun[order] - case.error_ns
    reached = np.maximum.accumulate(over[order])
    # The latest end of the spans begun so far; if none has, last is -1 and picks the -1 appended.
    last = np.searchsorted(begun, attempts.ret[mine], "right") - 1
    return np.asarray(np.concatenate((reached, [-1]))[last])


def _proved_by_releases(case: Case, keys: Ints) -> Bools:
    """Of which locks an ok release means that its attempt owned the lock until then.

    Where it may be the answer to an attempt whose session was over, the lock is closed by its
    lock-delay.
    """
    sure = {
        key: (promises := believed(case, key)).release_once or promises.release_proves
        for key in distinct(keys).tolist()
    }
    return np.array([sure[key] for key in keys.tolist()], bool)


def troubled(case: Case) -> tuple[Ints, Ints]:
    """Spans of faults, with the time to recover from them."""
    calm_ns = case.promises.recovery_ns + longest_ns(case)
    faults: Sequence[tuple[int, int]] = [(w.from_ns, w.to_ns + calm_ns) for w in case.windows]
    return np.array([f for f, _ in faults], np.int64), np.array([t for _, t in faults], np.int64)


def _spans(case: Case, entries: Indices) -> tuple[Ints, Ints]:
    """Spans in which a rejection may be right: possible holds, waiters, faults with recovery."""
    attempts = table(case)
    holds = entries[attempts.over[entries] >= 0]
    status, ret = column(case, "status"), column(case, "t_ret")
    ended = attempts.end_row[holds]
    given_back = (attempts.why[holds] == RELEASED) & (status[ended] == Status.OK)
    given_back &= ret[ended] == attempts.over[holds]
    if case.promises.delay_ns:
        given_back &= _proved_by_releases(case, attempts.key[holds])
    longest = np.iinfo(np.int64).max // 4
    ends = np.minimum(attempts.over[holds], longest)
    late = np.full(len(ends), EXPIRY_SLACK_NS)
    if case.starved:
        late = np.array([overdue_ns(case, end_ns) - end_ns for end_ns in ends.tolist()], np.int64)
    late = np.where(given_back, 0, late + case.promises.delay_ns)
    waits = entries[(attempts.op[entries] != Op.TRY) & (attempts.over[entries] < 0)]
    from_ns, to_ns = troubled(case)
    begun = [attempts.inv[holds], attempts.inv[waits], from_ns]
    over = [
        ends + late,
        np.minimum(attempts.ret[waits], longest),
        to_ns,
    ]
    return np.concatenate(begun), np.concatenate(over)
