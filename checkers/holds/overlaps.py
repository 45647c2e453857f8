"""How far holds reached, and which grants may have met.

A grant took place between its call and its return, and its hold lasted at least to its last proof,
or as long as its lease bound the service. `held_at_once` and `token_order` judge the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.history_index import Bools, EntryIndices, Ints
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import NO_TOKEN, Mode

Reach = Callable[[Attempt], int]


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


@memoised
def reaches(case: Case) -> Ints:
    """As `reach`, of every entry of the table."""
    attempts = table(case)
    if case.promises.bound == "none":
        own = np.where(attempts.known <= attempts.kept, attempts.kept, -1)
    else:
        own = attempts.bound
    return np.maximum(proof_reaches(case), own)


def proof_reaches(case: Case) -> Ints:
    """As `proof_reach`, of every entry of the table."""
    attempts = table(case)
    return np.asarray(np.maximum(attempts.inv, attempts.proof))


@memoised
def granted(case: Case) -> Mapping[int, EntryIndices]:
    """Per lock the entries of the table that were certainly granted, by the time this was known."""
    known = table(case).known
    return {
        key: _sorted_by(known, entries[known[entries] < INF])
        for key, entries in table(case).by_lock().items()
    }


def _sorted_by(column: Ints, entries: EntryIndices) -> EntryIndices:
    return np.take(entries, np.argsort(column[entries], kind="stable"))


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


def by_token(case: Case, entries: EntryIndices) -> EntryIndices:
    """The entries with a token, sorted by it."""
    token = table(case).token
    return _sorted_by(token, entries[token[entries] != NO_TOKEN])


def knots(case: Case, ordered: EntryIndices, far: Ints) -> Iterator[list[Attempt]]:
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


def met_full(inv: Ints, ret: Ints, end: Ints, wanted: Ints, limits: Ints) -> Bools:
    """Which acquires of permits of one lock met fewer than they wanted, at some time of the call.

    inv, ret        their calls; end: of their certain holds [ret, end], before ret if there is none
    wanted, limits  permits that each asked for, and that there are

    How many are taken is a sum of steps, and an acquire of one of two permits meets two taken:

        spans  c0 [1, 9], c1 [2, 4]     taken 1 from 1, 2 from 2, 1 from 4, 0 from 9
        c2 acquires in [3, 5]           at 3 two are taken: it waited
    """
    held = end >= ret
    times = np.concatenate((ret[held], end[held]))
    steps = np.concatenate((wanted[held], -wanted[held]))
    order = np.lexsort((steps, times))
    times, taken = times[order], np.cumsum(steps[order])
    met = np.zeros(len(inv), bool)
    for most in np.unique(limits - wanted):
        full = taken > most
        # How often the lock has become full by each time.
        since = np.concatenate(([0], np.cumsum(full & ~np.concatenate(([False], full[:-1])))))
        these = np.flatnonzero(limits - wanted == most)
        first = np.searchsorted(times, inv[these], side="right")
        last = np.searchsorted(times, ret[these], side="left")
        at_once = np.concatenate(([False], full))[first]
        met[these] = at_once | (since[last] > since[first])
    return met
