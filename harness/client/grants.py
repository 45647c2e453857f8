"""What one client was granted and what it was told that it lost, and who wants to hear of it.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.harness.core.operations import Grant

Hears = Callable[[Grant], None]


class Claims:
    """The client's own view of its attempts, each from its asking until it was given back.

    Callbacks are called in the order in which they were given, on the thread that learned of it
    (`Context.tell` may be any), and are to return at once. A loss is told once, and never before
    its grant was; of an attempt that the client itself gave back nothing is told any more.
    """

    def __init__(self) -> None:
        self._grants: dict[int, Grant | None] = {}
        self._lost: set[int] = set()
        self._on_acquired: list[Hears] = []
        self._on_lost: list[Hears] = []

    def on_acquired(self, hears: Hears) -> None:
        """To be called with every grant from now on, once its row is written."""
        self._on_acquired.append(hears)

    def on_lost(self, hears: Hears) -> None:
        """To be called with every grant that is lost from now on, once that is on record."""
        self._on_lost.append(hears)

    def is_lost(self, attempt: int) -> bool:
        """Whether the client was told so."""
        return attempt in self._lost

    def asked(self, attempt: int) -> None:
        """An acquire is under way."""
        self._grants[attempt] = None

    def acquired(self, grant: Grant) -> None:
        """It was granted; its loss may have been told before."""
        self._grants[grant.attempt] = grant
        for hears in self._on_acquired:
            hears(grant)
        if grant.attempt in self._lost:
            self._tell_lost(grant)

    def over(self, attempt: int) -> None:
        """It was refused or given back."""
        self._grants.pop(attempt, None)
        self._lost.discard(attempt)

    def lost(self, attempt: int) -> None:
        """The client was told that the attempt holds no more."""
        if attempt in self._lost:
            return
        self._lost.add(attempt)
        grant = self._grants.get(attempt)
        if grant is not None:
            self._tell_lost(grant)

    def all_lost(self) -> None:
        """So are all that it has, granted or under way."""
        for attempt in list(self._grants):
            self.lost(attempt)

    def _tell_lost(self, grant: Grant) -> None:
        for hears in self._on_lost:
            hears(grant)
