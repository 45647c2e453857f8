"""One client's grants and loss notifications, and the callbacks for them.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.harness.core.operations import Grant

Hears = Callable[[Grant], None]


class Claims:
    """The client's own view of its attempts, each from its call until its release.

    Callbacks are called in the order of registration, on the thread that received the notification
    (any, by `Context.tell`), and must return immediately. A loss is reported once, and never before
    its grant; after its release nothing is reported of an attempt.
    """

    def __init__(self) -> None:
        self._grants: dict[int, Grant | None] = {}
        self._lost: set[int] = set()
        self._on_acquired: list[Hears] = []
        self._on_lost: list[Hears] = []

    def on_acquired(self, hears: Hears) -> None:
        """Register a callback for every later grant, called once its row is written."""
        self._on_acquired.append(hears)

    def on_lost(self, hears: Hears) -> None:
        """Register a callback for every later loss of a grant, called once it is recorded."""
        self._on_lost.append(hears)

    def is_lost(self, attempt: int) -> bool:
        """Whether the client was notified of the loss."""
        return attempt in self._lost

    def asked(self, attempt: int) -> None:
        """An acquire is in flight."""
        self._grants[attempt] = None

    def acquired(self, grant: Grant) -> None:
        """It was granted; its loss may have been reported before."""
        self._grants[grant.attempt] = grant
        for hears in self._on_acquired:
            hears(grant)
        if grant.attempt in self._lost:
            self._tell_lost(grant)

    def over(self, attempt: int) -> None:
        """It was rejected or released."""
        self._grants.pop(attempt, None)
        self._lost.discard(attempt)

    def lost(self, attempt: int) -> None:
        """The client was notified that the attempt no longer holds."""
        if attempt in self._lost:
            return
        self._lost.add(attempt)
        grant = self._grants.get(attempt)
        if grant is not None:
            self._tell_lost(grant)

    def all_lost(self) -> None:
        """All its attempts are lost, granted or in flight."""
        for attempt in list(self._grants):
            self.lost(attempt)

    def _tell_lost(self, grant: Grant) -> None:
        for hears in self._on_lost:
            hears(grant)
