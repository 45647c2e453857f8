"""Faults of a node's own disk, on a real process that writes and syncs when it is asked to."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.clusters.backends import frozen_disks
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.nemesis.agent.disks import loop_mount
from holdfast.nemesis.agent.disks.disk_faults import Power
from holdfast.nemesis.agent.disks.node_disk import LEAST, MOUNTS_VARIABLE, NodeDisk
from holdfast.nemesis.agent.disks.own_disks import OwnDisks
from holdfast.nemesis.agent.hosted_nodes import World
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.waiting import wait_until

WRITER = """
import os, sys
open_for = os.O_CREAT | os.O_WRONLY | os.O_APPEND
files = {name: os.open(f"{sys.argv[1]}/{name}", open_for) for name in ("synced", "unsynced")}
print("ready", flush=True)
for line in sys.stdin:
    name, size = line.split()
    try:
        os.write(files[name], b"x" * int(size))
        if name == "synced":
            os.fsync(files[name])
        print("done", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""
SOON_NS = 10_000_000_000


class Node:
    """An agent in a mount namespace of its own, and a process on the disk of its one node."""

    def __init__(self, agent: AgentProcess, at: Path, program: str = WRITER) -> None:
        self.agent, self.at, self.program = agent, at, program
        self.agent.do("hello", kill_on_eof=True)
        self.agent.do("disk", node="n1", path=str(at), bytes=LEAST)
        self.start()

    def start(self) -> None:
        """Starts the process, again after a fault that killed it."""
        enter = ["nsenter", f"--mount=/proc/{self.agent.process.pid}/ns/mnt", "--"]
        self.process = subprocess.Popen(
            [*enter, sys.executable, "-S", "-P", "-c", self.program, str(self.at)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"
        pid = self.process.pid
        self.agent.do("adopt", node="n1", pid=os.getpid(), address="127.0.0.1", processes=[pid])
        self.agent.do("sync_disks")

    def line(self) -> str:
        """The next line of the process."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, name: str, size: int = 100) -> None:
        """Asks for a write."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name} {size}\n")
        self.process.stdin.flush()

    def write(self, name: str, size: int = 100) -> str:
        """What the process says of a write."""
        self.send(name, size)
        return self.line()

    def size(self, name: str) -> int:
        """Bytes of a file, as the agent sees it."""
        return (Path(f"/proc/{self.agent.process.pid}/root{self.at}") / name).stat().st_size

    def waits(self) -> bool:
        """Whether the process waits for its disk: it is `D`, and off its processor by now, which
        the kernel shows by the name of a function."""
        shown = Path(f"/proc/{self.process.pid}")
        return "State:\tD" in (shown / "status").read_text() and (
            (shown / "wchan").read_text() != "0"
        )


@contextmanager
def deployed(
    folder: Path, program: str = WRITER, environ: Mapping[str, str] | None = None
) -> Iterator[Node]:
    """A node; afterwards nothing of its disk is left. `environ`: more, for its agent.

    Its memory is named after its folder and the one above; two tests at a time must not share them.
    """
    folder /= f"{folder.name}-{os.getpid()}"
    environ = {MOUNTS_VARIABLE: os.readlink("/proc/self/ns/mnt"), **(environ or {})}
    with AgentProcess(["unshare", "--mount", "--"], environ) as agent:
        made = Node(agent, folder / "n1", program)
        try:
            yield made
        finally:
            agent.process.stdin and agent.process.stdin.close()
            made.process.kill()
            thaw(folder / "n1")
            made.process.communicate()
    gone = wait_until(lambda: not attached(folder / "n1"), time.monotonic_ns() + SOON_NS)
    assert gone, "a loop device is left"


def thaw(at: Path) -> None:
    """Thaws the disk, whoever froze it: else a failed test would wait for its process for ever."""
    for device, backing in attached_devices(at).items():
        with suppress(EnvironmentFailed):
            frozen_disks.release(device, backing)


def attached(at: Path) -> list[str]:
    """The names of the memory of a disk that is mounted there, for each loop device."""
    return list(attached_devices(at).values())


def attached_devices(at: Path) -> dict[str, str]:
    """Loop devices of this host with the memory of a disk that is mounted there -> its name."""
    found = {}
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = backing.read_text().strip()
        except OSError:
            continue
        if f"memfd:holdfast-{at.name}-{at.parent.name} " in text:
            found[f"/dev/{backing.parts[3]}"] = text
    return found


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    needs.disks()
    with deployed(tmp_path) as made:
        assert attached(made.at)
        yield made


def test_a_power_loss_takes_what_was_not_synced_and_nothing_else(node: Node) -> None:
    assert [node.write("synced"), node.write("unsynced")] == ["done", "done"]
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    evidence = node.agent.do("power", fault="f1", nodes=["n1"])
    first, last = evidence["cut_ns"]
    assert before < first <= last < time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert evidence["effective"] and evidence["shut down"] == {"n1": True}
    assert node.process.wait(10) == -9
    assert node.agent.do("heal", fault="f1")["restart"] == ["n1"]
    assert (node.size("synced"), node.size("unsynced")) == (100, 0)
    node.start()
    assert node.write("synced") == "done", "the disk works again"
    assert node.size("synced") == 200


def test_a_kill_takes_nothing(node: Node) -> None:
    assert node.write("unsynced") == "done"
    assert node.agent.do("kill", fault="f1", nodes=["n1"])["effective"]
    assert node.size("unsynced") == 100


def test_a_second_power_loss_works_as_the_first(node: Node) -> None:
    for fault in ("f1", "f2"):
        assert [node.write("synced"), node.write("unsynced")] == ["done", "done"]
        assert node.agent.do("power", fault=fault, nodes=["n1"])["effective"]
        node.process.communicate()
        node.agent.do("heal", fault=fault)
        node.start()
    assert (node.size("synced"), node.size("unsynced")) == (200, 0)


def test_a_node_without_a_disk_and_a_dead_one_lose_no_power(node: Node) -> None:
    pid = node.process.pid
    node.agent.do("adopt", node="n2", pid=os.getpid(), address="127.0.0.2", processes=[pid])
    assert "n2 has no disk" in node.agent.error("power", fault="f1", nodes=["n1", "n2"])
    node.process.kill()
    node.process.communicate()
    assert "no live process" in node.agent.error("power", fault="f2", nodes=["n1"])


def test_a_node_whose_disk_kept_its_power_is_still_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_mount, "require", lambda at: None)
    monkeypatch.setattr(loop_mount, "thaw", lambda at: False)

    class Sturdy(NodeDisk):
        """A disk that the kernel does not shut down."""

        def cut(self) -> tuple[int, int]:
            raise OSError(errno.EIO, "not shut down")

        def recover(self) -> None:
            """Nothing to recover."""

    needs.disks()
    with subprocess.Popen(["sleep", "60"]) as sleeper, ExitStack() as over:
        over.callback(sleeper.kill)
        world = World()
        world.adopt("n1", os.getpid(), "127.0.0.1", [sleeper.pid])
        world.part(OwnDisks).of["n1"] = Sturdy(at=tmp_path, size=LEAST)
        power = Power(world)
        evidence = power.inject("f1", {"nodes": ["n1"]})
        assert not evidence["effective"] and evidence["shut down"] == {"n1": False}
        assert sleeper.wait(10) == -9
        assert power.heal("f1")["restart"] == ["n1"]


def test_no_disk_is_mounted_that_would_outlive_the_agent(tmp_path: Path) -> None:
    with AgentProcess() as agent:
        said = agent.error("disk", node="n1", path=str(tmp_path), bytes=LEAST)
    assert "no mount namespace of its own" in said


def test_writes_wait_while_a_disk_hangs(node: Node) -> None:
    assert not node.agent.do("disk-hang", fault="f1", nodes=["n1"])["effective"], (
        "nothing waits yet"
    )
    node.send("synced")
    assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)

    def observed() -> bool:
        # Any wait for a disk looks like that one, also the short ones before it.
        found: bool = node.agent.do("observe", fault="f1")["waiting"] == {"n1": 1}
        return found

    assert wait_until(observed, time.monotonic_ns() + SOON_NS)
    healed = node.agent.do("heal", fault="f1")
    assert healed["effective"] and healed["restart"] == []
    begun, ended = healed["frozen_ns"]
    assert begun < ended
    assert node.line() == "done"


