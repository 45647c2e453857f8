"""kazoo's Election: per attempt one candidate in a thread, whose leader function runs until the
release."""

from __future__ import annotations

import threading

from kazoo.client import KazooClient

from holdfast.clusters.libraries.adapters import kazoo_session
from holdfast.clusters.systems.zookeeper.contenders import left_behind

ERRORS = kazoo_session.ERRORS
TRY_S = 0.3
"""Without a predecessor a candidate needs several requests to lead."""
ENDED_S = 3.0


class Unended(Exception):
    """The library has not ended a candidate in time: its node may still lead."""


class Candidate:
    """One election with the function that leads."""

    def __init__(self, client: KazooClient, name: str, attempt: str) -> None:
        self.name, self.attempt = name, attempt
        self.election = client.Election(f"/locks/{name}", attempt)
        self.settled, self.leading = threading.Event(), threading.Event()
        self._leave = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.election.run(self._lead)
        except Exception as error:
            self._error = error
        finally:
            self.settled.set()

    def _lead(self) -> None:
        self.leading.set()
        self.settled.set()
        self._leave.wait()

    def end(self) -> None:
        """Return from the leader function; raises what the library raised."""
        self._leave.set()
        self._thread.join(ENDED_S)
        if self._thread.is_alive():
            raise Unended(f"the election of {self.name} goes on")
        if self._error is not None:
            raise self._error


class Subject(kazoo_session.Notified):
    """Each attempt is a candidate."""

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> Candidate:
        return Candidate(self.client, name, attempt)

    def acquire(self, lock: Candidate, wait_s: float | None) -> bool:
        if not lock.settled.wait(TRY_S if wait_s == 0 else wait_s):
            lock.election.cancel()
            lock.settled.wait(ENDED_S)
        if lock.leading.is_set():
            self.began(lock.attempt, lock.name)
            return True
        lock.end()
        if left_behind(self.client, lock.election.lock, kazoo_session.ANSWER_WITHIN_S):
            raise kazoo_session.NodeLeft(f"a node of {lock.name} is left")
        return False

    def renew(self, lock: Candidate, lease_s: float) -> bool:
        return self.holds(lock.attempt)

    def release(self, lock: Candidate) -> bool:
        held = self.ended(lock.attempt)
        lock.end()
        return held
