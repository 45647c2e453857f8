"""Errors of servers that a Redlock library swallows: without them its word may not be true.

Such a library counts a server that did not respond like one that said no, or says nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from holdfast.clusters.libraries.library_lock import LibraryLock


class Swallowed:
    """Errors of the library's own connections, which remain as they are otherwise."""

    def __init__(self, connections: Iterable[LibraryLock]) -> None:
        self._failed: dict[int, Exception] = {}
        self._connections = list(connections)
        for number, one in enumerate(self._connections):
            # The two methods that both libraries use.
            one.set = partial(self._noted, number, one.set)
            one.eval = partial(self._noted, number, one.eval)

    def _noted(
        self, number: int, plain: Callable[..., object], *words: object, **named: object
    ) -> object:
        try:
            return plain(*words, **named)
        except Exception as error:
            self._failed[number] = error
            raise

    def begin(self) -> None:
        """A call of the library begins."""
        self._failed.clear()

    def judged(self, answer: bool) -> bool:
        """The answer of the call. Raises a server's error instead if it may not be true: a no if
        any server failed, which may have done what was asked, and a yes if a majority failed."""
        tolerated = (len(self._connections) - 1) // 2 if answer else 0
        if len(self._failed) > tolerated:
            raise [*self._failed.values()][-1]
        return answer
