"""What is certain about one lock at the time of a query, to check the query's response."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import first_come, stands_for
from holdfast.checkers.holds.derive import INF, Attempt, by_lock
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.holds.overlaps import Leaders, proof_reach, reach, slack
from holdfast.checkers.holds.reentry import reported_over_ns
from holdfast.checkers.holds.statements import LASTING
from holdfast.checkers.holds.token_order import ordered
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import CHANGED, NO_TOKEN, Mode, Status, carried

UNKNOWN = (Status.INFO, Status.INVOKED)


class LockStory:
    """One lock's attempts, sorted so that each question costs a few binary searches.

    ordered   its tokens show the order of its grants
    """

    def __init__(self, case: Case, key: int) -> None:
        self.case = case
        self.attempts = by_lock(case).get(key, ())
        self.ordered = ordered(case, key)
        self.slack_ns = slack(case)
        far = reach(case) if stands_for(case, key, LASTING) else proof_reach
        self._known = sorted(self.attempts, key=lambda a: a.known_ns)
        self._known_ns = [a.known_ns for a in self._known]
        self._far = [far(a) for a in self._known]
        self._farthest = _largest(self._far)
        self._by_far = Leaders(self._known, self._far)
        tokens = [a.token for a in self._known]
        self._by_token = Leaders(self._known, tokens)
        self._alone = _largest(
            [a.token if a.mode == Mode.EXCLUSIVE else NO_TOKEN for a in self._known]
        )
        self._fenced = sorted(
            (a for a in self.attempts if a.token > NO_TOKEN), key=lambda a: a.token
        )
        self._tokens = [a.token for a in self._fenced]
        self._by_proof = Leaders(
            self._fenced, [proof_reach(a) if a.known_ns < INF else -1 for a in self._fenced]
        )
        self._of_token: dict[int, list[Attempt]] = {}
        for a in self.attempts:
            self._of_token.setdefault(a.token, []).append(a)
        self._ended: dict[int, int] = {}
        self._blank: dict[int, list[Attempt]] = {}
        for a in self.attempts:
            if a.status in UNKNOWN and a.token == NO_TOKEN:
                self._blank.setdefault(a.owner, []).append(a)
        self._asked()

    def _asked(self) -> None:
        asked = sorted(self.attempts, key=lambda a: a.inv_ns)
        unknown = [a for a in asked if a.status in UNKNOWN]
        self._inv_ns = [a.inv_ns for a in asked]
        self._asked_tokens = _largest([a.token for a in asked])
        self._asked_tokens = [asked[n].token for n in self._asked_tokens]
        blank = [a.inv_ns for a in unknown if a.token == NO_TOKEN]
        self._blank_ns = min(blank, default=INF)
        self._unknown_ns = unknown[0].inv_ns if unknown else INF
        self._ret_ns = Counted([INF if a.status in UNKNOWN else a.ret_ns for a in asked])
        self._texts = {carried(a.id) for a in unknown if a.token == NO_TOKEN}

    def named(self, token: int) -> Sequence[Attempt]:
        """The attempts that were granted with a token."""
        return self._of_token.get(token, ())

    def alone(self, a: Attempt, by_ns: int) -> bool:
        """Whether a response with an attempt's token, returned by by_ns, can be about no other."""
        return len(self.named(a.token)) == 1 and not self.entered_unknown(a, by_ns)

    def entered_unknown(self, a: Attempt, by_ns: int) -> bool:
        """Whether its owner may hold with its token by another attempt too, called by by_ns, whose
        acquire had no answer: the entries of one owner share a token."""
        blank = (b for b in self._blank.get(a.owner, ()) if b.id != a.id)
        return any(b.inv_ns <= by_ns + self.slack_ns for b in blank)

    def sole_entry(self, a: Attempt, from_ns: int, to_ns: int) -> bool:
        """Whether its owner certainly held by no other attempt at any time of a span."""
        refused = (Status.FAIL, Status.NOT_OWNER)
        others = (b for b in self.attempts if b.owner == a.owner and b.id != a.id)
        return all(
            self.over(b, from_ns) or (b.status in refused and b.ret_ns + self.slack_ns < from_ns)
            for b in others
            if b.inv_ns <= to_ns + self.slack_ns
        )

    def may_be_unknown(self, text: str) -> bool:
        """Whether a text is that of an attempt whose token is unknown."""
        return text in self._texts

    def holder_over(
        self, from_ns: int, to_ns: int, beside: Attempt | None = None
    ) -> Attempt | None:
        """An attempt that certainly held during all of a span; it conflicts with `beside`."""
        among = bisect_left(self._known_ns, from_ns - self.slack_ns)
        if not among:
            return None
        if beside is not None:
            a = self._by_far.best(beside, among)
            far = reach(self.case)
            if a is None or not stands_for(self.case, a.key, LASTING):
                far = proof_reach
            return a if a is not None and far(a) > to_ns + self.slack_ns else None
        at = self._farthest[among - 1]
        return self._known[at] if self._far[at] > to_ns + self.slack_ns else None

    def newer_before(self, token: int, by_ns: int, named: Sequence[Attempt] = ()) -> Attempt | None:
        """A conflicting grant with a larger token that was known before by_ns.

        named   the attempts that have the token. Readers and permits are in force together,
                whatever their tokens; an exclusive hold excludes every other.
        """
        among = bisect_left(self._known_ns, by_ns - self.slack_ns)
        if not self.ordered or not among:
            return None
        alone = self._known[self._alone[among - 1]]
        if alone.mode == Mode.EXCLUSIVE and alone.token > token:
            return alone
        for one in named[:MOST_NAMED]:
            a = self._by_token.best(one, among)
            if a is not None and a.token > token:
                return a
        return None

    def granted_after(self, a: Attempt, holder: Attempt) -> bool:
        """Whether an attempt was certainly granted after another: by its token, or because it was
        proved to hold, without a break since its grant, when the other's hold had begun."""
        if self.ordered and NO_TOKEN < holder.token < a.token:
            return True
        return proof_reach(a) > max(a.known_ns, holder.known_ns) + self.slack_ns

    def older_beyond(self, named: Attempt, to_ns: int) -> Attempt | None:
        """A conflicting grant with a smaller token that was proved to hold beyond to_ns."""
        if not self.ordered:
            return None
        a = self._by_proof.best(named, bisect_left(self._tokens, named.token))
        if a is None or a.known_ns >= INF or proof_reach(a) <= to_ns + self.slack_ns:
            return None
        return a

    def granted_between(self, low: int, high: int) -> Attempt | None:
        """A grant with a token between two others."""
        at = bisect_right(self._tokens, max(low, NO_TOKEN))
        if not self.ordered or at == len(self._tokens) or self._tokens[at] >= high:
            return None
        return self._fenced[at]

    def may_follow(self, token: int, refused: Attempt) -> bool:
        """Whether the lock may have been granted after a token, by the return of a rejection."""
        by_ns = refused.ret_ns + self.slack_ns
        among = bisect_right(self._inv_ns, by_ns)
        larger = among > 0 and self._asked_tokens[among - 1] > token
        return larger or self._blank_ns <= by_ns

    def unknown_before(self, by_ns: int) -> bool:
        """Whether an attempt with an unknown token may hold."""
        return self._unknown_ns <= by_ns + self.slack_ns

    def held_until(self, holder: Attempt, beside: Attempt | None = None) -> int:
        """The end of the hold of an attempt that `holder_over` returned."""
        key = holder.key if beside is None else beside.key
        return (
            reach(self.case)(holder) if stands_for(self.case, key, LASTING) else proof_reach(holder)
        )

    def over(self, a: Attempt, by_ns: int) -> bool:
        """Whether the service had reported before by_ns that the attempt no longer holds."""
        return self.over_ns(a) + self.slack_ns < by_ns

    def over_ns(self, a: Attempt) -> int:
        """When the service, or a notice, had reported that; INF: never."""
        if a.id not in self._ended:
            self._ended[a.id] = reported_over_ns(self.case, a)
        return self._ended[a.id]

    def waited_since(self, a: Attempt, by_ns: int) -> bool:
        """Whether the attempt had received before by_ns the response that it waits."""
        stamps = column(self.case, "t_inv")
        return bool(a.waitings) and int(stamps[a.waitings[0]]) + self.slack_ns < by_ns

    def ahead_at_most(self, a: Attempt, from_ns: int, to_ns: int) -> int:
        """Number of others that can have waited ahead of an attempt at some instant of a span."""
        until_ns, least_ns = to_ns + self.slack_ns, from_ns - self.slack_ns
        if a.waitings and first_come(self.case, a.key):
            queued_ns = int(column(self.case, "t_inv")[a.waitings[0]])
            until_ns = min(until_ns, queued_ns + self.slack_ns)
        others = self._ret_ns.at_least(bisect_right(self._inv_ns, until_ns), least_ns)
        own = a.inv_ns <= until_ns and (a.status in UNKNOWN or a.ret_ns >= least_ns)
        return others - own


