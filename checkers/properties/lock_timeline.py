"""What is certain of one lock at the time of a query: the facts that an answer is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.checkers.holds.assumptions import LASTING, first_come, ordered, stands_for
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt, by_lock, conflict
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.holds.overlaps import proof_reach, reach, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import CHANGED, NO_TOKEN, Mode, Op, Status

UNKNOWN = (Status.INFO, Status.INVOKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class LockStory:
    """One lock's attempts. ordered: its tokens tell the order of its grants."""

    case: Case
    attempts: tuple[Attempt, ...]
    ordered: bool
    slack_ns: int

    def holder_over(
        self, from_ns: int, to_ns: int, beside: Attempt | None = None
    ) -> Attempt | None:
        """Who certainly held over all of a span; only such as conflict with `beside`."""
        far = reach(self.case)
        if self.attempts and not stands_for(self.case, self.attempts[0].key, LASTING):
            far = proof_reach
        for a in self.attempts:
            over = a.known_ns + self.slack_ns < from_ns and far(a) > to_ns + self.slack_ns
            if over and (beside is None or conflict(a, beside)):
                return a
        return None

    def newer_before(self, token: int, by_ns: int, named: Sequence[Attempt] = ()) -> Attempt | None:
        """A conflicting grant with a larger token that was known before a moment.

        named   the attempts that have the token. Readers and permits are in force together,
                however large their tokens are; nobody holds beside an exclusive one.
        """
        if not self.ordered:
            return None
        for a in self.attempts:
            alone = a.mode == Mode.EXCLUSIVE or any(conflict(a, b) for b in named)
            if a.token > token and a.known_ns + self.slack_ns < by_ns and alone:
                return a
        return None

    def granted_after(self, a: Attempt, holder: Attempt) -> bool:
        """Whether an attempt was surely granted after another: by its token, or because it was
        proved to hold, without a break since its grant, when the other's hold had begun."""
        if self.ordered and NO_TOKEN < holder.token < a.token:
            return True
        return proof_reach(a) > max(a.known_ns, holder.known_ns) + self.slack_ns

    def older_beyond(self, named: Attempt, to_ns: int) -> Attempt | None:
        """A conflicting grant with a smaller token that was proved to hold beyond a moment."""
        if not self.ordered:
            return None
        for a in self.attempts:
            proved = a.known_ns < INF and proof_reach(a) > to_ns + self.slack_ns
            if NO_TOKEN < a.token < named.token and proved and conflict(a, named):
                return a
        return None

    def granted_between(self, low: int, high: int) -> Attempt | None:
        """A grant whose token lies between two."""
        if not self.ordered:
            return None
        return next((a for a in self.attempts if low < a.token < high), None)

    def may_follow(self, token: int, refused: Attempt) -> bool:
        """Whether somebody may have been granted it after a token, by the end of a refusal."""
        return any(
            a.inv_ns <= refused.ret_ns + self.slack_ns
            and (a.token > token or (a.status in UNKNOWN and a.token == NO_TOKEN))
            for a in self.attempts
            if a.id != refused.id
        )

    def unknown_before(self, by_ns: int) -> bool:
        """Whether somebody whose token is not known may hold."""
        return any(a.status in UNKNOWN and a.inv_ns <= by_ns + self.slack_ns for a in self.attempts)

    def over(self, a: Attempt, by_ns: int) -> bool:
        """Whether the service had said before a moment that the attempt holds no more."""
        rows = self.case.history.rows
        ended_ns = INF
        for row in (*a.releases, *a.renewals):
            one = rows[row]
            gave_back = one["f"] == Op.RELEASE and one["status"] == Status.OK
            if gave_back or one["status"] == Status.NOT_OWNER:
                ended_ns = min(ended_ns, int(one["t_ret"]))
        if a.end_row >= 0 and rows["f"][a.end_row] == Op.LOST:
            ended_ns = min(ended_ns, a.end_ns)
        return ended_ns + self.slack_ns < by_ns

    def waited_since(self, a: Attempt, by_ns: int) -> bool:
        """Whether the attempt had been told that it waits before a moment."""
        stamps = self.case.history.rows["t_inv"]
        return bool(a.waitings) and int(stamps[a.waitings[0]]) + self.slack_ns < by_ns

    def ahead_at_most(self, a: Attempt, from_ns: int, to_ns: int) -> int:
        """How many others can have waited before an attempt at some instant of a span."""
        until_ns = to_ns + self.slack_ns
        if a.waitings and first_come(self.case, a.key):
            queued_ns = int(self.case.history.rows["t_inv"][a.waitings[0]])
            until_ns = min(until_ns, queued_ns + self.slack_ns)
        return sum(
            b.id != a.id
            and b.inv_ns <= until_ns
            and (b.status in UNKNOWN or b.ret_ns + self.slack_ns >= from_ns)
            for b in self.attempts
        )


def story(case: Case, key: int) -> LockStory:
    """The facts about one lock."""
    found = by_lock(case).get(key, ())
    return LockStory(case=case, attempts=found, ordered=ordered(case, key), slack_ns=slack(case))


def renewals(case: Case, a: Attempt, from_ns: int, to_ns: int) -> tuple[int, int]:
    """How often an attempt had certainly been renewed by from_ns, and at most by to_ns."""
    rows = case.history.rows
    slack_ns = slack(case)
    least = most = 0
    for row in a.renewals:
        status = rows["status"][row]
        least += status == Status.OK and int(rows["t_ret"][row]) + slack_ns < from_ns
        refused = status in (Status.FAIL, Status.NOT_OWNER)
        most += not refused and int(rows["t_inv"][row]) <= to_ns + slack_ns
    return int(least), int(most)


def conditional(case: Case) -> Iterator[tuple[Attempt, int]]:
    """Attempts that were to be granted only if no token was newer than the one beside them."""
    terms = column(case, "op")
    found = table(case)
    newest = (terms[found.row] >> 8) - 1
    wanted = np.flatnonzero((newest >= 0) & (found.mode != Mode.PERMITS))
    yield from zip(found.pick(wanted), newest[wanted].tolist(), strict=True)


def refused_as_changed(case: Case, a: Attempt) -> bool:
    """Whether the service said that the condition of an attempt was not met."""
    error = case.history.strings[int(case.history.rows["err"][a.row])]
    return a.status is Status.FAIL and error.startswith(CHANGED)
