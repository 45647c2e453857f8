"""The docker backend: nodes are containers without any power, and they end with their driver."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.backends import engine, leftovers
from tests import needs
from tests.clusters.driving import Cluster, eventually, gone, status

pytestmark = pytest.mark.docker


def containers(folder: Path, label: str, count: int = 2) -> Cluster:
    """A cluster of containers."""
    needs.engine()
    folder.mkdir(exist_ok=True)
    return Cluster("docker", folder, label=label, count=count)


def there(label: str) -> tuple[list[Any], list[Any]]:
    """Containers and networks of a label."""
    return engine.labelled(engine.Engine(), {engine.NODES_LABEL: label})


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
        assert "n1: no-such-server cannot run: no-such-server: No such file" in answer["error"]


def test_two_clusters_at_once_have_networks_of_their_own(tmp_path: Path) -> None:
    both = [containers(tmp_path / label, label) for label in ("docker-one", "docker-two")]
    one, two = (set(cluster.opened["addresses"].values()) for cluster in both)
    assert not one & two
    assert not {address.rpartition(".")[0] for address in one} & {
        address.rpartition(".")[0] for address in two
    }
    for cluster in both:
        cluster.close()


def test_what_a_killed_driver_leaves_stops_and_is_found_and_cleaned(tmp_path: Path) -> None:
    survivor = containers(tmp_path / "living", "docker-living", count=1)
    cluster = containers(tmp_path / "killed", "docker-killed")
    idler = cluster.start("n1", "idle")["pid"]
    cluster.kill()
    eventually(lambda: gone(idler), within_s=5)

    left = [found for found in leftovers.find() if found.label.startswith("docker-")]
    assert {(found.kind, found.label) for found in left} == {
        ("container", "docker-killed"),
        ("network", "docker-killed"),
    }
    assert len(left) == 3
    for found in left:
        leftovers.clean(found)
        leftovers.clean(found)
    assert there("docker-killed") == ([], [])
    assert [len(kind) for kind in there("docker-living")] == [1, 1]
    survivor.close()


def test_without_the_image_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    needs.engine(image=False)
    from asyncio import run

    from holdfast.clusters.backends.docker import DockerBackend
    from holdfast.harness.errors import EnvironmentFailed
    from holdfast.harness.ports import Node, Place

    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="docker-imageless")

    async def attempt() -> None:
        backend = DockerBackend(place, image="holdfast-node:none")
        try:
            await backend.open([Node(name="n1", role="server")])
        finally:
            await backend.close()

    with pytest.raises(EnvironmentFailed, match="run `make docker-image`"):
        run(attempt())
