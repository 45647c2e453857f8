"""The local backend: nodes are network namespaces, and all of it ends with its driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from holdfast.clusters.backends.local.backend import launch_prefix
from tests import needs
from tests.clusters.driving import HERE, Cluster, eventually, family, gone

SOURCE = HERE.parents[1]


def fabric(folder: Path, label: str) -> Cluster:
    """Three nodes in a fabric of their own."""
    needs.namespaces()
    return Cluster("local", folder, label=label, before=launch_prefix())


def network_of_the_host() -> str:
    """Links and routes as a run must leave them."""
    links = Path("/sys/class/net")
    return "\n".join(sorted(os.listdir(links))) + Path("/proc/net/route").read_text()


def test_nodes_reach_each_other_by_address_from_different_namespaces(tmp_path: Path) -> None:
    with fabric(tmp_path, "local-talk") as cluster:
        addresses = cluster.opened["addresses"]
        cluster.start("n1", "listen", addresses["n1"])
        for caller in ("n2", "n3"):
            cluster.start(caller, "call", addresses["n1"])
            eventually(partial(cluster.log, caller))
            calling, answering, seen, mark = cluster.log(caller).split()
            assert seen == addresses[caller]
            assert mark == caller
            assert len({calling, answering, os.readlink("/proc/self/ns/net")}) == 3


def test_the_pid_is_that_of_the_command_in_the_namespace_of_its_node(tmp_path: Path) -> None:
    with fabric(tmp_path, "local-pid") as cluster:
        pid = cluster.start("n2", "idle")["pid"]
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert words[1:3] == [str(HERE / "talk.py"), "idle"]
        holder = cluster.opened["holders"]["n2"]
        assert os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{holder}/ns/net")


def test_a_command_that_cannot_run_is_an_error_that_names_it(tmp_path: Path) -> None:
    with fabric(tmp_path, "local-refused") as cluster:
        answer = cluster.execute("n1", "no-such-server")
        assert "n1: no-such-server cannot run" in answer["error"]
        assert "No such file" in answer["error"]


def test_closing_leaves_no_process_and_the_host_as_it_was(tmp_path: Path) -> None:
    before = network_of_the_host()
    cluster = fabric(tmp_path, "local-close")
    pid = cluster.start("n1", "idle")["pid"]
    eventually(lambda: len(family(pid)) == 2)
    everyone = [*family(pid), *cluster.opened["holders"].values()]
    assert network_of_the_host() == before
    cluster.close()
    assert all(gone(member) for member in everyone)
    assert network_of_the_host() == before


def test_a_killed_driver_takes_its_nodes_and_processes_with_it(tmp_path: Path) -> None:
    cluster = fabric(tmp_path, "local-killed")
    server = cluster.start("n1", "listen", cluster.opened["addresses"]["n1"])["pid"]
    everyone = [server, *cluster.opened["holders"].values()]
    assert not any(gone(member) for member in everyone)
    cluster.kill()
    eventually(lambda: all(gone(member) for member in everyone), within_s=2)


def test_outside_a_fabric_it_says_so_and_touches_nothing(tmp_path: Path) -> None:
    before = network_of_the_host()
    cluster = Cluster("local", tmp_path, label="local-outside")
    assert "not in its own network namespace" in cluster.opened["error"]
    cluster.close()
    assert network_of_the_host() == before


def test_a_fabric_that_is_not_ours_does_not_count(tmp_path: Path) -> None:
    here = {"HOLDFAST_OUTSIDE": os.readlink("/proc/self/ns/net")}
    cluster = Cluster("local", tmp_path, label="local-same", environ=here)
    assert "not in its own network namespace" in cluster.opened["error"]
    cluster.close()


@pytest.fixture
def nobody() -> Iterator[tuple[Path, Sequence[str]]]:
    """A folder of nobody's with the sources in it, and words that run Python as nobody."""
    words = needs.ordinary_user()
    with tempfile.TemporaryDirectory(prefix="holdfast-nobody-") as name:
        folder = Path(name)
        for room in ("harness", "clusters", "nemesis"):
            shutil.copytree(SOURCE / room, folder / "holdfast" / room)
        shutil.copytree(HERE, folder / "programs")
        (folder / "holdfast" / "__init__.py").touch()
        (folder / "run").mkdir()
        for place in (folder, folder / "run"):
            shutil.chown(place, "nobody")
        yield folder, words


def as_nobody(folder: Path, words: Sequence[str], program: str) -> str:
    """What a program prints that runs as nobody."""
    done = subprocess.run(
        [*words, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return done.stdout.strip()


def test_an_ordinary_user_needs_no_root(nobody: tuple[Path, Sequence[str]]) -> None:
    folder, words = nobody
    ask = "from holdfast.clusters.backends.local import backend; print(backend.{}())"
    refusal = as_nobody(folder, words, ask.format("precheck"))
    needs.unless(None if refusal == "None" else refusal)
    prefix = "from holdfast.clusters.backends.local import backend; print(*backend.launch_prefix())"
    before = as_nobody(folder, words, prefix).split()
    assert "--user" in before
    cluster = Cluster(
        "local",
        folder / "run",
        label="local-nobody",
        before=[*words[:-1], *before],
        python=words[-1:],
        environ={"PYTHONPATH": str(folder)},
        programs=folder / "programs",
    )
    addresses = cluster.opened["addresses"]
    listener = cluster.start("n1", "listen", addresses["n1"])["pid"]
    cluster.start("n2", "call", addresses["n1"])
    eventually(lambda: cluster.log("n2"))
    assert cluster.log("n2").split()[2] == addresses["n2"]
    assert Path(f"/proc/{listener}").stat().st_uid != 0
    cluster.kill()
    eventually(lambda: gone(listener), within_s=2)


def test_the_local_backend_needs_the_standard_library_only() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import holdfast.clusters.backends.local.backend"],
        env={"PYTHONPATH": str(SOURCE / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
