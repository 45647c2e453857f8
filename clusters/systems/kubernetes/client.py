"""Our own client of a Kubernetes Lease, by the rules of client-go's leader election.

A candidate takes a lease that has no holder, or whose record it has seen unchanged for the lease's
duration on its own monotonic clock; no clocks of two machines are compared. Every write names the
resourceVersion that it replaces. `leaseTransitions` grows by one with every holder and is the
token. An attempt is a holder of its own, so that a record which names it proves that it was never
lost since.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from holdfast.clusters.systems.kubernetes.api_client import Failed, Lease, Leases
from holdfast.clusters.systems.kubernetes.wire import Spec
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup

POLL_NS = (20 * MILLISECOND, 80 * MILLISECOND)
CONFLICT = 409
TRIES = 3
"""of a renewal or release whose record changes between its read and its write"""
LOST = Answer(outcome=Status.NOT_OWNER, error="the lease has another holder, or none")


class LeaseLock:
    """A BlockingLockClient; `client` makes one."""

    blocking = True
    wire = CLIENT

    def __init__(self, setup: ClientSetup, leases: Leases) -> None:
        self._name = setup.name
        self._poller = Poller(setup, "kubernetes polls", POLL_NS)
        self._leases = leases

    def open(self) -> None:
        """Nothing to wait for: the first request connects."""

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until the lease is free or was unchanged for its duration, or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        seen, since_ns = "", 0

        def poll() -> Answer:
            nonlocal seen, since_ns
            try:
                lease = self._leases.read(lock)
            except Failed as failed:
                return Answer(outcome=Status.FAIL, error=str(failed))
            if lease is not None and lease.version != seen:
                seen, since_ns = lease.version, time.monotonic_ns()
            if _free(lease, since_ns):
                return self._take(lock, attempt, ttl_ns, lease)
            return HELD

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Writes the lease again; an ok proves that its holder was this attempt throughout."""
        return self._change(grant, self._holder(grant.attempt), ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Writes a lease of one second without a holder."""
        return self._change(grant, "", SECOND)

    def close(self) -> None:
        """Closes the connection; a lease runs out."""
        self._leases.close()

    def _take(self, lock: str, attempt: int, ttl_ns: int, lease: Lease | None) -> Answer:
        holder = self._holder(attempt)
        try:
            if lease is None:
                taken = self._leases.create(lock, _spec(holder, ttl_ns, 0))
            else:
                spec = _spec(holder, ttl_ns, lease.transitions + 1)
                taken = self._leases.replace(lock, lease.version, spec)
        except Failed as failed:
            return Answer(outcome=failed.outcome, error=str(failed))
        return Answer(outcome=Status.OK, token=taken.transitions, ttl_ns=taken.lease_ns)

    def _change(self, grant: Grant, holder: str, ttl_ns: int) -> Answer:
        """Reads the lease, and writes it if this attempt holds it."""
        try:
            for _ in range(TRIES):
                lease = self._leases.read(grant.lock)
                if lease is None or lease.holder != self._holder(grant.attempt):
                    return LOST
                spec = _spec(holder, ttl_ns, lease.transitions)
                try:
                    written = self._leases.replace(grant.lock, lease.version, spec)
                except Failed as failed:
                    if failed.code == CONFLICT:
                        continue
                    return Answer(outcome=failed.outcome, error=str(failed))
                return Answer(outcome=Status.OK, ttl_ns=written.lease_ns if holder else 0)
        except Failed as failed:
            # Only reads end here: the write was not sent.
            return Answer(outcome=Status.FAIL, error=str(failed))
        return Answer(outcome=Status.FAIL, error="the lease changed with every read")

    def _holder(self, attempt: int) -> str:
        return f"{self._name}_{attempt}"


def _free(lease: Lease | None, since_ns: int) -> bool:
    """Whether it may be taken by who has seen it unchanged since then."""
    if lease is None or not lease.holder:
        return True
    return time.monotonic_ns() - since_ns >= lease.lease_ns


def _spec(holder: str, ttl_ns: int, transitions: int) -> Spec:
    """Durations are whole seconds, rounded up; times are for readers only."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Spec(
        holderIdentity=holder,
        leaseDurationSeconds=max(1, -(-ttl_ns // SECOND)),
        acquireTime=now,
        renewTime=now,
        leaseTransitions=transitions,
    )


def client(setup: ClientSetup) -> LeaseLock:
    """A client that begins with another API server than the next client."""
    addresses = [address for _, address in setup.servers]
    return LeaseLock(setup, Leases(addresses, setup.process))
