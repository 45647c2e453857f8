"""Our own heartbeat lock on DynamoDB: a record that stays unchanged for its lease is replaced.

No clocks are compared: each waiter counts the lease of a record on its own monotonic clock, from
the time at which it read that version of it.
"""

from __future__ import annotations

import time

from holdfast.clusters.systems.dynamodb.table import Failed, Table
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup

POLL_NS = (20 * MILLISECOND, 80 * MILLISECOND)


class HeartbeatLock:
    """A BlockingLockClient; `client` makes one."""

    blocking = True
    wire = CLIENT

    def __init__(self, setup: ClientSetup, table: Table) -> None:
        self._poller = Poller(setup, "dynamodb polls", POLL_NS)
        self._table = table
        self._versions: dict[int, list[str]] = {}
        """attempt -> record versions written by its last request with a response, and later ones"""
        self._written = 0

    def open(self) -> None:
        """Nothing to wait for: a client that finds no table creates it."""

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until the record is free or unchanged for its lease, or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        seen, since_ns = "", 0

        def poll() -> Answer:
            nonlocal seen, since_ns
            try:
                record = self._read(lock)
                if record is None:
                    return self._take(lock, attempt, ttl_ns, "")
                version, lease_ns = record
                if version != seen:
                    seen, since_ns = version, time.monotonic_ns()
                elif time.monotonic_ns() - since_ns >= lease_ns:
                    return self._take(lock, attempt, ttl_ns, version)
            except Failed as failed:
                written = failed.outcome is Status.INFO and attempt in self._versions
                if not written and failed.kind == "ResourceNotFoundException":
                    self._make_again()
                outcome = Status.INFO if written else Status.FAIL
                return Answer(outcome=outcome, error=str(failed))
            return HELD

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Writes a new version over one of ours."""
        owned = self._versions.get(grant.attempt, [])
        version = self._new(grant.attempt)
        try:
            self._put(grant.lock, version, ttl_ns, *_is_one_of(owned))
        except Failed as failed:
            return _answer(failed)
        self._versions[grant.attempt] = [version]
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Deletes the record, if its version is one of ours."""
        condition, values = _is_one_of(self._versions.pop(grant.attempt, []))
        try:
            self._table.ask(
                "DeleteItem",
                Key={"lock": {"S": grant.lock}},
                ConditionExpression=condition,
                ExpressionAttributeValues=values,
            )
        except Failed as failed:
            return _answer(failed)
        return Answer(outcome=Status.OK)

    def close(self) -> None:
        """Closes the connection; the record stays until a client replaces it."""
        self._table.close()

    def _take(self, lock: str, attempt: int, ttl_ns: int, over: str) -> Answer:
        """Puts our record if there is none, or over a version. Raises Failed.

        A put that certainly failed leaves no version of ours.
        """
        version = self._new(attempt)
        condition = _is_one_of([over]) if over else ("attribute_not_exists(version)", {})
        try:
            self._put(lock, version, ttl_ns, *condition)
        except Failed as failed:
            if failed.outcome is Status.FAIL:
                del self._versions[attempt]
            raise
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)

    def _new(self, attempt: int) -> str:
        """A new, unique version; counted as ours as soon as it may have been written."""
        self._written += 1
        version = f"{attempt}.{self._written}"
        self._versions.setdefault(attempt, []).append(version)
        return version

    def _put(
        self, lock: str, version: str, ttl_ns: int, condition: str, values: dict[str, Json]
    ) -> None:
        record = {"lock": {"S": lock}, "version": {"S": version}, "lease_ns": {"N": str(ttl_ns)}}
        more = {"ExpressionAttributeValues": values} if values else {}
        self._table.ask("PutItem", Item=record, ConditionExpression=condition, **more)

    def _read(self, lock: str) -> tuple[str, int] | None:
        """Version and lease of the record, None if there is none. Raises Failed."""
        response = self._table.ask("GetItem", Key={"lock": {"S": lock}}, ConsistentRead=True)
        item = response.get("Item")
        return None if item is None else (item["version"]["S"], int(item["lease_ns"]["N"]))

    def _make_again(self) -> None:
        """Creates the table again after a server lost its data; the next poll shows the result."""
        try:
            self._table.create()
        except Failed:
            return


def _is_one_of(versions: list[str]) -> tuple[str, dict[str, Json]]:
    """A condition on the record's version, and the values in it."""
    values: dict[str, Json] = {
        f":v{n}": {"S": version} for n, version in enumerate(versions or [""])
    }
    return f"version IN ({', '.join(values)})", values


def _answer(failed: Failed) -> Answer:
    """What an error means for a renewal or release: a failed condition means not our record."""
    lost = failed.kind in ("ConditionalCheckFailedException", "ResourceNotFoundException")
    return Answer(outcome=Status.NOT_OWNER if lost else failed.outcome, error=str(failed))


def client(setup: ClientSetup) -> HeartbeatLock:
    """A client of the first server."""
    return HeartbeatLock(setup, Table(setup.servers[0][1]))
