"""Timers by name: set, dropped and reset, returned when due."""

from __future__ import annotations

import heapq
from collections.abc import Hashable


class Timers:
    """Each name has at most one deadline; of equal deadlines the first one set comes first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, object]] = {}
        self._serial = 0

    def set(self, name: Hashable, due_ns: int, what: object) -> None:
        """`what` is returned at `due_ns`, unless the name is set or dropped before."""
        self._serial += 1
        self._live[name] = (self._serial, what)
        heapq.heappush(self._heap, (due_ns, self._serial, name))

    def drop(self, name: Hashable) -> None:
        """Removes a name, if it is set."""
        self._live.pop(name, None)

    def clear(self) -> None:
        """Removes all names."""
        self._heap.clear()
        self._live.clear()

    def due(self, now_ns: int) -> list[object]:
        """Removes and returns all that is due."""
        expired = []
        while self._heap and self._heap[0][0] <= now_ns:
            _, serial, name = heapq.heappop(self._heap)
            if name in self._live and self._live[name][0] == serial:
                expired.append(self._live.pop(name)[1])
        return expired

    def next_ns(self) -> int | None:
        """The next deadline, None if there is none."""
        heap = self._heap
        while heap:
            due_ns, serial, name = heap[0]
            live = self._live.get(name)
            if live is not None and live[0] == serial:
                return due_ns
            heapq.heappop(heap)
        return None
