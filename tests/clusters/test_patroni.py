"""PostgreSQL under Patroni: what runs on which node, who leads, what is adopted and reaped."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest

from holdfast.clusters.systems.patroni import node, system
from holdfast.clusters.systems.patroni.system import SYSTEM
from holdfast.clusters.systems.postgres.replication import ReplicationState
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import HANDOVER
from holdfast.harness.core.ports import ClientSetup, Leader, Node, Place
from tests import needs

NODES = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]


def place(tmp_path: Path) -> Place:
    return Place(run_id="r", run_dir=tmp_path, shared=(), label="r")


def test_two_nodes_have_a_database_and_the_others_etcd(tmp_path: Path) -> None:
    first, second, third = (SYSTEM.command(node, NODES, place(tmp_path), {}) for node in NODES)
    assert third.argv[0] == "etcd" and "n3=http://10.0.0.3:2380" in third.argv
    assert json.loads(second.argv[-1])["etcd"] == "10.0.0.3" and second.nobody
    told = json.loads(Path(json.loads(first.argv[-1])["file"]).read_text())
    assert told["etcd3"]["hosts"] == ["10.0.0.3:2379"]
    assert told["postgresql"]["connect_address"] == "10.0.0.1:5432"
    assert told["postgresql"]["parameters"]["fsync"] == "on"
    with pytest.raises(EnvironmentFailed, match="needs at least 3 nodes"):
        SYSTEM.command(NODES[0], NODES[:2], place(tmp_path), {})


def test_clients_know_the_databases_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(needs.libraries(SYSTEM.libraries)))
    client = importlib.import_module("holdfast.clusters.systems.patroni.client")
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=[(one.name, one.address) for one in NODES],
        lease_ns=1,
        options={},
        tell=lambda op, **rest: None,
    )
    asked: list[str] = []

    def lease(given: ClientSetup) -> None:
        asked.extend(name for name, _ in given.servers)

    monkeypatch.setattr(client, "lease", lease)
    client.client(setup)
    assert asked == ["n1", "n2"]


def test_the_primary_of_the_last_timeline_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def role_of(server: Node) -> ReplicationState:
        return ReplicationState(name=server.name, standby=False, timeline=int(server.name[1:]))

    monkeypatch.setattr(system, "role_of", role_of)
    assert asyncio.run(SYSTEM.leader(NODES, {})) == Leader("n2", 2)


def test_a_switchover_that_patroni_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(request: object) -> None:
        raise urllib.error.URLError("503: no good candidates")

    monkeypatch.setattr(system, "_send", send)
    with pytest.raises(EnvironmentFailed, match=r"n1: the switchover was refused.*no good cand"):
        asyncio.run(SYSTEM.fail_over(NODES[0], NODES, {}, HANDOVER))


def test_etcd_is_awaited_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(node, "PORT", server.getsockname()[1])
        assert node.wait_for(["127.0.0.1"])
    monkeypatch.setattr(node, "ETCD_WITHIN_S", 0.1)
    assert not node.wait_for(["127.0.0.1"])


ORPHAN = """
import subprocess, sys
from holdfast.clusters.systems.patroni import node
node.adopt_orphans()
script = "sleep 600 >/dev/null 2>&1 & echo $!; exit 7"
child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
orphan = child.stdout.readline().strip()
code = node.reap_until(child.pid)
print(code, open(f"/proc/{orphan}/stat").read().rpartition(")")[2].split()[1], flush=True)
import os, signal
os.kill(int(orphan), signal.SIGKILL)
"""


def test_a_detached_server_is_a_child_of_the_node_s_process() -> None:
    ran = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
    said, _ = ran.communicate(timeout=20)
    assert said.split() == ["7", str(ran.pid)]
