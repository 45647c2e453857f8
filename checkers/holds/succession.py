"""The certain successors of a grant: later grants that show that an older hold was over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import Bools, EntryIndices, Ints
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.checkers.holds.token_order import ordered
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode

NOTHING = -(1 << 62)
"""less than every time and token"""


class Tops:
    """A column with queries in O(log n): its first or last value of another owner above a bound.

    Level k has a block per 2**k values: the largest, its owner, and the largest of other owners. Of
    the values 3 9 4 1 with owners a a b a it has (9, a, -), (4, b, 1) and, above, (9, a, 4).
    """

    def __init__(self, values: Ints, owners: Ints) -> None:
        size = 1 << max(0, len(values) - 1).bit_length()
        top, owner = np.full(size, NOTHING), np.full(size, -1)
        top[: len(values)], owner[: len(values)] = values, owners
        rest = np.full(size, NOTHING)
        self._levels: list[tuple[Sequence[int], Sequence[int], Sequence[int]]] = []
        while True:
            self._levels.append((top.tolist(), owner.tolist(), rest.tolist()))
            if len(top) == 1:
                break
            left = top[::2] >= top[1::2]
            # The smaller of the two is the best of another owner, if its owner differs.
            lost = np.where(left, top[1::2], top[::2])
            other = np.where(owner[::2] != owner[1::2], lost, NOTHING)
            rest = np.maximum(other, np.maximum(rest[::2], rest[1::2]))
            owner, top = np.where(left, owner[::2], owner[1::2]), np.maximum(top[::2], top[1::2])

    def _has(self, level: int, block: int, more: int, owner: int) -> bool:
        top, of, rest = self._levels[level]
        return (rest if of[block] == owner else top)[block] > more

    def last(self, end: int, more: int, owner: int) -> int:
        """The last place before end with a value > more and another owner; -1: none."""
        level = 0
        while end:
            if end & 1:
                end -= 1
                if self._has(level, end, more, owner):
                    return self._down(level, end, more, owner, 1)
            end, level = end >> 1, level + 1
        return -1

    def first(self, end: int, more: int, owner: int) -> int:
        """The first such place, -1 if there is none before end."""
        height = len(self._levels) - 1
        if not self._has(height, 0, more, owner):
            return -1
        at = self._down(height, 0, more, owner, 0)
        return at if at < end else -1

    def _down(self, level: int, block: int, more: int, owner: int, side: int) -> int:
        while level:
            level, block = level - 1, 2 * block + side
            if not self._has(level, block, more, owner):
                block ^= 1
        return block


def succession_of(case: Case, key: int) -> Succession:
    """The successions of one lock; memoised."""
    known: dict[int, Succession] = case.memo.setdefault("succession", {})
    if key not in known:
        known[key] = Succession(case, key)
    return known[key]


class Succession:
    """The grants of one lock, with queries for the successors of a grant known by a time."""

    def __init__(self, case: Case, key: int) -> None:
        self._case = case
        self._slack_ns = slack(case)
        self._tokens = ordered(case, key)
        self._ordered: dict[int, bool] = {key: self._tokens}
        self._table = table(case)
        self._entries = granted(case)[key]
        self._known = self._table.known[self._entries]
        self._latest_inv = np.maximum.accumulate(self._table.inv[self._entries])
        self._largest = np.maximum.accumulate(self._table.token[self._entries])
        self._columns: dict[tuple[str, int], Tops] = {}

    def successors(self, a: Attempt, before_ns: int) -> Iterator[Attempt]:
        """Conflicting grants newer than a, known before a time, the latest known first.

        O(log n) each: grants that are not newer, or do not conflict, are never visited.
        """
        end = self._before(before_ns)
        while (at := max(places.last(end, more, a.owner) for places, more in self._ways(a))) >= 0:
            yield self._table.pick(self._entries[at : at + 1])[0]
            end = at

    def first(self, a: Attempt, before_ns: int) -> Attempt | None:
        """The successor of a that was known first, if before a time. O(log n)."""
        end = self._before(before_ns)
        firsts = [places.first(end, more, a.owner) for places, more in self._ways(a)]
        at = min((n for n in firsts if n >= 0), default=-1)
        return self._table.pick(self._entries[at : at + 1])[0] if at >= 0 else None

    def _before(self, before_ns: int) -> int:
        return int(np.searchsorted(self._known, before_ns - self._slack_ns))

    def _ways(self, a: Attempt) -> list[tuple[Tops, int]]:
        """The columns that prove a conflicting grant newer than a, and the bound to exceed."""
        ways = [(self._tops("inv", a.mode), a.known_ns + self._slack_ns)]
        if a.token > NO_TOKEN and self._in_token_order(a.key):
            ways.append((self._tops("token", a.mode), a.token))
        return ways

    def _in_token_order(self, key: int) -> bool:
        """Whether tokens show the order of grants here and on the other chains of this lock.

        Of the chains /a, /a/b and /a, /a/c, the second may contradict what was declared of /a.
        """
        if self._tokens and key not in self._ordered:
            self._ordered[key] = ordered(self._case, key)
        return self._tokens and self._ordered[key]

    def _tops(self, name: str, mode: int) -> Tops:
        """A column of the grants, with NOTHING for those that may share the lock with this mode."""
        if (name, mode) not in self._columns:
            entries = self._entries
            values = self._table.inv[entries] if name == "inv" else self._table.token[entries]
            if mode != Mode.EXCLUSIVE:
                values = np.where(self._table.mode[entries] == mode, NOTHING, values)
            self._columns[name, mode] = Tops(values, self._table.owner[entries])
        return self._columns[name, mode]

    def overtaken(self, entries: EntryIndices, before_ns: Ints) -> Bools:
        """Which entries of the table may have successors known before their times."""
        may = np.zeros(len(entries), bool)
        if not len(self._entries):
            return may
        # Of most grants the next one was known too late: then only a larger token before it counts.
        # Known at 3 8 9, before 8 9 12: none of the three has another one between its two times.
        place = self._table.places(entries, self._entries)
        following = np.append(self._known, INF)[place + 1] < before_ns - self._slack_ns
        some = following | (self._largest[place] > self._table.token[entries]) | (place < 0)
        may[some] = self._overtaken(entries[some], before_ns[some])
        return may

    def _overtaken(self, entries: EntryIndices, before_ns: Ints) -> Bools:
        at = np.searchsorted(self._known, before_ns - self._slack_ns) - 1
        overtaken = self._latest_inv[at] > self._table.known[entries] + self._slack_ns
        token = self._table.token[entries]
        if self._tokens:
            overtaken |= (self._largest[at] > token) & (token > NO_TOKEN)
        return np.asarray(overtaken & (at >= 0))
