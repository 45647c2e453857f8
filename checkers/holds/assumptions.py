"""Which declared assumptions stand for each lock: a run may contradict its system's declarations.

A system's declarations about its tokens, responses and leases let checkers conclude more than times
show. An assumption that rows of the same run contradict is withdrawn for that lock: no checker
relies on it. The property that *is* the assumption (token order, ownership, bounded bypass) reports
the contradiction; the others only state that they did not rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from holdfast.checkers.holds.history_index import (
    UNKNOWN,
    Ints,
    attempt_numbers,
    column,
    rows_of,
)
from holdfast.checkers.holds.leases import INF, longest
from holdfast.harness.core.case import Case, Contradicted, Contradiction
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Promises

TOKENS = "ordered tokens"
UNIQUE = "unique tokens"
RENEWALS = "an ok renewal proves an unbroken hold"
RELEASES = "an ok release proves ownership"
FIFO = "first come, first served"
LASTING = "a lease lasts"
ENDING = "a lease ends"


Fallen = Mapping[str, Contradiction]
"""assumption -> what contradicts it"""
NONE: Fallen = {}


def fallen(case: Case) -> Mapping[int, Fallen]:
    """Per lock (last of an ancestor chain, as `Table.by_lock`) the assumptions that its rows
    contradict; locks that contradict none are left out. O(n log n)."""
    found: dict[int, dict[str, Contradiction]] = {}
    for name in LOOKS:
        for key, contradiction in against(case, name).items():
            found.setdefault(key, {})[name] = contradiction
    return found


def against(case: Case, assumption: str) -> Mapping[int, Contradiction]:
    """Per lock whose rows contradict an assumption, the first contradiction; memoised."""
    known: dict[str, dict[int, Contradiction]] = case.memo.setdefault("against", {})
    if assumption not in known:
        found = dict(case.contradicted.get(assumption, {}))
        for key, contradiction in LOOKS[assumption](case):
            found.setdefault(key, contradiction)
        known[assumption] = found
    return known[assumption]


def asked_and_contradicted(case: Case) -> Contradicted:
    """What the rows contradict of the assumptions that a checker has asked for so far."""
    found: dict[str, dict[int, Contradiction]] = {}
    for name, by_lock in case.memo.get("against", {}).items():
        found.setdefault(name, {}).update(by_lock)
    for key, said in case.memo.get("answers", {}).items():
        for name, contradiction in said.items():
            found.setdefault(name, {})[key] = contradiction
    return {name: by_lock for name, by_lock in found.items() if by_lock}


def stands(case: Case, key: int, assumption: str) -> bool:
    """Whether nothing in the run contradicts an assumption about a lock."""
    return key not in against(case, assumption)


def stands_for(case: Case, key: int, assumption: str) -> bool:
    """The same for one path of a hierarchy, which may be on several ancestor chains."""
    from holdfast.checkers.holds.hierarchy import on_line, paths

    known = paths(case)
    if key not in known:
        return stands(case, key, assumption)
    wrong = against(case, assumption)
    return not any(line in known and on_line(known[line], known[key]) for line in wrong)


def ordered(case: Case, key: int) -> bool:
    """Whether the larger of two tokens of a lock certainly belongs to the later grant."""
    from holdfast.checkers.holds.derive import ordered_tokens

    return ordered_tokens(case) and stands_for(case, key, TOKENS)


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


def believed(case: Case, key: int) -> Promises:
    """The promises by which responses about a lock are interpreted, without those that its own rows
    contradict. `holds` derives by these."""
    known: dict[int, Promises] = case.memo.setdefault("believed", {})
    if key not in known:
        said, promises = answers(case).get(key, NONE), case.promises
        known[key] = replace(
            promises,
            renew_proves=promises.renew_proves and RENEWALS not in said,
            release_proves=promises.release_proves and RELEASES not in said,
            release_once=promises.release_once and RELEASES not in said,
        )
    return known[key]


def answers(case: Case) -> Mapping[int, Fallen]:
    """Per lock name what contradicts the meaning of its ok responses: an ok to a request sent after
    the service had responded that this attempt does not hold. From rows alone; memoised."""
    if "answers" not in case.memo:
        found: dict[int, dict[str, Contradiction]] = {}
        for name in (RENEWALS, RELEASES):
            for key, known_elsewhere in case.contradicted.get(name, {}).items():
                found.setdefault(key, {})[name] = known_elsewhere
        for over, row in _after_the_end(case):
            release = column(case, "f")[row] == Op.RELEASE
            name, what = (RELEASES, "release") if release else (RENEWALS, "renewal")
            if _declared(case.promises, name):
                why = f"a {what} returned ok after its attempt had ended"
                key = int(column(case, "key")[row])
                found.setdefault(key, {}).setdefault(name, Contradiction(rows=(over, row), why=why))
        case.memo["answers"] = found
    known: Mapping[int, Fallen] = case.memo["answers"]
    return known


def _declared(promises: Promises, name: str) -> bool:
    if name == RENEWALS:
        return promises.renew_proves
    return promises.release_once or promises.release_proves


def _after_the_end(case: Case) -> Iterator[tuple[int, int]]:
    """(row that certainly ended an attempt, a later ok of it), in order."""
    status, inv, ret = (column(case, name) for name in ("status", "t_inv", "t_ret"))
    follow = rows_of(case, Op.RENEW, Op.RELEASE)
    asked = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE)
    ends = follow[
        (status[follow] == Status.NOT_OWNER)
        | ((status[follow] == Status.OK) & (column(case, "f")[follow] == Op.RELEASE))
    ]
    refused = asked[(status[asked] == Status.FAIL) | (status[asked] == Status.NOT_OWNER)]
    ends = np.concatenate((ends, refused))
    oks = follow[status[follow] == Status.OK]
    if not len(ends) or not len(oks):
        return
    count, number = attempt_numbers(case)
    soonest = np.full(count, INF)
    np.minimum.at(soonest, number[ends], ret[ends])
    late = oks[inv[oks] - 2 * case.error_ns > soonest[number[oks]]]
    if not len(late):
        return
    # Sorted by (attempt, return): the first of each attempt is its earliest end.
    ends = ends[np.lexsort((ret[ends], number[ends]))]
    owners, first = np.unique(number[ends], return_index=True)
    over = ends[first[np.searchsorted(owners, number[late])]]
    yield from zip(over.tolist(), late.tolist(), strict=True)


Look = Callable[[Case], Iterator[tuple[int, Contradiction]]]


def _tokens(case: Case) -> Iterator[tuple[int, Contradiction]]:
    """Grants whose tokens contradict the order that their times, proofs or leases show."""
    from holdfast.checkers.holds.derive import ordered_tokens
    from holdfast.checkers.holds.overlaps import disordered, disputed, inversions, repeated

    if not ordered_tokens(case):
        return
    for key, pairs in inversions(case).items():
        for first, second in pairs[:1]:
            why = f"token {second.token} was granted after token {first.token}"
            yield key, Contradiction(rows=(first.row, second.row), why=why)
    for key, first, second, in_order in repeated(case):
        # What one client was granted twice tells nothing about the order of others.
        if in_order and first.process != second.process:
            why = f"token {first.token} was granted twice"
            yield key, Contradiction(rows=(first.row, second.row), why=why)
    for key, disorders in disordered(case).items():
        for larger, smaller, _ in disorders[:1]:
            rows, why = (larger.row, smaller.row), disputed(larger, smaller)
            yield key, Contradiction(rows=rows, why=why)


def _unique(case: Case) -> Iterator[tuple[int, Contradiction]]:
    from holdfast.checkers.holds.overlaps import repeated

    if case.promises.tokens_unique:
        for key, first, second, _ in repeated(case):
            why = f"token {first.token} was granted twice"
            yield key, Contradiction(rows=(first.row, second.row), why=why)


def _first_come(case: Case) -> Iterator[tuple[int, Contradiction]]:
    from holdfast.checkers.facts.overtakes import waits

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
    from holdfast.checkers.holds.attempt_table import table
    from holdfast.checkers.holds.derive import leased_until
    from holdfast.checkers.holds.overlaps import overlaps, slack

    if case.promises.bound in ("none", "connection"):
        return
    for key, found in overlaps(case).items():
        for overlap in found:
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
    from holdfast.checkers.holds.attempt_table import table
    from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS

    promises, found = case.promises, table(case)
    if promises.bound != "lease" or not promises.renew_proves:
        return
    rows, _ = found.following()
    status, kind = column(case, "status")[rows], column(case, "f")[rows]
    asked = (kind == Op.RENEW) & np.isin(status, (Status.OK, *UNKNOWN))
    rows = rows[asked]
    entry = found.of_rows(rows)
    rows, entry = rows[entry >= 0], entry[entry >= 0]
    if not len(rows):
        return
    late = _gap(case, rows, entry) > EXPIRY_SLACK_NS + 2 * case.error_ns
    late &= (column(case, "status")[rows] == Status.OK) & found.ok[entry]
    for n in np.flatnonzero(late).tolist():
        a, row = int(entry[n]), int(rows[n])
        if believed(case, int(found.key[a])).renew_proves:
            why = "a lease was renewed long after it must have expired"
            yield int(found.key[a]), Contradiction(rows=(int(found.row[a]), row), why=why)


def _gap(case: Case, rows: Ints, entry: Ints) -> Ints:
    """Per renewal: time from the end of all earlier leases to its sending, ns; -1 if one is open.

    Every earlier renewal counts from its return, or forever if its outcome is unknown.
    """
    from holdfast.checkers.holds.attempt_table import table

    found = table(case)
    back, inv = column(case, "t_ret")[rows], column(case, "t_inv")[rows]
    ok = column(case, "status")[rows] == Status.OK
    ttl = np.where(ok, column(case, "res")[rows], 0)
    over = np.where(ok & (ttl > 0), back + _longest(case, ttl), INF)
    own = found.ret[entry] + _longest(case, found.ttl[entry])
    own = np.where(found.ttl[entry] > 0, own, INF)
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
        from holdfast.checkers.holds.attempt_table import table

        said = {key: each[name] for key, each in answers(case).items() if name in each}
        for line, entries in table(case).by_lock().items() if said else ():
            for key in np.unique(table(case).key[entries]).tolist():
                if key in said:
                    yield line, said[key]

    return look


LOOKS: Mapping[str, Look] = {
    RENEWALS: _of_answers(RENEWALS),
    RELEASES: _of_answers(RELEASES),
    TOKENS: _tokens,
    UNIQUE: _unique,
    FIFO: _first_come,
    LASTING: _lasting,
    ENDING: _ending,
}
"""assumption -> function that yields what contradicts it in a run, per lock"""
