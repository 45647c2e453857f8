"""The planted bugs of whom the service takes a request to be from, and of what it looks at then.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.reference.locks.state import Answer, Hold
from holdfast.clusters.systems.reference.locks.state_machine import Locks

LATELY = 100
"""Commands in the log: of clients that try again at once, each is among the last so many."""


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


class CourteousTries(Locks):
    """A try of a free lock gives way to another client that tried it lately, and that one to it."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._tried: dict[str, dict[int, int]] = {}

    def _acquire(self, index: int, command: Mapping[str, Any]) -> Answer:
        if command["wait_ns"] == 0:
            tried = self._tried.setdefault(command["lock"], {})
            tried[command["session"]] = index
            lately = [session for session, at in tried.items() if index - at < LATELY]
            if len(lately) > 1:
                return {"is": "held", "owner": "whoever tries it too"}
        return super()._acquire(index, command)

    def dump(self) -> dict[str, Any]:
        tried = [[lock, [*who.items()]] for lock, who in self._tried.items()]
        return {**super().dump(), "tried": tried}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Locks:
        locks = super().load(state)
        assert isinstance(locks, CourteousTries)
        locks._tried = {lock: dict(tried) for lock, tried in state["tried"]}
        return locks


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
    "courteous-tries": CourteousTries,
}
"""name -> the locks with that bug"""
