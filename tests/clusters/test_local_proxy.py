"""The local-proxy backend: loopback addresses of one's own, and one address per directed link."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

from holdfast.clusters.backends import leftovers, processes
from holdfast.clusters.backends.local.proxy_backend import LocalProxyBackend
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.runs import registry
from tests import needs
from tests.clusters.driving import Cluster, eventually, family, gone

NODES = [Node(name=name, role="server") for name in ("n1", "n2", "c1")]


def place(folder: Path, label: str) -> Place:
    """A run in a folder."""
    return Place(run_id=label, run_dir=folder, shared=(), label=label)


def test_each_directed_link_has_an_address_of_its_own(tmp_path: Path) -> None:
    async def links() -> tuple[LocalProxyBackend, list[Node]]:
        backend = LocalProxyBackend(place(tmp_path, "proxy-links"))
        return backend, list(await backend.open(NODES))

    backend, nodes = asyncio.run(links())
    wanted = backend.proxy_links([7400, 7401])
    assert {(link["src"], link["dst"]) for link in wanted} == {
        (a.name, b.name) for a in NODES for b in NODES if a is not b
    }
    listening = [link["listen"] for link in wanted]
    assert len({*listening, *(node.address for node in nodes)}) == 6 + 3
    seen = {node.name: node.address for node in backend.seen_from("c1")}
    by_name = {node.name: node.address for node in nodes}
    for link in wanted:
        assert link["ports"] == [7400, 7401]
        assert link["to"] == by_name[link["dst"]]
        if link["src"] == "c1":
            assert link["listen"] == seen[link["dst"]]
    assert seen["c1"] == by_name["c1"]
    asyncio.run(backend.close())


def test_two_runs_of_one_label_share_no_address(tmp_path: Path) -> None:
    async def addresses() -> list[str]:
        both = [LocalProxyBackend(place(tmp_path, "proxy-same")) for _ in range(2)]
        opened = [await backend.open(NODES) for backend in both]
        for backend in both:
            await backend.close()
        return [node.address for nodes in opened for node in nodes]

    assert len(set(asyncio.run(addresses()))) == 6


def test_processes_talk_by_address_and_are_gone_after_close(tmp_path: Path) -> None:
    with Cluster("local-proxy", tmp_path, label="proxy-talk") as cluster:
        addresses = cluster.opened["addresses"]
        listener = cluster.start("n1", "listen", addresses["n1"])["pid"]
        cluster.start("n2", "call", addresses["n1"])
        eventually(partial(cluster.log, "n2"))
        assert cluster.log("n2").split()[3] == "n2"
        idler = cluster.start("n3", "idle")["pid"]
        eventually(lambda: len(family(idler)) == 2)
        everyone = [listener, *family(idler)]
        cluster.close()
        assert all(gone(pid) for pid in everyone)


def test_a_killed_driver_takes_its_processes_with_it(tmp_path: Path) -> None:
    with Cluster("local-proxy", tmp_path, label="proxy-killed") as cluster:
        pid = cluster.start("n1", "listen", cluster.opened["addresses"]["n1"])["pid"]
        cluster.kill()
        eventually(partial(gone, pid), within_s=2)


def test_a_server_that_wipes_its_environment_is_found_by_where_it_works(tmp_path: Path) -> None:
    redis = needs.binary("redis-server")
    log = tmp_path / "logs" / "n1" / "redis.log"

    async def scenario() -> None:
        backend = LocalProxyBackend(place(tmp_path, "proxy-wiped"))
        (node,) = await backend.open(NODES[:1])
        argv = (redis, "--bind", node.address, "--port", "7379", "--save", "")
        pid = await backend.start(node.name, Command(argv=argv, log=log))
        await processes.until(
            lambda: log.exists() and "Ready to accept" in log.read_text(),
            bound_ns=processes.START_NS,
            where="test",
            what="redis",
        )
        assert registry.RUN_VARIABLE not in processes.environ(pid)
        assert processes.works_in(pid, tmp_path)
        assert not processes.works_in(os.getpid(), tmp_path)
        dead = registry.Noted(
            run_id="r", pid=pid, started=1, run_dir=str(tmp_path), label="proxy-wiped"
        )
        (found,) = [left for left in leftovers.of_processes([dead]) if left.id == str(pid)]
        assert found.label == "proxy-wiped"
        await backend.close()
        assert gone(pid)

    asyncio.run(scenario())
