"""Who certainly came after whom: the grants that show that an older hold was over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from holdfast.checkers.holds import Attempt, conflict, ordered_tokens
from holdfast.checkers.overlaps import granted, inversions, slack
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN


class Succession:
    """The grants of one lock, to be asked who came after a given one by a given time."""

    def __init__(self, case: Case, key: int) -> None:
        self._slack_ns = slack(case)
        self._tokens = ordered_tokens(case) and not inversions(case)[key]
        self._found: Sequence[Attempt] = granted(case)[key]
        self._known = [a.known_ns for a in self._found]
        self._latest_inv = list(accumulate((a.inv_ns for a in self._found), max))
        self._largest = list(accumulate((a.token for a in self._found), max))

    def newer(self, a: Attempt, b: Attempt) -> bool:
        """Whether b was certainly granted after a, by their calls or by their tokens."""
        if b.inv_ns > a.known_ns + self._slack_ns:
            return True
        return self._tokens and NO_TOKEN < a.token < b.token

    def successors(self, a: Attempt, before_ns: int) -> Iterator[Attempt]:
        """Conflicting grants newer than a, known before a moment, the latest known first.

        Walks back no further than such a grant can be: O(log n) where there is none.
        """
        at = bisect_left(self._known, before_ns - self._slack_ns) - 1
        while at >= 0 and self._any_newer(a, at):
            b = self._found[at]
            if conflict(a, b) and self.newer(a, b):
                yield b
            at -= 1

    def _any_newer(self, a: Attempt, at: int) -> bool:
        by_time = self._latest_inv[at] > a.known_ns + self._slack_ns
        return by_time or (self._tokens and self._largest[at] > a.token > NO_TOKEN)
