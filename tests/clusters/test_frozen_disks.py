"""Disks that an aborted run left frozen: thawed by what removes its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.clusters.backends import frozen_disks, leftovers, processes
from holdfast.harness.client import agent_link
from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed
from holdfast.harness.runs import registry
from tests import needs
from tests.nemesis.test_agent_disks import (
    SOON_NS,
    WRITER,
    Node,
    attached,
    attached_devices,
    deployed,
)
from tests.nemesis.waiting import wait_until

THREADED = f"""
import threading
def run():
    exec(compile({WRITER!r}, "writer", "exec"), {{}})
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""
"""The writer in a second thread, as a server in Go writes: the first one can be killed."""


def left_by(label: str) -> dict[str, str]:
    """The environment of a process of a run whose driver is gone."""
    mark = f"{2**22 + 1}:1:{registry.mark().rpartition(':')[2]}"
    return {registry.RUN_VARIABLE: label, registry.DRIVER_VARIABLE: mark}


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")


def soon(condition: object) -> bool:
    assert callable(condition)
    return wait_until(condition, time.monotonic_ns() + SOON_NS)


def hang(node: Node) -> None:
    """Freezes the disk, and has the process write to it."""
    node.agent.do("disk-hang", fault="f1", nodes=["n1"])
    node.send("synced")
    assert soon(lambda: "percpu" in processes.sleeps_in(node.process.pid))


def kill_agent(node: Node) -> None:
    """SIGKILL to the agent and to the process that thaws after it, which must not come first."""
    children = Path(f"/proc/{node.agent.process.pid}/task/{node.agent.process.pid}/children")
    processes.kill([*map(int, children.read_text().split()), node.agent.process.pid])
    node.agent.process.wait(10)


def test_a_process_that_waits_for_a_frozen_disk_is_freed_by_its_pid(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path) as node:
        hang(node)
        node.process.send_signal(signal.SIGKILL)
        assert node.process.poll() is None, "it waits for its disk and cannot die"
        frozen_disks.thaw(node.process.pid)
        assert node.process.wait(10) == -signal.SIGKILL


def test_one_whose_first_thread_is_gone_is_found_and_freed_by_its_pid(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path, THREADED) as node:
        hang(node)
        node.process.send_signal(signal.SIGKILL)
        pid = node.process.pid
        assert soon(lambda: registry.state_and_start(pid)[0] == "Z"), "its first thread is gone"
        assert node.process.poll() is None, "another one waits for its disk"
        assert processes.environ(pid)["PATH"] == os.environ["PATH"]
        assert str(tmp_path) in processes.shown_line(pid)
        frozen_disks.thaw(pid)
        assert node.process.wait(10) == -signal.SIGKILL
        assert processes.started(pid) == -1


def test_nothing_is_thawed_in_our_own_mount_namespace(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path) as node:
        node.agent.do("disk-hang", fault="f1", nodes=["n1"])
        frozen_disks.thaw(1)
        node.send("synced")
        assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
        node.agent.do("heal", fault="f1")
        assert node.line() == "done"


@pytest.mark.parametrize("waiting", [True, False], ids=["a thread waits", "no process is left"])
def test_a_disk_left_frozen_is_found_and_removed(tmp_path: Path, waiting: bool) -> None:
    """Everybody is killed. Without a process the frozen disk is mounted nowhere, and stays."""
    needs.disks()
    label = f"left-{os.getpid()}"
    with deployed(tmp_path, THREADED, left_by(label)) as node:
        if waiting:
            hang(node)
        else:
            node.agent.do("disk-hang", fault="f1", nodes=["n1"])
        kill_agent(node)
        node.process.kill()
        if not waiting:
            node.process.wait(10)
        (disk,) = [left for left in leftovers.find(label) if left.kind == "disk"]
        assert attached(node.at), "it is frozen, and outlives its last mount"
        leftovers.clean(disk) if not waiting else frozen_disks.thaw(node.process.pid)
        assert node.process.wait(10) == -signal.SIGKILL
        assert soon(lambda: not attached(node.at))
        assert leftovers.find(label) == []
        leftovers.clean(disk)


def test_the_disk_of_a_living_driver_is_no_leftover(tmp_path: Path) -> None:
    needs.disks()
    label = f"living-{os.getpid()}"
    with deployed(tmp_path, environ=registry.environ(label)) as node:
        assert [one.label for one in frozen_disks.devices()].count(label) == 1
        assert leftovers.find(label) == []
        assert node.write("synced") == "done"


def test_a_second_agent_thaws_what_the_first_one_froze(tmp_path: Path) -> None:
    """And nothing of another run."""
    needs.disks()
    own, other = (registry.environ(f"{name}-{os.getpid()}") for name in ("own", "other"))
    with deployed(tmp_path, THREADED, own) as node:
        hang(node)
        for environ, thawed in ((other, 0), (own, 1)):
            enter = f"--mount=/proc/{node.process.pid}/ns/mnt"
            words = [sys.executable, "-S", "-P", "-c", "from holdfast.nemesis.agent.disks import"
                     " node_disk; import os; print(node_disk.thaw_all(os.environ))"]  # fmt: skip
            done = subprocess.run(
                ["nsenter", enter, "--", *words],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ},
                capture_output=True,
                text=True,
                check=True,
            )
            assert int(done.stdout) == thawed
        assert node.line() == "done"


def test_a_device_that_has_another_file_by_now_is_left_alone(tmp_path: Path) -> None:
    needs.disks()
    with deployed(tmp_path) as node:
        hang(node)
        (device,) = attached_devices(node.at)
        frozen_disks.release(device, "/memfd:holdfast-n1-data of another by 1:2:3 (deleted)")
        assert processes.sleeps_in(node.process.pid), "still frozen"
        node.agent.do("heal", fault="f1")
        assert node.line() == "done"


def test_an_agent_that_cannot_be_killed_ends_the_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a disk itself. The driver closes its input, kills it, and goes on."""
    needs.disks()
    monkeypatch.setattr(agent_link, "ANSWER_WITHIN_S", 0.5)

    async def close(node: Node) -> None:
        enter = f"--mount=/proc/{node.agent.process.pid}/ns/mnt"
        words = ["nsenter", enter, "--", "touch", str(node.at / "new")]
        link = await AgentLink.start(words, {}, tmp_path / "log")
        assert soon(lambda: processes.sleeps_in(link.pid))
        with pytest.raises(EnvironmentFailed, match=r"has not exited within 0\.5 s of SIGKILL"):
            await link.close()
        node.agent.do("heal", fault="f1")
        with pytest.raises(AgentLost, match="code -9"):
            await link.until_lost()

    with deployed(tmp_path) as node:
        node.agent.do("disk-hang", fault="f1", nodes=["n1"])
        asyncio.run(close(node))
