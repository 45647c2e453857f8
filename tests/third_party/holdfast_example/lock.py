"""A lock with leases and fencing tokens, in the memory of one process: for the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


class InMemory:
    """A lock in memory, with leases and fencing tokens."""

    tokens = "ordered"
    held: dict[str, tuple[str, float]] = {}  # noqa: RUF012
    last: dict[str, int] = {}  # noqa: RUF012

    def __init__(
        self,
        servers: Sequence[tuple[str, str]],
        options: Mapping[str, str],
        now: Callable[[], float],
    ) -> None:
        self._now = now

    def acquire(self, lock: str, owner: str, lease: float) -> int | None:
        """A fencing token, None if another owner holds the lock."""
        if self._owner(lock) not in ("", owner):
            return None
        self.held[lock] = (owner, self._now() + lease)
        self.last[lock] = self.last.get(lock, 0) + 1
        return self.last[lock]

    def renew(self, lock: str, owner: str, lease: float) -> bool:
        """Whether the lease was extended."""
        if self._owner(lock) != owner:
            return False
        self.held[lock] = (owner, self._now() + lease)
        return True

    def release(self, lock: str, owner: str) -> bool:
        """Whether the owner held the lock until now."""
        if self._owner(lock) != owner:
            return False
        del self.held[lock]
        return True

    def _owner(self, lock: str) -> str:
        owner, until = self.held.get(lock, ("", 0.0))
        return owner if until > self._now() else ""
