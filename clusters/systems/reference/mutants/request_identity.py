"""The planted bugs of whom the service takes a request to be from, and of what it looks at then.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.reference.locks.state import Answer, Hold
from holdfast.clusters.systems.reference.locks.state_machine import Locks


class ReleaseByName(Locks):
    """Knows a holder by its name, whichever attempt a request comes with."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._names: dict[int, str] = {}

    def _acquire(self, index: int, command: Mapping[str, Any]) -> Answer:
        self._names[command["session"]] = command["owner"]
        return super()._acquire(index, command)

    def held(self, command: Mapping[str, Any]) -> Hold | None:
        lock, name = self.locks.get(command["lock"]), self._names.get(command.get("session", -1))
        named = (hold for hold in (lock.holds if lock else ()) if hold.owner == name)
        return super().held(command) or next(named, None)


class FormerState(Locks):
    """Answers one try in four from what it knew before the lock was given back."""

    def _acquire(self, index: int, command: Mapping[str, Any]) -> Answer:
        lock = self.locks.get(command["lock"])
        free = lock is None or not (lock.holds or lock.queue)
        if command["wait_ns"] == 0 and free and index % 4 == 0:
            return {"is": "held", "owner": "whoever had it before"}
        return super()._acquire(index, command)


ASKING: dict[str, type[Locks]] = {
    "release-by-name": ReleaseByName,
    "former-state": FormerState,
}
"""name -> the locks with that bug"""
