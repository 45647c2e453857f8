"""What a run contradicts of its system's declarations, once the holds are known.

Holds are derived without what the responses alone contradict (`statements`). An assumption that
rows of the same run contradict is withdrawn for that lock: no checker relies on it. The property
that *is* the assumption (token order, ownership, bounded bypass) reports the contradiction; the
others only state that they did not rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import leased_until
from holdfast.checkers.holds.held_at_once import overlaps
from holdfast.checkers.holds.history_index import UNKNOWN, Ints, column, rows_of
from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS, INF, longest
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.statements import (
    ENDING,
    FIFO,
    LASTING,
    RELEASES,
    RENEWALS,
    TOKENS,
    UNIQUE,
    Fallen,
    Look,
    answers,
    believed,
    first_of,
)
from holdfast.checkers.holds.token_order import off_lines, out_of_order, repeated
from holdfast.checkers.holds.waits import waits
from holdfast.harness.core.case import Case, Contradicted, Contradiction
from holdfast.harness.core.operations import Op, Status


def fallen(case: Case) -> Mapping[int, Fallen]:
    """Per lock (last of an ancestor chain, as `Table.by_lock`) the assumptions that its rows
    contradict; locks that contradict none are left out. O(n log n)."""
    contradicted: dict[int, dict[str, Contradiction]] = {}
    for name in LOOKS:
        for key, contradiction in against(case, name).items():
            contradicted.setdefault(key, {})[name] = contradiction
    return contradicted


def against(case: Case, assumption: str) -> Mapping[int, Contradiction]:
    """Per lock whose rows contradict an assumption, the first contradiction; memoised."""
    return first_of(case, assumption, LOOKS[assumption])


def asked_and_contradicted(case: Case) -> Contradicted:
    """What the rows contradict of the assumptions that a checker has asked for so far."""
    contradicted: dict[str, dict[int, Contradiction]] = {}
    for name, by_lock in case.memo.get("against", {}).items():
        contradicted.setdefault(name, {}).update(by_lock)
    for key, by_name in case.memo.get("answers", {}).items():
        for name, contradiction in by_name.items():
            contradicted.setdefault(name, {})[key] = contradiction
    return {name: by_lock for name, by_lock in contradicted.items() if by_lock}


def stands(case: Case, key: int, assumption: str) -> bool:
    """Whether nothing in the run contradicts an assumption about a lock."""
    return key not in against(case, assumption)


def stands_for(case: Case, key: int, assumption: str) -> bool:
    """The same for one path of a hierarchy, which may be on several ancestor chains."""
    return off_lines(case, key, against(case, assumption))


def first_come(case: Case, key: int) -> bool:
    """Whether a lock is certainly granted in the order of the requests (FIFO)."""
    return case.promises.order == "fifo" and stands_for(case, key, FIFO)


def told(case: Case, *assumptions: str) -> str:
    """The assumptions that a checker did not rely on, as a clause; "" if all of these stand."""
    parts = [
        f"'{name}' was not relied on for '{case.history.strings[key]}', because {each.why}"
        for name in assumptions
        for key, each in against(case, name).items()
    ]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return "; ".join(parts[:3]) + more


def _unique(case: Case) -> Iterator[tuple[int, Contradiction]]:
    if case.promises.tokens_unique:
        for key, first, second, _ in repeated(case):
            why = f"token {first.token} was granted twice"
            yield key, Contradiction(rows=(first.row, second.row), why=why)


def _first_come(case: Case) -> Iterator[tuple[int, Contradiction]]:
    if case.promises.order != "fifo":
        return
    for passed in waits(case).overtaken:
        by = next((one for one in passed.by if one.mode == passed.attempt.mode), None)
        if by is not None:
            yield (
                passed.attempt.key,
                Contradiction(
                    rows=(passed.attempt.row, by.row),
                    why=f"token {passed.attempt.token} was overtaken by token {by.token}",
                ),
            )


def _lasting(case: Case) -> Iterator[tuple[int, Contradiction]]:
    """Leases and sessions within which the service granted again, or responded that the attempt
    does not hold."""
    if case.promises.bound in ("none", "connection"):
        return
    for key, of_lock in overlaps(case).items():
        for overlap in of_lock:
            if not overlap.proved:
                why = "it was granted inside a lease"
                rows = (overlap.older.row, overlap.newer.row)
                yield key, Contradiction(rows=rows, why=why)
                break
    if case.promises.bound != "lease":
        return
    status = column(case, "status")
    follow = rows_of(case, Op.RENEW, Op.RELEASE)
    denied = follow[status[follow] == Status.NOT_OWNER]
    forced = set(column(case, "key")[rows_of(case, Op.FORCE_UNLOCK)].tolist())
    entries = table(case).of_rows(denied)
    denied, entries = denied[entries >= 0], entries[entries >= 0]
    for row, a in zip(denied.tolist(), table(case).pick(entries), strict=True):
        ret_ns = int(column(case, "t_ret")[row])
        own = (row in a.releases or row in a.renewals) and not any(
            int(column(case, "t_inv")[other]) < ret_ns for other in a.releases if other != row
        )
        lost = a.end_row != row and a.end_why != "release" and a.end_ns < ret_ns
        if a.status is not Status.OK or not own or lost or a.key in forced:
            continue
        until_ns, _ = leased_until(case, a, without=row)
        if until_ns > ret_ns + slack(case):
            why = "the service reported a lease as over before its time"
            yield a.key, Contradiction(rows=(a.row, row), why=why)


def _ending(case: Case) -> Iterator[tuple[int, Contradiction]]:
    """Leases renewed long after their end, although an ok renewal is declared to prove no break."""
    promises, attempts = case.promises, table(case)
    if promises.bound != "lease" or not promises.renew_proves:
        return
    rows, _ = attempts.following()
    status, kind = column(case, "status")[rows], column(case, "f")[rows]
    asked = (kind == Op.RENEW) & np.isin(status, (Status.OK, *UNKNOWN))
    rows = rows[asked]
    entry = attempts.of_rows(rows)
    rows, entry = rows[entry >= 0], entry[entry >= 0]
    if not len(rows):
        return
    late = _gap(case, rows, entry) > EXPIRY_SLACK_NS + 2 * case.error_ns
    late &= (column(case, "status")[rows] == Status.OK) & attempts.ok[entry]
    for n in np.flatnonzero(late).tolist():
        a, row = int(entry[n]), int(rows[n])
        if believed(case, int(attempts.key[a])).renew_proves:
            why = "a lease was renewed long after it must have expired"
            yield int(attempts.key[a]), Contradiction(rows=(int(attempts.row[a]), row), why=why)


def _gap(case: Case, rows: Ints, entry: Ints) -> Ints:
    """Per renewal: time from the end of all earlier leases to its sending, ns; -1 if one is open.

    Every earlier renewal counts from its return, or forever if its outcome is unknown.
    """
    attempts = table(case)
    back, inv = column(case, "t_ret")[rows], column(case, "t_inv")[rows]
    ok = column(case, "status")[rows] == Status.OK
    ttl = np.where(ok, column(case, "res")[rows], 0)
    over = np.where(ok & (ttl > 0), back + _longest(case, ttl), INF)
    own = attempts.ret[entry] + _longest(case, attempts.ttl[entry])
    own = np.where(attempts.ttl[entry] > 0, own, INF)
    before = np.concatenate(([-1], over[:-1]))
    first = np.ones(len(rows), bool)
    first[1:] = entry[1:] != entry[:-1]
    # Running maxima per attempt: ranks are offset by attempt, so that a new attempt's ranks exceed
    # all before. Ends 7 3 | 5 of two attempts: ranks 2 0 | 1, offset 5 3 | 7, maxima 5 5 | 7, minus
    # the offset 2 2 | 1: ends 7 7 | 5.
    values, rank = np.unique(np.where(first, own, np.maximum(own, before)), return_inverse=True)
    group = np.cumsum(first) * len(values)
    reached = values[np.maximum.accumulate(rank.ravel() + group) - group]
    return np.asarray(np.where(reached >= INF, -1, inv - reached))


def _longest(case: Case, ttl: Ints) -> Ints:
    most = int(ttl.max(initial=0))
    return np.asarray(ttl + (longest(most, case.promises) - most))


def _of_answers(name: str) -> Look:
    def look(case: Case) -> Iterator[tuple[int, Contradiction]]:

        contradiction_of = {key: each[name] for key, each in answers(case).items() if name in each}
        for line, entries in table(case).by_lock().items() if contradiction_of else ():
            for key in np.unique(table(case).key[entries]).tolist():
                if key in contradiction_of:
                    yield line, contradiction_of[key]

    return look


LOOKS: Mapping[str, Look] = {
    RENEWALS: _of_answers(RENEWALS),
    RELEASES: _of_answers(RELEASES),
    TOKENS: out_of_order,
    UNIQUE: _unique,
    FIFO: _first_come,
    LASTING: _lasting,
    ENDING: _ending,
}
"""assumption -> function that yields what contradicts it in a run, per lock"""
