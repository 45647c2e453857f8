"""Reasons why holds ended, kept to notify a holder that was unreachable."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.clusters.systems.reference.locks.state import MAX_ENDED, Hold


class Endings:
    """The latest ends of holds, each by lock, token and attempt."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], str] = {}

    def note(self, hold: Hold, reason: str) -> None:
        """Records the end of a hold; drops the oldest one beyond the limit."""
        self._known[hold.lock, hold.token, hold.attempt] = reason
        if len(self._known) > MAX_ENDED:
            del self._known[next(iter(self._known))]

    def why(self, lock: str, token: int, attempt: int) -> str:
        """Why it ended, "unknown" if that is too long ago or it never existed."""
        return self._known.get((lock, token, attempt), "unknown")

    def dump(self) -> list[object]:
        """As JSON."""
        return [[*hold, why] for hold, why in self._known.items()]

    @classmethod
    def load(cls, state: Iterable[tuple[str, int, int, str]]) -> Endings:
        """The endings of a dump."""
        endings = cls()
        endings._known = {(lock, token, n): why for lock, token, n, why in state}
        return endings