class Counted:
    """Counts how many of the first n numbers are >= a value: keeps them sorted in blocks of 1, 2, 4
    ... numbers. O(n log n) to build, O(log^2 n) per query."""

    def __init__(self, values: Sequence[int]) -> None:
        self._levels = [[[value] for value in values]]
        while len(self._levels[-1]) > 1:
            last = self._levels[-1]
            pairs = zip(last[::2], last[1::2], strict=False)
            self._levels.append([sorted((*low, *high)) for low, high in pairs])

    def at_least(self, among: int, value: int) -> int:
        """How many of the first `among` are >= a value."""
        count = done = 0
        for level in range(len(self._levels) - 1, -1, -1):
            # The bits of `among` choose blocks: the first 6 numbers are a block of 4 and one of 2.
            if among >> level & 1:
                block = self._levels[level][done >> level]
                count += len(block) - bisect_left(block, value)
                done += 1 << level
        return count


MOST_NAMED = 64
"""A response about a token that more attempts share is not judged."""


def _largest(values: Sequence[int]) -> list[int]:
    """For each prefix the place of its largest value."""
    places: list[int] = []
    for n, value in enumerate(values):
        places.append(n if not places or value > values[places[-1]] else places[-1])
    return places


def story(case: Case, key: int) -> LockStory:
    """The facts about one lock; memoised."""
    known: dict[int, LockStory] = case.memo.setdefault("stories", {})
    if key not in known:
        known[key] = LockStory(case, key)
    return known[key]


