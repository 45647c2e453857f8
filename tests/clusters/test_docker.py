"""The docker backend: nodes are containers without any power, and they end with their driver."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.backends import leftovers
from holdfast.clusters.backends.docker import engine
from holdfast.clusters.backends.docker.backend import DockerBackend
from holdfast.clusters.backends.docker.leftovers import LEFTOVERS
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.clusters.driving import HERE, Cluster, eventually, gone, status

pytestmark = pytest.mark.docker


def containers(folder: Path, label: str, count: int = 2) -> Cluster:
    """A cluster of containers."""
    needs.engine()
    folder.mkdir(exist_ok=True)
    return Cluster("docker", folder, label=label, count=count)


def there(label: str) -> tuple[list[Any], list[Any]]:
    """Containers and networks of a label."""
    return engine.labelled(engine.ContainerEngine(), {engine.NODES_LABEL: label})


def test_nodes_reach_each_other_and_log_into_the_run_folder(tmp_path: Path) -> None:
    with containers(tmp_path, "docker-talk") as cluster:
        addresses = cluster.opened["addresses"]
        cluster.start("n1", "listen", addresses["n1"])
        cluster.start("n2", "call", addresses["n1"])
        eventually(partial(cluster.log, "n2"))
        calling, answering, seen, mark = cluster.log("n2").split()
        assert (seen, mark) == (addresses["n2"], "n2")
        assert calling != answering
        cluster.close()
        assert there("docker-talk") == ([], [])


def test_the_pid_is_one_of_the_host_and_its_environment_is_that_of_the_command(
    tmp_path: Path,
) -> None:
    with containers(tmp_path, "docker-pid", count=1) as cluster:
        pid = cluster.start("n1", "idle")["pid"]
        holder = cluster.opened["holders"]["n1"]
        assert os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{holder}/ns/net")
        assert Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").endswith("idle")
        names = {
            pair.partition("=")[0] for pair in Path(f"/proc/{pid}/environ").read_text().split("\0")
        }
        assert names == {"", "MARK", "PATH"}
        cluster.close()
        assert gone(pid)


def test_a_node_has_no_capability_and_can_get_none(tmp_path: Path) -> None:
    with containers(tmp_path, "docker-powerless", count=1) as cluster:
        for pid in (cluster.start("n1", "idle")["pid"], cluster.opened["holders"]["n1"]):
            shown = status(pid)
            sets = [shown[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
            assert sets == ["0" * 16] * 5
            assert shown["NoNewPrivs"] == "1"


def test_a_command_that_cannot_run_is_an_error_that_names_it(tmp_path: Path) -> None:
    with containers(tmp_path, "docker-refused", count=1) as cluster:
        answer = cluster.execute("n1", "no-such-server")
        assert "n1: no-such-server: cannot run: no-such-server: No such file" in answer["error"]


def test_two_clusters_at_once_have_networks_of_their_own(tmp_path: Path) -> None:
    with (
        containers(tmp_path / "one", "docker-one", count=1) as one,
        containers(tmp_path / "two", "docker-two", count=1) as two,
    ):
        assert one.opened["addresses"]["n1"] != two.opened["addresses"]["n1"]
        assert [len(kind) for kind in there("docker-one")] == [1, 1]
        assert [len(kind) for kind in there("docker-two")] == [1, 1]
        one.close()
        assert there("docker-one") == ([], [])
        assert [len(kind) for kind in there("docker-two")] == [1, 1]


def test_what_a_killed_driver_leaves_stops_and_is_found_and_cleaned(tmp_path: Path) -> None:
    with (
        containers(tmp_path / "living", "docker-living", count=1),
        containers(tmp_path / "killed", "docker-killed") as cluster,
    ):
        idler = cluster.start("n1", "idle")["pid"]
        cluster.kill()
        eventually(partial(gone, idler), within_s=5)

        left = [
            found
            for found in leftovers.find(sources=[LEFTOVERS])
            if found.label.startswith("docker-")
        ]
        assert {(found.kind, found.label) for found in left} == {
            ("container", "docker-killed"),
            ("network", "docker-killed"),
        }
        assert len(left) == 3
        for found in left:
            leftovers.clean(found, [LEFTOVERS])
            leftovers.clean(found, [LEFTOVERS])
        assert there("docker-killed") == ([], [])
        assert [len(kind) for kind in there("docker-living")] == [1, 1]


def test_half_an_open_is_closed_too(tmp_path: Path) -> None:
    needs.engine()
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="docker-half")

    async def attempt() -> None:
        backend = DockerBackend(place)
        try:
            await backend.open([Node(name=name, role="server") for name in ("n1", "n1")])
        finally:
            assert len(there("docker-half")[1]) == 1
            await backend.close()
            await backend.close()

    with pytest.raises(EnvironmentFailed, match="n1"):
        asyncio.run(attempt())
    assert there("docker-half") == ([], [])


def test_the_helper_of_an_ordinary_user_sees_the_host_and_has_what_faults_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.engine()
    needs.binary("docker")
    place = Place(run_id="r", run_dir=tmp_path, shared=(HERE,), label="docker-helper")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    argv = DockerBackend(place).agent_argv()
    monkeypatch.undo()
    assert argv[-4:] == ["-S", "-P", "-m", "holdfast.nemesis.agent"]
    here = f"/proc/{os.getpid()}/ns/net"
    program = f"import os; print(open('/proc/self/status').read(), os.readlink('{here}'))"
    helper = [*argv[:-4], "-S", "-c", program]
    done = subprocess.run(helper, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[-1] == os.readlink(here)
    effective = words[words.index("CapEff:") + 1]
    kill, net_admin, sys_ptrace, sys_admin = 5, 12, 19, 21
    for bit in (kill, net_admin, sys_ptrace, sys_admin):
        assert int(effective, 16) >> bit & 1


def test_without_the_image_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    needs.engine(image=False)
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="docker-imageless")

    async def attempt() -> None:
        backend = DockerBackend(place, image="holdfast-node:none")
        try:
            await backend.open([Node(name="n1", role="server")])
        finally:
            await backend.close()

    with pytest.raises(EnvironmentFailed, match="run `make docker-image`"):
        asyncio.run(attempt())
