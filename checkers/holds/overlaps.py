"""Pairs of grants whose holds must have overlapped, in either order.

A grant took place between its call and its return, and its hold lasted at least to its last proof,
or as long as its lease bound the service. If in neither order of two grants the first hold can have
ended before the second began, both held at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from holdfast.checkers.holds.assumptions import ordered as tokens_in_order
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, conflict
from holdfast.checkers.holds.history_index import Indices, Ints
from holdfast.checkers.holds.reentry import anew
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode

Reach = Callable[[Attempt], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Two holds at once. older: the one granted first, or known first if undecided.

    proved     proofs alone show it; else it relies on what the service had promised
    """

    older: Attempt
    newer: Attempt
    proved: bool


def slack(case: Case) -> int:
    """Largest error between two timestamps of different writers, ns."""
    return 2 * case.error_ns


def proof_reach(attempt: Attempt) -> int:
    """How far its hold certainly lasted, by the service's responses. At least to its call."""
    return max(attempt.inv_ns, attempt.proof_ns)


def reach(case: Case) -> Reach:
    """How far a hold lasted if the service kept its promise."""
    if case.promises.bound == "none":
        return lambda a: (
            max(proof_reach(a), a.kept_ns) if a.known_ns <= a.kept_ns else proof_reach(a)
        )
    return lambda a: max(proof_reach(a), a.bound_ns)


def reaches(case: Case) -> Ints:
    """As `reach`, of every entry of the table."""
    if "reaches" not in case.memo:
        found = table(case)
        if case.promises.bound == "none":
            own = np.where(found.known <= found.kept, found.kept, -1)
        else:
            own = found.bound
        case.memo["reaches"] = np.maximum(proof_reaches(case), own)
    known: Ints = case.memo["reaches"]
    return known


def proof_reaches(case: Case) -> Ints:
    """As `proof_reach`, of every entry of the table."""
    found = table(case)
    return np.asarray(np.maximum(found.inv, found.proof))


def granted(case: Case) -> Mapping[int, Indices]:
    """Per lock the entries of the table that were certainly granted, by the time this was known."""
    if "granted" not in case.memo:
        known = table(case).known
        case.memo["granted"] = {
            key: _sorted_by(known, entries[known[entries] < INF])
            for key, entries in table(case).by_lock().items()
        }
    found: dict[int, Indices] = case.memo["granted"]
    return found


def _sorted_by(column: Ints, entries: Indices) -> Indices:
    return np.take(entries, np.argsort(column[entries], kind="stable"))


def overlaps(case: Case) -> Mapping[int, Sequence[Overlap]]:
    """Per lock the overlaps, at most one per newer grant: preferably proved, then the longest."""
    if "overlaps" not in case.memo:
        far = reaches(case)
        case.memo["overlaps"] = {
            key: _best(
                (o for knot in knots(case, ordered, far) for o in _in_time(case, knot)), case
            )
            for key, ordered in granted(case).items()
        }
    found: dict[int, list[Overlap]] = case.memo["overlaps"]
    return found


def disjoint(case: Case, key: int) -> bool:
    """Whether no two holds on an ancestor chain with this lock overlap: a lock has one chain, one
    of a hierarchy may be on several."""
    if "overlapping" not in case.memo:
        column = table(case).key
        case.memo["overlapping"] = {
            lock: None
            for last, found in overlaps(case).items()
            if found
            for lock in np.unique(column[granted(case)[last]]).tolist()
        }
    return key not in case.memo["overlapping"]


Disordered = tuple[Attempt, Attempt, bool]
"""(larger, smaller, proved): two grants by token; the hold of the smaller lasts beyond the time at
which the larger was known. proved: its proofs alone show that."""


def disordered(case: Case) -> Mapping[int, Sequence[Disordered]]:
    """Per lock the pairs whose tokens and holds contradict each other; at most one per smaller.

    Either the larger token was granted first, or both held at once: the rows do not decide which,
    so this contradicts the token order and is no violation of mutual exclusion.
    """
    if "disordered" not in case.memo:
        far = reaches(case)
        case.memo["disordered"] = {
            key: _disordered(case, knots(case, entries, far))
            for key, entries in granted_by_token(case).items()
        }
    found: dict[int, list[Disordered]] = case.memo["disordered"]
    return found


