"""Spans of attempts, such as holds and waits: which of them were open at a time.

Strokes are few and histories long: each stroke is looked up by two binary searches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast.checkers.holds.history_index import EntryIndices, Ints
from holdfast.harness.core.case import Case


class OpenSpans:
    """The spans of some attempts. begun, over: of every entry of the table, ns. O(n log n)"""

    def __init__(self, entries: EntryIndices, begun: Ints, over: Ints) -> None:
        self._entries = entries[np.argsort(begun[entries], kind="stable")]
        self._begun, self._over = begun[self._entries], over[self._entries]
        self._latest = np.maximum.accumulate(self._over)

    def between(self, from_ns: int, to_ns: int) -> EntryIndices:
        """The entries whose spans began before to_ns and ended after from_ns, in ascending order.

        spans [1, 4] [2, 9] [3, 5] [8, 9], from 6 to 8: the latest ends are 4 9 9 9, so none
        before the second ended after 6; of the second and the third, only the second did
        """
        low = int(np.searchsorted(self._latest, from_ns, "right"))
        high = int(np.searchsorted(self._begun, to_ns))
        late = self._over[low:high] > from_ns
        return np.sort(self._entries[low:high][late])


def open_spans(case: Case, name: tuple[str, int], made: Callable[[], OpenSpans]) -> OpenSpans:
    """The spans of that name in a case, made once."""
    memo: dict[tuple[str, int], OpenSpans] = case.memo.setdefault("open spans", {})
    if name not in memo:
        memo[name] = made()
    return memo[name]
