"""Redis Cluster: who has which slots, what the client makes of answers, and real servers."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.redis.cluster.layout import node_id, nodes_file, serves, slots_of
from holdfast.clusters.systems.redis.cluster.system import SYSTEM
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.clusters.client_setup import client_setup
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

SECOND = 1_000_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)


def servers(count: int = 6) -> list[Node]:
    return [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in range(1, count + 1)]


def test_three_nodes_have_all_slots_and_the_others_copy_them() -> None:
    nodes = servers()
    *lines, last, empty = nodes_file(nodes[4], nodes, "r").split("\n")
    assert (last, empty) == ("vars currentEpoch 3 lastVoteEpoch 0", "")
    words = [line.split() for line in lines]
    assert [line[8:] for line in words] == [["0-5460"], ["5461-10921"], ["10922-16383"], [], [], []]
    assert [line[2] for line in words] == [*["master"] * 3, "slave", "myself,slave", "slave"]
    assert words[4][3] == words[1][0] == node_id(nodes[1], "r")
    assert words[4][1] == "10.0.0.5:6379@16379"
    assert slots_of(2) == "10922-16383"


@pytest.mark.parametrize(
    ("flags", "slots", "epoch"),
    [
        ("myself,master", "0-9", 7),
        ("myself,master", "3 5", 7),
        ("myself,master", "6-9 [5->-abc]", None),
        ("myself,slave", "", None),
        ("master", "0-9", None),
    ],
)
def test_a_node_leads_if_it_says_that_it_is_the_primary_of_the_slot(
    flags: str, slots: str, epoch: int | None
) -> None:
    said = f"abc 10.0.0.1:6379@16379 {flags} - 0 0 7 connected {slots}\n"
    assert serves(said, 5) == epoch


def test_six_servers_start_each_from_its_own_file(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    nodes = servers()
    command = SYSTEM.command(nodes[0], nodes, place, {"persistence": "none"})
    assert command.argv[-8:-2] == (
        "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
        "--cluster-node-timeout", "1000",
    )  # fmt: skip
    file = tmp_path / "data" / "n1" / "nodes.conf"
    file.write_text("as the server left it")
    SYSTEM.command(nodes[0], nodes, place, {})
    assert file.read_text() == "as the server left it"
    with pytest.raises(EnvironmentFailed, match="exactly 6 nodes"):
        SYSTEM.command(nodes[0], servers(3), place, {})
    with pytest.raises(EnvironmentFailed, match="proxies on loopback"):
        SYSTEM.command(Node(name="n1", role="server", address="127.0.0.1"), nodes, place, {})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The client's module, which imports redis-py."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(needs.libraries(SYSTEM.libraries))])
    return importlib.import_module("holdfast.clusters.systems.redis.cluster.client")


class Cluster:
    """A connection to a cluster, one response per command; commands as they come."""

    def __init__(self, *said: Any) -> None:
        self.said, self.heard, self.read_again = list(said), list[tuple[Any, ...]](), 0
        self.nodes_manager = self

    def execute_command(self, *words: Any) -> Any:
        if "'del'" in str(words[1]):
            words = ("EVAL", "del", *words[2:])
        self.heard.append(words)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def initialize(self) -> None:
        self.read_again += 1

    def get_node_from_key(self, lock: str) -> str:
        return lock

    def get_redis_connection(self, node: str) -> Cluster:
        return self

    def pipeline(self, transaction: bool) -> Pipe:
        return Pipe(self)


class Pipe:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._words = cluster, list[tuple[Any, ...]]()

    def execute_command(self, *words: Any) -> None:
        self._words.append(words)

    def execute(self, raise_on_error: bool) -> Sequence[Any]:
        self._cluster.heard += self._words
        said = self._cluster.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return list(said)


def over(module: ModuleType, connection: Cluster, told: list[Op], **options: str) -> Any:
    setup = client_setup(told, options, address="10.0.0.1")
    lock = module.ClusterLock(setup, lambda: connection)
    lock.open()
    return lock


def acquired(lock: Any, wait_ns: int = 0) -> Answer:
    answer: Answer = lock.acquire(
        "l", attempt=7, ttl_ns=SECOND, wait_ns=wait_ns, mode=Mode.EXCLUSIVE
    )
    return answer


def test_a_grant_without_wait_is_one_command(cluster: ModuleType) -> None:
    told: list[Op] = []
    connection = Cluster(None, True)
    assert acquired(over(cluster, connection, told), SECOND).outcome is Status.OK
    assert connection.heard == [("SET", "l", 7, "NX", "PX", 1000)] * 2 and told == [Op.WAITING]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("ClusterDownError", Status.FAIL),
        ("RedisClusterException", Status.FAIL),
        ("TimeoutError", Status.INFO),
        ("ConnectionError", Status.INFO),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(
    cluster: ModuleType, error: str, outcome: Status
) -> None:
    said = getattr(cluster.redis.exceptions, error)("why")
    assert acquired(over(cluster, Cluster(said), [])).outcome is outcome


def test_wait_goes_to_the_connection_of_the_grant(cluster: ModuleType) -> None:
    connection = Cluster((True, 1))
    assert acquired(over(cluster, connection, [], wait="1")).outcome is Status.OK
    assert [words[0] for words in connection.heard] == ["SET", "WAIT"]


def test_a_grant_that_too_few_replicas_have_is_released(cluster: ModuleType) -> None:
    connection = Cluster((True, 0), 1)
    answer = acquired(over(cluster, connection, [], wait="1"))
    assert answer.outcome is Status.FAIL and "too few" in answer.error
    assert connection.heard[-1] == ("EVAL", "del", 1, "l", 7)
    silent = Cluster((True, 0), cluster.redis.exceptions.TimeoutError("why"))
    assert acquired(over(cluster, silent, [], wait="1")).outcome is Status.INFO


def test_moved_slots_are_read_again_and_nothing_was_written(cluster: ModuleType) -> None:
    moved = cluster.redis.exceptions.MovedError("12 10.0.0.2:6379")
    connection = Cluster((moved, 0))
    assert acquired(over(cluster, connection, [], wait="1")).outcome is Status.FAIL
    assert connection.read_again == 1


def test_a_renewal_that_too_few_replicas_have_proves_nothing(cluster: ModuleType) -> None:
    lock = over(cluster, Cluster((1, 0), (1, 1), (0, 0)), [], wait="1")
    said = [lock.renew(GRANT, ttl_ns=SECOND).outcome for _ in range(3)]
    assert said == [Status.INFO, Status.OK, Status.NOT_OWNER]


def test_exclusion_is_promised_without_faults_only() -> None:
    for options in ({}, {"wait": "1"}):
        promises = with_kinds(SYSTEM.promises(options))
        assert promises.promised("mutual-exclusion", [])
        assert not any(promises.promised("mutual-exclusion", [do]) for do in ("kill", "partition"))
        assert promises.promised("orphan-freedom", ["kill", "partition"])


def test_no_leader_is_found_where_no_server_responds() -> None:
    nodes = [Node(name="n1", role="server", address="127.0.0.1")]
    assert asyncio.run(SYSTEM.leader(nodes, {})) is None


@pytest.mark.real_server
def test_a_lock_is_granted_again_after_a_primary_is_killed(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    words = ("--system", "redis-cluster", "--lease", "1s", "--time", "12s")
    ran = run(tmp_path, *words, "--nemesis", "kill:target=leader,every=6s,for=4s", codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"kill"})
    assert ran.verdict("orphan-freedom") == "HOLDS"
