"""The replicated log in memory: entries with an index, after the last snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.clusters.systems.reference.consensus.messages import Entry


class Log:
    """Entries base + 1 .. last; of entry `base` only the term is known (0 and 0: nothing yet).

    last   index of the newest entry, `base` if there is none
    """

    def __init__(self, base: int, base_term: int, entries: Iterable[Entry]) -> None:
        self.base = base
        self._base_term = base_term
        self._entries = list(entries)
        self.last = base + len(self._entries)

    def at(self, index: int) -> Entry:
        """The entry of an index, base < index <= last."""
        assert self.base < index <= self.last, f"entry {index} is not in {self.base}..{self.last}"
        return self._entries[index - self.base - 1]

    def term(self, index: int) -> int:
        """The term of an index, base <= index <= last."""
        base = self.base
        if index == base:
            return self._base_term
        assert base < index <= self.last, f"entry {index} is not in {base}..{self.last}"
        return self._entries[index - base - 1].term

    def slice(self, first: int, count: int) -> tuple[Entry, ...]:
        """At most `count` entries from `first` on."""
        if first > self.last:
            return ()
        start = first - self.base - 1
        return tuple(self._entries[start : start + max(0, count)])

    def start_of_term(self, index: int) -> int:
        """The first index, after base, of the run of entries that share this entry's term."""
        term = self.term(index)
        while index > self.base + 1 and self.term(index - 1) == term:
            index -= 1
        return index

    def extend(self, entries: Iterable[Entry]) -> None:
        """Appends."""
        self._entries.extend(entries)
        self.last = self.base + len(self._entries)

    def cut(self, index: int) -> None:
        """Drops the entries from `index` on."""
        del self._entries[index - self.base - 1 :]
        self.last = self.base + len(self._entries)

    def forget(self, index: int, term: int) -> None:
        """Makes `index` the base; entries after it stay only if the log has that same entry."""
        agrees = self.base <= index <= self.last and self.term(index) == term
        self._entries = self._entries[index - self.base :] if agrees else []
        self.base, self._base_term = index, term
        self.last = index + len(self._entries)