def disputes(case: Case, before_ns: int = INF) -> dict[int, str]:
    """Per lock with such a pair a clause that names both explanations, of the first pair of which
    both grants were known before before_ns. A pair that is out of order by its calls has one."""
    found: dict[int, str] = {}
    for key, pairs in disordered(case).items():
        lock = case.history.strings[key]
        for larger, smaller, _ in pairs:
            late = max(larger.known_ns, smaller.known_ns) >= before_ns
            if not late and not inverted(case, larger, smaller):
                found[key] = f"the tokens of '{lock}' are out of order, or two held it at once: "
                found[key] += disputed(larger, smaller)
                break
    return found


def inverted(case: Case, first: Attempt, second: Attempt) -> bool:
    """Whether the second was requested only after the first had certainly been granted."""
    return second.inv_ns > first.known_ns + slack(case)


def disputed(larger: Attempt, smaller: Attempt) -> str:
    """What two grants contradict, as a clause."""
    return (
        f"the hold of token {smaller.token} lasted beyond the grant of token {larger.token},"
        " which its times would allow to come first"
    )


def _disordered(case: Case, tied: Iterable[Sequence[Attempt]]) -> list[Disordered]:
    far, slack_ns = reach(case), slack(case)
    found: list[Disordered] = []
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
        found += [pairs[n] for n in sorted(pairs)]
    return found


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


class Leaders:
    """For each prefix of a list of attempts on one ancestor chain: the one with the largest value,
    and the largest of another owner. So a conflicting attempt is found without a scan."""

    def __init__(self, found: Sequence[Attempt], values: Sequence[int]) -> None:
        self._found, self._values = found, values
        self._top = {mode: self._tops(mode) for mode in Mode if any(a.mode == mode for a in found)}

    def _tops(self, mode: Mode) -> list[tuple[int, int]]:
        first = second = -1
        tops = [(first, second)]
        for n, a in enumerate(self._found):
            if a.mode == mode:
                if first < 0 or self._values[n] > self._values[first]:
                    mine = first >= 0 and self._found[first].owner == a.owner
                    first, second = n, second if mine else first
                elif a.owner != self._found[first].owner and (
                    second < 0 or self._values[n] > self._values[second]
                ):
                    second = n
            tops.append((first, second))
        return tops

    def best(self, b: Attempt, among: int) -> Attempt | None:
        """Of the first `among` attempts the one with the largest value that conflicts with b."""
        best = -1
        for mode, tops in self._top.items():
            if mode == b.mode != Mode.EXCLUSIVE:
                continue
            for n in tops[among]:
                if n >= 0 and self._found[n].owner != b.owner:
                    best = n if best < 0 or self._values[n] > self._values[best] else best
                    break
        return None if best < 0 else self._found[best]


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


def _again(case: Case, key: int, ordered: Indices) -> Iterator[tuple[int, Attempt, Attempt, bool]]:
    """Of `repeated` those of one owner: its second grant with a token was no re-entry, because all
    that it may have held before had been reported as over."""
    found = table(case)
    plain = ordered[found.ok[ordered] & (found.mode[ordered] == Mode.EXCLUSIVE)]
    mine = plain[found.owner[plain] >= 0]
    mine = mine[np.argsort(found.inv[mine], kind="stable")]
    fresh = mine[anew(case, found.by_lock()[key], mine)]
    before: dict[tuple[int, int], int] = {}
    for n in mine.tolist():
        before.setdefault((int(found.owner[n]), int(found.token[n])), n)
    for n in fresh.tolist():
        one = before[int(found.owner[n]), int(found.token[n])]
        if one != n:
            first, second = found.pick([one, n])
            yield key, first, second, True


def inversions(case: Case) -> Mapping[int, Sequence[tuple[Attempt, Attempt]]]:
    """Per lock (first, second) where second was requested after first was granted, but has the
    smaller token. At most one per second; readers of one lock among themselves do not count."""
    if "inversions" not in case.memo:
        case.memo["inversions"] = {
            key: _inverted(case, found) for key, found in granted_by_token(case).items()
        }
    found: dict[int, list[tuple[Attempt, Attempt]]] = case.memo["inversions"]
    return found


def granted_by_token(case: Case) -> Mapping[int, Indices]:
    """Per lock the entries of `granted` with a token, sorted by it; memoised."""
    if "granted by token" not in case.memo:
        case.memo["granted by token"] = {
            key: by_token(case, entries) for key, entries in granted(case).items()
        }
    found: dict[int, Indices] = case.memo["granted by token"]
    return found