def test_two_hangs_of_a_disk_end_with_the_last_of_them(node: Node) -> None:
    for fault in ("f1", "f2"):
        node.agent.do("disk-hang", fault=fault, nodes=["n1"])
    node.send("synced")
    assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
    node.agent.do("heal", fault="f1")

    def effective() -> bool:
        found: bool = node.agent.do("observe", fault="f2")["effective"]
        return found

    assert wait_until(effective, time.monotonic_ns() + SOON_NS)
    node.agent.do("heal", fault="f2")
    assert node.line() == "done"


def test_a_disk_that_hangs_can_lose_its_power(node: Node) -> None:
    assert node.write("synced") == "done"
    node.agent.do("disk-hang", fault="f1", nodes=["n1"])
    node.send("synced")
    assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
    assert node.agent.do("power", fault="f2", nodes=["n1"])["effective"]
    node.process.communicate()
    assert node.agent.do("heal", fault="f2")["restart"] == ["n1"]
    node.agent.do("heal", fault="f1")
    assert node.size("synced") == 100
    node.start()
    assert node.write("synced") == "done"


def test_a_process_that_was_killed_while_its_disk_hung_is_named_for_a_restart(node: Node) -> None:
    node.agent.do("disk-hang", fault="f1", nodes=["n1"])
    node.send("synced")
    assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
    node.process.kill()
    assert node.agent.do("heal", fault="f1")["restart"] == ["n1"]


def test_a_full_disk_refuses_new_blocks_also_those_freed_meanwhile(node: Node) -> None:
    assert node.write("unsynced", 1 << 20) == "done"
    assert node.agent.do("disk-full", fault="f1", nodes=["n1"])["effective"]
    assert node.write("unsynced", 1 << 20) == "28", "ENOSPC"
    (Path(f"/proc/{node.agent.process.pid}/root{node.at}") / "unsynced").unlink()
    node.agent.do("observe", fault="f1")
    assert node.write("synced", 1 << 20) == "28"
    node.agent.do("heal", fault="f1")
    assert node.write("synced", 1 << 20) == "done"


