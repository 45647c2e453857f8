"""LeaderElection of the Kubernetes client over a LeaseLock: per attempt one candidate in a thread.

The library renews by itself, and neither a leader nor a candidate can step down: a release stops
the renewals, and the lease then runs out. The end of its loop, by `onstopped_leading` or by an
error, is recorded as the loss of the lock, and a renewal of ours only asks whether it still runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from holdfast.clusters.systems.kubernetes import NAMESPACE, PORT
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import ClientSetup

ERRORS: tuple[tuple[type[Exception], Status], ...] = ()
RETRY_S = 1
"""The shortest that the library accepts."""
MARGIN_S = 3
"""The lease without it is the renew deadline, which the library counts from its first failure: one
retry after the last success. It notices it up to one retry late. So a leader that cannot renew has
one second to stop before its lease runs out."""
SHORTEST_S = MARGIN_S + 2
TRY_S = 0.5
WITHDRAWN_S = 3.0


class Withdrawn(Exception):
    """Ends the library's loop before its next request."""


class Candidate(LeaseLock):  # type: ignore[misc]
    """The library's lock with the election that uses it."""

    def __init__(self, name: str, identity: str, lease_s: int, lost: Callable[[], None]) -> None:
        super().__init__(name, NAMESPACE, identity)
        self._lost = lost
        self.leading = threading.Event()
        self.settled = threading.Event()
        """It leads, or its election is over."""
        self.over = False
        self.withdrawn = False
        self.error: Exception | None = None
        config = electionconfig.Config(
            self, lease_s, lease_s - MARGIN_S, RETRY_S, self._started, lambda: None
        )
        self._election = leaderelection.LeaderElection(config)

    def get(self, name: str, namespace: str) -> object:
        """What the library calls first in every round."""
        if self.withdrawn:
            raise Withdrawn
        return super().get(name, namespace)

    def run(self) -> None:
        """Until it has stopped leading, or is withdrawn."""
        try:
            self._election.run()
        except Withdrawn:
            pass
        except Exception as error:
            self.error = error
        finally:
            self.over = True
            if self.leading.is_set() and not self.withdrawn:
                self._lost()
            self.settled.set()

    def _started(self) -> None:
        self.leading.set()
        self.settled.set()


class Subject:
    """One API server, as a load balancer would choose it."""

    def __init__(self, setup: ClientSetup) -> None:
        servers = setup.servers
        configuration = client.Configuration()
        configuration.host = f"http://{servers[setup.process % len(servers)][1]}:{PORT}"
        client.Configuration.set_default(configuration)
        self._setup = setup

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> Candidate:
        lost = partial(
            self._setup.tell, Op.LOST, attempt=int(attempt), lock=name, text="stopped leading"
        )
        lease = max(SHORTEST_S, round(lease_s or 0))
        return Candidate(name, f"{self._setup.name}_{attempt}", lease, lost)

    def acquire(self, lock: Candidate, wait_s: float | None) -> bool:
        threading.Thread(target=lock.run, daemon=True).start()
        if not lock.settled.wait(TRY_S if wait_s == 0 else wait_s):
            lock.withdrawn = True
            if not lock.settled.wait(WITHDRAWN_S):
                raise TimeoutError("a request of a candidate that was withdrawn has no response")
        if lock.error is not None and not lock.leading.is_set():
            raise lock.error
        return lock.leading.is_set()

    def renew(self, lock: Candidate, lease_s: float) -> bool:
        return not lock.over

    def release(self, lock: Candidate) -> bool:
        leads = not lock.over
        lock.withdrawn = True
        return leads
