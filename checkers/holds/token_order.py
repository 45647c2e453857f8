"""Whether the tokens of a lock can be relied on: what contradicts their order or their uniqueness.

The larger of two ordered tokens belongs to the later grant. Times, proofs and leases may show
otherwise; then no checker relies on the order of that lock's tokens, and `token-order` reports it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, conflict, ordered_tokens
from holdfast.checkers.holds.hierarchy import on_line, paths
from holdfast.checkers.holds.history_index import EntryIndices
from holdfast.checkers.holds.overlaps import (
    Leaders,
    by_token,
    granted,
    knots,
    proof_reach,
    reach,
    reaches,
    slack,
)
from holdfast.checkers.holds.reentry import anew
from holdfast.checkers.holds.statements import TOKENS, first_of
from holdfast.harness.core.case import Case, Contradiction, memoised
from holdfast.harness.core.operations import Mode


def ordered(case: Case, key: int) -> bool:
    """Whether the larger of two tokens of a lock certainly belongs to the later grant."""
    return ordered_tokens(case) and off_lines(case, key, against_order(case))


def against_order(case: Case) -> Mapping[int, Contradiction]:
    """Per lock the first pair of grants that contradicts the order of its tokens; memoised."""
    return first_of(case, TOKENS, out_of_order)


def off_lines(case: Case, key: int, wrong: Mapping[int, Contradiction]) -> bool:
    """Whether no contradicted lock is on an ancestor chain with this one, which may be on
    several."""
    known = paths(case)
    if key not in known:
        return key not in wrong
    return not any(line in known and on_line(known[line], known[key]) for line in wrong)


def out_of_order(case: Case) -> Iterator[tuple[int, Contradiction]]:
    """Grants whose tokens contradict the order that their times, proofs or leases show."""
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


Disordered = tuple[Attempt, Attempt, bool]
"""(larger, smaller, proved): two grants by token; the hold of the smaller lasts beyond the time at
which the larger was known. proved: its proofs alone show that."""


@memoised
def disordered(case: Case) -> Mapping[int, Sequence[Disordered]]:
    """Per lock the pairs whose tokens and holds contradict each other; at most one per smaller.

    Either the larger token was granted first, or both held at once: the rows do not decide which,
    so this contradicts the token order and is no violation of mutual exclusion.
    """
    far = reaches(case)
    return {
        key: _disordered(case, knots(case, entries, far))
        for key, entries in granted_by_token(case).items()
    }


def disputes(case: Case, before_ns: int = INF) -> dict[int, str]:
    """Per lock with such a pair a clause that names both explanations, of the first pair of which
    both grants were known before before_ns. A pair that is out of order by its calls has one."""
    clauses: dict[int, str] = {}
    for key, pairs in disordered(case).items():
        lock = case.history.strings[key]
        for larger, smaller, _ in pairs:
            late = max(larger.known_ns, smaller.known_ns) >= before_ns
            if not late and not inverted(case, larger, smaller):
                clauses[key] = f"the tokens of '{lock}' are out of order, or two held it at once: "
                clauses[key] += disputed(larger, smaller)
                break
    return clauses


def inverted(case: Case, first: Attempt, second: Attempt) -> bool:
    """Whether the second was requested only after the first had certainly been granted."""
    return second.inv_ns > first.known_ns + slack(case)


def disputed(larger: Attempt, smaller: Attempt) -> str:
    """What two grants contradict, as a clause."""
    return (
        f"token {smaller.token} was still held after token {larger.token} was granted, and which"
        " of the two was granted first is not certain"
    )


def _disordered(case: Case, tied: Iterable[Sequence[Attempt]]) -> list[Disordered]:
    far, slack_ns = reach(case), slack(case)
    disordered_pairs: list[Disordered] = []
    for knot in tied:
        tokens = [a.token for a in knot]
        ended = sorted(range(len(knot)), key=lambda n: far(knot[n]))
        soonest, pairs, added = _Soonest(len(knot)), dict[int, Disordered](), 0
        in_time = sorted(knot, key=lambda a: a.known_ns)
        # Only an attempt that need not have held beyond the grant of the smaller can have come
        # first.
        for n in sorted(range(len(knot)), key=lambda n: knot[n].known_ns):
            a = knot[n]
            while added < len(ended) and far(knot[ended[added]]) <= a.known_ns + slack_ns:
                soonest.add(len(knot) - ended[added], knot[ended[added]])
                added += 1
            b = soonest.best(a, len(knot) - bisect_right(tokens, a.token))
            if b is not None and inverted(case, b, a):
                # One that may have come first as well as later tells more.
                b = _beside(case, a, in_time) or b
            if b is not None and far(a) > b.known_ns + slack_ns:
                pairs[n] = b, a, proof_reach(a) > b.known_ns + slack_ns
        disordered_pairs += [pairs[n] for n in sorted(pairs)]
    return disordered_pairs


def _beside(case: Case, a: Attempt, in_time: Sequence[Attempt]) -> Attempt | None:
    """The earliest known grant of a larger token that conflicts with a, of those that were known
    after the call of a and within its hold, and need not have lasted beyond the grant of a."""
    far, slack_ns = reach(case), slack(case)
    low = bisect_left(in_time, a.inv_ns - slack_ns, key=lambda b: b.known_ns)
    high = bisect_left(in_time, far(a) - slack_ns, key=lambda b: b.known_ns)
    return next(
        (
            b
            for b in in_time[low:high]
            if b.token > a.token and far(b) <= a.known_ns + slack_ns and conflict(b, a)
        ),
        None,
    )


class _Soonest:
    """Attempts at places from 1 on: finds the earliest known one among the first n that conflicts
    with a given one. A Fenwick tree: O(log n) to add and to query."""

    def __init__(self, places: int) -> None:
        self._tops: list[dict[int, list[Attempt]]] = [{} for _ in range(places + 1)]

    def add(self, place: int, a: Attempt) -> None:
        """Put an attempt at a place. Each node keeps, per mode, the earliest and the earliest of
        another owner."""
        while place < len(self._tops):
            top = self._tops[place].setdefault(a.mode, [])
            top.append(a)
            top.sort(key=lambda one: one.known_ns)
            top[1:] = [one for one in top[1:] if one.owner != top[0].owner][:1]
            place += place & -place

    def best(self, a: Attempt, among: int) -> Attempt | None:
        """The earliest known of the first `among` that conflicts with a."""
        met: list[Attempt] = []
        while among:
            for mode, top in self._tops[among].items():
                if not mode == a.mode != Mode.EXCLUSIVE:
                    met += [one for one in top if one.owner != a.owner]
            among -= among & -among
        return min(met, key=lambda one: one.known_ns, default=None)


def repeated(case: Case) -> Iterator[tuple[int, Attempt, Attempt, bool]]:
    """(lock, first, second, whether they came in this order and the second is no re-entry) of
    grants with one token.

    One owner may re-enter with its token, and readers that hold together may share one.
    """
    for key, ordered in granted_by_token(case).items():
        token = table(case).token[ordered]
        again = np.zeros(len(token) + 1, bool)
        again[1:-1] = token[1:] == token[:-1]
        twice = table(case).pick(ordered[again[:-1] | again[1:]])
        for _, same in groupby(twice, key=lambda attempt: attempt.token):
            group = sorted(same, key=lambda attempt: attempt.known_ns)
            leaders = Leaders(group, [-attempt.known_ns for attempt in group])
            for n, (before, second) in enumerate(pairwise(group), 1):
                # Of all that it conflicts with the one known first: its predecessor may overlap it,
                # while it certainly followed another.
                first = leaders.best(second, n) or before
                if first.process == second.process:
                    # What another client was granted before tells more than its own.
                    others = (a for a in group[:n] if a.process != second.process)
                    earlier = (a for a in others if conflict(a, second))
                    first = next(earlier, first)
                if first.mode == second.mode == Mode.SHARED or first.owner == second.owner:
                    continue
                apart = second.inv_ns > first.known_ns + slack(case)
                yield key, first, second, apart and conflict(first, second)
        yield from _again(case, key, ordered)


def _again(
    case: Case, key: int, ordered: EntryIndices
) -> Iterator[tuple[int, Attempt, Attempt, bool]]:
    """Of `repeated` those of one owner: its second grant with a token was no re-entry, because all
    that it may have held before had been reported as over."""
    attempts = table(case)
    plain = ordered[attempts.ok[ordered] & (attempts.mode[ordered] == Mode.EXCLUSIVE)]
    mine = plain[attempts.owner[plain] >= 0]
    mine = mine[np.argsort(attempts.inv[mine], kind="stable")]
    fresh = mine[anew(case, mine)]
    before: dict[tuple[int, int], int] = {}
    for n in mine.tolist():
        before.setdefault((int(attempts.owner[n]), int(attempts.token[n])), n)
    for n in fresh.tolist():
        one = before[int(attempts.owner[n]), int(attempts.token[n])]
        if one != n:
            first, second = attempts.pick([one, n])
            yield key, first, second, True


@memoised
def inversions(case: Case) -> Mapping[int, Sequence[tuple[Attempt, Attempt]]]:
    """Per lock (first, second) where second was requested after first was granted, but has the
    smaller token. At most one per second; readers of one lock among themselves do not count."""
    return {key: _inverted(case, entries) for key, entries in granted_by_token(case).items()}


@memoised
def granted_by_token(case: Case) -> Mapping[int, EntryIndices]:
    """Per lock the entries of `granted` with a token, sorted by it; memoised."""
    return {key: by_token(case, entries) for key, entries in granted(case).items()}


def _inverted(case: Case, ordered: EntryIndices) -> list[tuple[Attempt, Attempt]]:
    """The pairs of `inversions` of one lock: a running minimum of `known` over falling tokens."""
    attempts = table(case)
    down = ordered[::-1]
    token, shared = attempts.token[down], attempts.mode[down] != Mode.EXCLUSIVE
    # Tokens 9 7 7 4 with known 5 8 6 2: the last place with a larger token is -1 0 0 2, the
    # earliest known of all larger ones - 5 5 5. So a call of token 4 after 5 is an inversion with
    # token 9, the first place of that minimum.
    larger = np.arange(len(down)) - 1
    if not (token[1:] < token[:-1]).all():
        larger = np.searchsorted(-token, -token) - 1
    pairs: dict[int, int] = {}
    for readers in (False, True):
        if not (shared == readers).any():
            continue
        known = np.where(shared & readers, INF, attempts.known[down])
        soonest = np.minimum.accumulate(known)
        before = np.where(larger < 0, INF, soonest[larger])
        late = np.flatnonzero((attempts.inv[down] > before + slack(case)) & (shared == readers))
        if len(late):
            since = np.concatenate(([INF], soonest))[:-1]
            first = np.maximum.accumulate(np.where(known < since, np.arange(len(down)), 0))
            pairs |= {n: int(first[larger[n]]) for n in late.tolist()}
    seconds = sorted(pairs)
    firsts = attempts.pick(down[[pairs[n] for n in seconds]])
    return list(zip(firsts, attempts.pick(down[seconds]), strict=True))