def test_a_disk_that_hangs_is_full_once_it_goes_on(node: Node) -> None:
    """To take its space, and to give it back, is a write too: the agent would wait with them."""
    node.agent.do("disk-hang", fault="f1", nodes=["n1"])
    assert not node.agent.do("disk-full", fault="f2", nodes=["n1"])["effective"], "all writes wait"
    assert not node.agent.do("observe", fault="f2")["effective"]
    node.agent.do("sync_disks")
    node.agent.do("heal", fault="f1")
    assert node.write("synced", 1 << 20) == "28", "ENOSPC"
    assert node.agent.do("heal", fault="f2")["effective"]
    assert node.write("synced", 1 << 20) == "done"


def test_a_full_disk_has_its_space_again_once_it_goes_on(node: Node) -> None:
    node.agent.do("disk-full", fault="f1", nodes=["n1"])
    node.agent.do("disk-hang", fault="f2", nodes=["n1"])
    assert node.agent.do("observe", fault="f1")["effective"], "it was full before"
    assert node.agent.do("heal", fault="f1")["effective"]
    node.agent.do("heal", fault="f2")
    assert node.write("synced", 1 << 20) == "done"


def test_a_fault_that_came_and_went_while_a_disk_hung_leaves_it_as_it_was(node: Node) -> None:
    node.agent.do("disk-hang", fault="f1", nodes=["n1"])
    node.agent.do("disk-full", fault="f2", nodes=["n1"])
    assert not node.agent.do("heal", fault="f2")["effective"]
    node.agent.do("heal", fault="f1")
    assert node.write("synced", 1 << 20) == "done"


@pytest.mark.parametrize("first", ["disk-hang", "disk-full"])
def test_a_full_disk_that_hangs_can_lose_its_power(node: Node, first: str) -> None:
    assert node.write("synced") == "done"
    second = {"disk-hang": "disk-full", "disk-full": "disk-hang"}[first]
    for number, do in enumerate((first, second)):
        node.agent.do(do, fault=f"f{number}", nodes=["n1"])
    assert node.agent.do("power", fault="power", nodes=["n1"])["effective"]
    node.process.communicate()
    assert node.agent.do("heal", fault="power")["restart"] == ["n1"]
    node.agent.do("heal", fault="f0" if first == "disk-hang" else "f1")
    node.start()
    assert node.write("synced", 1 << 20) == "28", "ENOSPC"
    node.agent.do("heal", fault="f1" if first == "disk-hang" else "f0")
    assert node.write("synced", 1 << 20) == "done"


def test_what_a_lying_disk_reported_as_synced_is_lost_with_its_power(node: Node) -> None:
    needs.tracing()
    assert node.write("synced") == "done"
    node.agent.do("sync-lie", fault="f1", nodes=["n1"])
    assert [node.write("synced"), node.write("synced")] == ["done", "done"]
    assert not node.agent.do("observe", fault="f1")["effective"], "no power was lost yet"
    healed = node.agent.do("heal", fault="f1")
    assert healed["effective"] and healed["calls"] == {"n1": 2} and healed["restart"] == ["n1"]
    assert node.size("synced") == 100


def test_a_lying_disk_that_was_asked_for_no_sync_still_loses_its_power(node: Node) -> None:
    needs.tracing()
    node.agent.do("sync-lie", fault="f1", nodes=["n1"])
    assert node.write("unsynced") == "done"
    healed = node.agent.do("heal", fault="f1")
    assert healed["effective"] and healed["calls"] == {}
    assert node.size("unsynced") == 0


def test_syncs_are_delayed_and_fail(node: Node) -> None:
    needs.tracing()
    node.agent.do("disk-slow", fault="f1", nodes=["n1"], by_ns=200_000_000)
    begun = time.monotonic()
    assert node.write("synced") == "done"
    assert time.monotonic() - begun > 0.2
    assert node.agent.do("heal", fault="f1")["effective"]
    node.agent.do("disk-error", fault="f2", nodes=["n1"], error="ENOSPC")
    assert node.write("synced") == "28"
    assert node.agent.do("heal", fault="f2")["effective"]
    assert node.write("synced") == "done"


@pytest.mark.parametrize(
    "do",
    ["power", "disk-hang", "disk-full", "sync-lie", "disk-full+disk-hang", "disk-hang+disk-full"],
)
def test_an_agent_that_is_killed_leaves_no_mount_and_no_device(do: str, tmp_path: Path) -> None:
    needs.disks()
    needs.tracing()
    with deployed(tmp_path) as node:
        for number, one in enumerate(do.split("+")):
            node.agent.do(one, fault=f"f{number}", nodes=["n1"])
        if "disk-hang" in do:
            node.send("synced")
            assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
        node.agent.process.kill()
        if "disk-hang" in do:
            assert node.line() in ("done", "28"), "it was thawed"
    assert not os.path.ismount(node.at)
