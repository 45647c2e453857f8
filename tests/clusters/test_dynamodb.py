"""The DynamoDB lock without a server: what errors mean, and when a record may be replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems import moto_server
from holdfast.clusters.systems.dynamodb import client as dynamodb
from holdfast.clusters.systems.dynamodb.system import SYSTEM
from holdfast.clusters.systems.dynamodb.table import Failed
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from tests.clusters.client_setup import client_setup

LEASE_NS = 500_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=LEASE_NS, granted_at_ns=0)
REFUSED = Failed("ConditionalCheckFailedException", "the conditional request failed")
SILENT = Failed("NoAnswer", "timed out")


class Table:
    """Answers each action from a script; the last answer of an action is repeated."""

    def __init__(self, **script: list[Any]) -> None:
        self._script = script
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def create(self) -> None:
        self.asked.append(("CreateTable", {}))

    def ask(self, action: str, **body: Any) -> Any:
        self.asked.append((action, body))
        left = self._script.get(action, [{}])
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, Failed):
            raise said
        return said

    def close(self) -> None:
        """Nothing is open."""


def of(version: str) -> dict[str, Any]:
    return {"Item": {"version": {"S": version}, "lease_ns": {"N": str(LEASE_NS)}}}


def over(table: Table, told: list[Op] | None = None) -> dynamodb.HeartbeatLock:
    setup = client_setup(told, {}, lease_ns=LEASE_NS)
    return dynamodb.HeartbeatLock(setup, table)  # type: ignore[arg-type]


def acquired(lock: dynamodb.HeartbeatLock, wait_ns: int = 0) -> Answer:
    return lock.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [({}, Status.OK), (REFUSED, Status.FAIL), (SILENT, Status.INFO)],
)
def test_a_free_lock_is_won_lost_or_unknown(said: Any, outcome: Status) -> None:
    assert acquired(over(Table(PutItem=[said]))).outcome is outcome


def test_a_record_is_replaced_once_it_was_unchanged_for_its_lease() -> None:
    table = Table(GetItem=[of("a"), of("a"), of("b")])
    assert acquired(over(table), wait_ns=20 * LEASE_NS).outcome is Status.OK
    puts = [body for action, body in table.asked if action == "PutItem"]
    assert [body["ExpressionAttributeValues"] for body in puts] == [{":v0": {"S": "b"}}]


def test_a_try_never_replaces_what_it_sees_for_the_first_time() -> None:
    table = Table(GetItem=[of("a")])
    assert acquired(over(table)).outcome is Status.FAIL
    assert [action for action, _ in table.asked] == ["GetItem"]


def test_after_an_unknown_renewal_either_version_is_ours() -> None:
    table = Table(PutItem=[{}, SILENT, {}])
    lock = over(table)
    acquired(lock)
    assert lock.renew(GRANT, ttl_ns=LEASE_NS).outcome is Status.INFO
    assert lock.renew(GRANT, ttl_ns=LEASE_NS).outcome is Status.OK
    values = table.asked[-1][1]["ExpressionAttributeValues"]
    assert {value["S"] for value in values.values()} >= {"7.1", "7.2"}
    assert lock.release(GRANT).outcome is Status.OK
    assert table.asked[-1][1]["ExpressionAttributeValues"] == {":v0": {"S": "7.3"}}


def test_a_record_of_somebody_else_is_neither_renewed_nor_deleted() -> None:
    lock = over(Table(PutItem=[{}, REFUSED], DeleteItem=[REFUSED]))
    acquired(lock)
    assert lock.renew(GRANT, ttl_ns=LEASE_NS).outcome is Status.NOT_OWNER
    assert lock.release(GRANT).outcome is Status.NOT_OWNER


def test_only_a_record_that_was_read_says_that_the_lock_is_held() -> None:
    told: list[Op] = []
    table = Table(GetItem=[SILENT, Failed("ResourceNotFoundException", "no table"), of("a"), {}])
    assert acquired(over(table, told), wait_ns=10 * LEASE_NS).outcome is Status.OK
    assert told == [Op.WAITING]


def test_a_lost_table_is_made_again() -> None:
    table = Table(GetItem=[Failed("ResourceNotFoundException", "no table"), {}])
    assert acquired(over(table), wait_ns=10 * LEASE_NS).outcome is Status.OK
    assert ("CreateTable", {}) in table.asked


def test_the_emulator_carries_out_one_request_at_a_time() -> None:
    inside, most = [0], [0]

    def application(environ: dict[str, Any], start: Any) -> Iterator[bytes]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        yield b"done"
        inside[0] -= 1

    served = moto_server.one_by_one(application)
    said: list[list[bytes]] = []
    threads = [
        threading.Thread(target=lambda: said.append(list(served({}, print)))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [[b"done"]] * 5 and most == [1]


def test_an_emulator_in_memory_promises_nothing_across_a_restart() -> None:
    assert with_kinds(SYSTEM.promises({})).promised(
        "mutual-exclusion", ["partition", "pause", "clock"]
    )
    assert not with_kinds(SYSTEM.promises({})).promised("mutual-exclusion", ["kill"])