def by_token(case: Case, entries: Indices) -> Indices:
    """The entries with a token, sorted by it."""
    token = table(case).token
    return _sorted_by(token, entries[token[entries] != NO_TOKEN])


def knots(case: Case, ordered: Indices, far: Ints) -> Iterator[list[Attempt]]:
    """Splits entries into groups in which a hold lasts beyond the time another was known.

    All pairs of `meetings` lie within a group; no hold reaches from one group to a later one.
    """
    if len(ordered) < 2:
        return
    known = table(case).known[ordered]
    # Two neighbours are tied if any hold up to the first lasts beyond the earliest `known` from the
    # second on. known 1 5 6 20, far 9 7 8 30: tied 1 1 0, so the first three are one group.
    soonest = np.minimum.accumulate(known[::-1])[::-1]
    tied = np.maximum.accumulate(far[ordered])[:-1] > soonest[1:] + slack(case)
    edges = np.flatnonzero(np.diff(tied, prepend=False, append=False))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield table(case).pick(ordered[begin : end + 1])


def meetings(
    ordered: Sequence[Attempt], reach: Reach, slack_ns: int
) -> Iterator[tuple[Attempt, Attempt]]:
    """All (a, b), a before b in the given order, where a lasts beyond the time b was known.

    Linear if few holds are open at once, whatever the order.
    """
    last_ns = INF
    soonest = [last_ns := min(last_ns, b.known_ns) for b in reversed(ordered)]
    open_now: list[tuple[int, Attempt]] = []
    for b, soonest_ns in zip(ordered, reversed(soonest), strict=True):
        open_now = [(to_ns, a) for to_ns, a in open_now if to_ns > soonest_ns + slack_ns]
        for to_ns, a in open_now:
            if to_ns > b.known_ns + slack_ns:
                yield a, b
        open_now.append((reach(b), b))


def _in_time(case: Case, found: Sequence[Attempt]) -> Iterator[Overlap]:
    """At most one per attempt: with the earlier known one that was proved, else bound, longest.

    `found` is in the order of `known`. Both must last beyond the time the other was known.
    """
    far, slack_ns = reach(case), slack(case)
    in_order = bool(found) and tokens_in_order(case, found[0].key)
    known = [a.known_ns for a in found]
    ways = [(proof_reach, True), (far, False)]
    leaders = [(Leaders(found, [way(a) for a in found]), way, proved) for way, proved in ways]
    for n, b in enumerate(found):
        for longest, way, proved in leaders:
            a = longest.best(b, min(n, bisect_left(known, way(b) - slack_ns)))
            if a is not None and way(a) > b.known_ns + slack_ns:
                swap = in_order and NO_TOKEN < b.token < a.token
                older, newer = (b, a) if swap else (a, b)
                yield Overlap(older=older, newer=newer, proved=proved)
                break


def _best(found: Iterable[Overlap], case: Case) -> list[Overlap]:
    far = reach(case)
    best: dict[int, Overlap] = {}
    for overlap in found:
        other = best.setdefault(overlap.newer.id, overlap)
        if (overlap.proved, far(overlap.older)) > (other.proved, far(other.older)):
            best[overlap.newer.id] = overlap
    return list(best.values())


def _inverted(case: Case, ordered: Indices) -> list[tuple[Attempt, Attempt]]:
    """The pairs of `inversions` of one lock: a running minimum of `known` over falling tokens."""
    found = table(case)
    down = ordered[::-1]
    token, shared = found.token[down], found.mode[down] != Mode.EXCLUSIVE
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
        known = np.where(shared & readers, INF, found.known[down])
        soonest = np.minimum.accumulate(known)
        before = np.where(larger < 0, INF, soonest[larger])
        late = np.flatnonzero((found.inv[down] > before + slack(case)) & (shared == readers))
        if len(late):
            since = np.concatenate(([INF], soonest))[:-1]
            first = np.maximum.accumulate(np.where(known < since, np.arange(len(down)), 0))
            pairs |= {n: int(first[larger[n]]) for n in late.tolist()}
    seconds = sorted(pairs)
    firsts = found.pick(down[[pairs[n] for n in seconds]])
    return list(zip(firsts, found.pick(down[seconds]), strict=True))
