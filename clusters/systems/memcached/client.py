"""Client of a memcached lock: `add` of a value that is unique to the attempt, polled."""

from __future__ import annotations

from holdfast.clusters.systems.memcached import MARGIN_S
from holdfast.clusters.systems.memcached.text_protocol import ENDED, Failed, Memcached
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup

POLL_NS = (5 * MILLISECOND, 20 * MILLISECOND)
LOST = Answer(outcome=Status.NOT_OWNER, error="the key has another value, or none")


class MemcachedLock:
    """A BlockingLockClient; `client` makes one."""

    blocking = True
    wire = CLIENT

    def __init__(self, setup: ClientSetup, server: Memcached) -> None:
        self._name, self._server = setup.name, server
        self._poller = Poller(setup, "memcached polls", POLL_NS)
        self._compares = setup.options.get("release", "cas") == "cas"
        self._spare_s = MARGIN_S[setup.options.get("margin", "2s")]

    def open(self) -> None:
        """Nothing to wait for: the first request connects."""

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until the key is stored or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY

        def poll() -> Answer:
            try:
                if self._server.add(lock, self._value(attempt), self._ttl_s(ttl_ns)):
                    return Answer(outcome=Status.OK, ttl_ns=self._ttl_s(ttl_ns) * SECOND)
            except Failed as failed:
                return Answer(outcome=failed.outcome, error=str(failed))
            return HELD

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Stores the value again over the item that was read, if it is this attempt's."""
        return self._replace(grant, self._ttl_s(ttl_ns))

    def release(self, grant: Grant) -> Answer:
        """Lets the item end at once, if it is this attempt's; or deletes the key, whose ever it is.

        `delete` compares no version, hence a write whose time to live has ended.
        """
        if self._compares:
            return self._replace(grant, ENDED)
        try:
            return Answer(outcome=Status.OK) if self._server.delete(grant.lock) else LOST
        except Failed as failed:
            return Answer(outcome=failed.outcome, error=str(failed))

    def close(self) -> None:
        """Ends the connection; a key expires."""
        self._server.close()

    def _replace(self, grant: Grant, ttl_s: int) -> Answer:
        value = self._value(grant.attempt)
        try:
            item = self._server.get(grant.lock)
        except Failed as failed:
            # A read has no effect.
            return Answer(outcome=Status.FAIL, error=str(failed))
        if item is None or item.value != value:
            return LOST
        try:
            if not self._server.replace(grant.lock, value, ttl_s, item.version):
                return LOST
        except Failed as failed:
            return Answer(outcome=failed.outcome, error=str(failed))
        return Answer(outcome=Status.OK, ttl_ns=max(0, ttl_s) * SECOND)

    def _ttl_s(self, ttl_ns: int) -> int:
        """Whole seconds, rounded up, and the margin."""
        return max(1, -(-ttl_ns // SECOND)) + self._spare_s

    def _value(self, attempt: int) -> bytes:
        return f"{self._name}_{attempt}".encode()


def client(setup: ClientSetup) -> MemcachedLock:
    """A client of the first server; nothing is opened yet."""
    return MemcachedLock(setup, Memcached(setup.servers[0][1]))
