"""LeaderElection of kubernetes_asyncio over a LeaseLock: one candidate, in a task, per attempt.

As with the blocking client the library renews by itself and cannot step down: a release cancels its
task, and the lease then runs out. Any other end of the task is recorded as the loss of the lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kubernetes_asyncio import client
from kubernetes_asyncio.leaderelection import electionconfig, leaderelection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock

from holdfast.clusters.systems.kubernetes import NAMESPACE, PORT
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.core.waiting import cancel_until_done

ERRORS: tuple[tuple[type[Exception], Status], ...] = ()
RETRY_S = 1
"""The shortest that the library accepts."""
MARGIN_S = 3
"""As for the blocking client, whose loop this one copies."""
SHORTEST_S = MARGIN_S + 2
TRY_S = 0.5


class Candidate:
    """An election, as a task once it was started."""

    def __init__(self, lock: LeaseLock, lease_s: int, lost: Callable[[], None]) -> None:
        self.leading = asyncio.Event()
        self._lost = lost
        config = electionconfig.Config(
            lock, lease_s, lease_s - MARGIN_S, RETRY_S, self._started, self._stopped
        )
        self._election = leaderelection.LeaderElection(config)
        self.task: asyncio.Task[None] | None = None

    async def leads(self, within_s: float | None) -> bool:
        """Whether it becomes the leader in time; raises what ended its election before."""
        self.task = asyncio.create_task(self._election.run())
        leading = asyncio.create_task(self.leading.wait())
        try:
            await asyncio.wait(
                (self.task, leading), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            await cancel_until_done(self.task)
            raise
        finally:
            leading.cancel()
        if self.leading.is_set():
            self.task.add_done_callback(self._ended)
            return True
        if self.task.done():
            self.task.result()
        await cancel_until_done(self.task)
        raise TimeoutError("a candidate was cancelled; a request of it may take effect")

    @property
    def over(self) -> bool:
        """Whether the library leads no more."""
        return self.task is None or self.task.done()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._lost()

    async def _started(self) -> None:
        self.leading.set()

    async def _stopped(self) -> None:
        """The end of the task is what counts."""


class Subject:
    """One API server, as a load balancer would choose it."""

    asyncio = True

    def __init__(self, setup: ClientSetup) -> None:
        servers = setup.servers
        host = f"http://{servers[setup.process % len(servers)][1]}:{PORT}"
        self._client = client.ApiClient(client.Configuration(host=host))
        self._setup = setup

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> Candidate:
        identity = f"{self._setup.name}_{attempt}"
        lost = partial(
            self._setup.tell, Op.LOST, attempt=int(attempt), lock=name, text="stopped leading"
        )
        lease = LeaseLock(name, NAMESPACE, identity, self._client)
        return Candidate(lease, max(SHORTEST_S, round(lease_s or 0)), lost)

    async def acquire(self, lock: Candidate, wait_s: float | None) -> bool:
        return await lock.leads(TRY_S if wait_s == 0 else wait_s)

    async def renew(self, lock: Candidate, lease_s: float) -> bool:
        return not lock.over

    async def release(self, lock: Candidate) -> bool:
        leads = not lock.over
        if lock.task is not None:
            await cancel_until_done(lock.task)
        return leads

    async def close(self) -> None:
        await self._client.close()
