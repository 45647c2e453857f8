"""Planted bugs of the identification of clients and requests, and of the state checked for them.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.reference.locks.state import Answer, Command, Hold
from holdfast.clusters.systems.reference.locks.state_machine import Locks

LATELY = 100
"""Number of recent commands in the log; clients that retry at once have one among them."""


class ReleaseByName(Locks):
    """Identifies a holder by its name, whatever the attempt of a request."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._names: dict[int, str] = {}

    def _acquire(self, index: int, command: Command) -> Answer:
        self._names[command["session"]] = command["owner"]
        return super()._acquire(index, command)

    def held(self, command: Command) -> Hold | None:
        lock, name = self.locks.get(command["lock"]), self._names.get(command.get("session", -1))
        named = (hold for hold in (lock.holds if lock else ()) if hold.owner == name)
        return super().held(command) or next(named, None)


class CourteousTries(Locks):
    """A try of a free lock yields to another client that tried it lately, and vice versa."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._tried: dict[str, dict[int, int]] = {}

    def _acquire(self, index: int, command: Command) -> Answer:
        if command["wait_ns"] == 0:
            tried = self._tried.setdefault(command["lock"], {})
            tried[command["session"]] = index
            lately = [session for session, at in tried.items() if index - at < LATELY]
            if len(lately) > 1:
                return {"is": "held", "owner": "whoever tries it too"}
        return super()._acquire(index, command)

    def dump(self) -> dict[str, object]:
        tried = [[lock, [*who.items()]] for lock, who in self._tried.items()]
        return {**super().dump(), "tried": tried}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Locks:
        locks = super().load(state)
        assert isinstance(locks, CourteousTries)
        locks._tried = {lock: dict(tried) for lock, tried in state["tried"]}
        return locks


class FormerState(Locks):
    """Responds to one try in four from its state before the lock was released."""

    def _acquire(self, index: int, command: Command) -> Answer:
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
