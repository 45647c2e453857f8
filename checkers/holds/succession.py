"""Who certainly came after whom: the grants that show that an older hold was over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.checkers.holds.assumptions import ordered
from holdfast.checkers.holds.attempt_table import Bools, table
from holdfast.checkers.holds.derive import Attempt, conflict
from holdfast.checkers.holds.history_index import Indices, Ints
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN


class Succession:
    """The grants of one lock, to be asked who came after a given one by a given time."""

    def __init__(self, case: Case, key: int) -> None:
        self._slack_ns = slack(case)
        self._tokens = ordered(case, key)
        self._table = table(case)
        self._entries = granted(case)[key]
        self._known = self._table.known[self._entries]
        self._latest_inv = np.maximum.accumulate(self._table.inv[self._entries])
        self._largest = np.maximum.accumulate(self._table.token[self._entries])

    def newer(self, a: Attempt, b: Attempt) -> bool:
        """Whether b was certainly granted after a, by their calls or by their tokens."""
        if b.inv_ns > a.known_ns + self._slack_ns:
            return True
        return self._tokens and NO_TOKEN < a.token < b.token

    def successors(self, a: Attempt, before_ns: int) -> Iterator[Attempt]:
        """Conflicting grants newer than a, known before a moment, the latest known first.

        Walks back no further than such a grant can be: O(log n) where there is none.
        """
        at = int(np.searchsorted(self._known, before_ns - self._slack_ns)) - 1
        while at >= 0 and self._any_newer(a, at):
            b = self._table.pick(self._entries[at : at + 1])[0]
            if conflict(a, b) and self.newer(a, b):
                yield b
            at -= 1

    def _any_newer(self, a: Attempt, at: int) -> bool:
        by_time = bool(self._latest_inv[at] > a.known_ns + self._slack_ns)
        return by_time or (self._tokens and bool(self._largest[at] > a.token > NO_TOKEN))

    def overtaken(self, entries: Indices, before_ns: Ints) -> Bools:
        """Which entries of the table may have successors known before their moments."""
        if not len(self._entries):
            return np.zeros(len(entries), bool)
        at = np.searchsorted(self._known, before_ns - self._slack_ns) - 1
        found = self._latest_inv[at] > self._table.known[entries] + self._slack_ns
        token = self._table.token[entries]
        if self._tokens:
            found |= (self._largest[at] > token) & (token > NO_TOKEN)
        return np.asarray(found & (at >= 0))
