"""A session of kazoo whose listener says when its holds are uncertain.

By kazoo's documentation of states a holder cannot be certain of its lock while the connection is
SUSPENDED, and has lost it when it is LOST: either is recorded as the loss of all holds.
"""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from holdfast.clusters.systems.zookeeper import PORT
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class NodeLeft(Exception):
    """The library gave up, and the node of its attempt may still become the holder."""


class Notified:
    """One session, whose timeout is the lease, and the attempts that hold in it."""

    def __init__(self, setup: ClientSetup) -> None:
        hosts = ",".join(f"{address}:{PORT}" for _, address in setup.servers)
        self._tell = setup.tell
        self._holds: dict[str, str] = {}
        self.client = KazooClient(hosts=hosts, timeout=setup.lease_ns / 1e9)
        self.client.start()
        self.client.add_listener(self._heard)

    def began(self, attempt: str, name: str) -> None:
        """An attempt holds a lock from now on; its session may be in doubt already."""
        self._holds[attempt] = name
        if self.client.state != KazooState.CONNECTED:
            self._heard(self.client.state)

    def ended(self, attempt: str) -> bool:
        """It is released; whether it held until now, as far as its user knows."""
        return self._holds.pop(attempt, None) is not None

    def holds(self, attempt: str) -> bool:
        """Whether nothing was heard of its end."""
        return attempt in self._holds

    def close(self) -> None:
        """End the session, and with it all nodes."""
        self.client.stop()
        self.client.close()

    def _heard(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            return
        for attempt in [*self._holds]:
            name = self._holds.pop(attempt, None)
            if name is not None:
                self._tell(Op.LOST, attempt=int(attempt), lock=name, text=f"connection {state}")