def renewals(case: Case, a: Attempt, from_ns: int, to_ns: int) -> tuple[int, int]:
    """How often an attempt had certainly been renewed by from_ns, and at most by to_ns.

    An adapter may renew once on its own before it returns a grant that came late: the lease may
    have run meanwhile.
    """
    known: dict[int, tuple[list[int], list[int]]] = case.memo.setdefault("renewed", {})
    if a.id not in known:
        status, inv, ret = (column(case, name) for name in ("status", "t_inv", "t_ret"))
        refused = (Status.FAIL, Status.NOT_OWNER)
        known[a.id] = (
            sorted(int(ret[row]) for row in a.renewals if status[row] == Status.OK),
            sorted(int(inv[row]) for row in a.renewals if status[row] not in refused),
        )
    back, sent = known[a.id]
    slack_ns, late = slack(case), bool(a.waitings) or 4 * (a.ret_ns - a.inv_ns) > a.ttl_ns
    return bisect_left(back, from_ns - slack_ns), bisect_right(sent, to_ns + slack_ns) + late


def conditional(case: Case) -> Iterator[tuple[Attempt, int]]:
    """Attempts with the condition that no newer token than the paired one had been granted."""
    terms = column(case, "op")
    attempts = table(case)
    newest = (terms[attempts.row] >> 8) - 1
    wanted = np.flatnonzero((newest >= 0) & (attempts.mode != Mode.PERMITS))
    yield from zip(attempts.pick(wanted), newest[wanted].tolist(), strict=True)


def refused_as_changed(case: Case, a: Attempt) -> bool:
    """Whether the service rejected an attempt because its condition was not met."""
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return a.status is Status.FAIL and error.startswith(CHANGED)
