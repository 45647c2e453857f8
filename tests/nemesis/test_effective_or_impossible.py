"""Faults of disks, system calls and functions: fifty times effective, which the victim has to feel,
and fifty times made impossible, which no evidence may call effective."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.test_agent_disks import SOON_NS, Node, deployed
from tests.nemesis.test_agent_failpoints import Steps, built, held, stepping
from tests.nemesis.test_agent_signals import adopt
from tests.nemesis.test_agent_system_calls import Caller, caller, effective
from tests.nemesis.waiting import wait_until

__all__ = ["built"]
TIMES = 50
WHERE = {"fault": "f1", "nodes": ["n1"]}
MS = 1_000_000
FORKING = """
import os, sys
print("ready", flush=True)
hold = [(os.POSIX_SPAWN_OPEN, 9, sys.argv[1], os.O_RDONLY, 0)]
os.posix_spawn("/bin/true", ["true"], {}, file_actions=hold)
sys.stdin.read()
"""
"""Sleeps as vfork(2) lets a parent sleep, until the child has opened a pipe that nobody writes."""


def claimed(agent: AgentProcess, do: str, **args: Any) -> bool:
    """Whether a fault is claimed to be effective; refused, after 30 ms, or as it heals."""
    if not agent.ask(do, **WHERE, **args)["ok"]:
        return False
    deadline = time.monotonic_ns() + 30 * MS
    seen = wait_until(lambda: bool(agent.do("observe", fault="f1")["effective"]), deadline)
    return bool(seen or agent.do("heal", fault="f1")["effective"])


# Disks


def feel_power(node: Node, fault: str) -> None:
    size = node.size("synced")
    assert [node.write("synced"), node.write("unsynced")] == ["done", "done"]
    assert node.agent.do("power", nodes=["n1"], fault=fault)["effective"]
    node.process.communicate()
    assert node.agent.do("heal", fault=fault)["effective"]
    assert (node.size("synced"), node.size("unsynced")) == (size + 100, 0)
    node.start()


def feel_disk_hang(node: Node, fault: str) -> None:
    node.agent.do("disk-hang", nodes=["n1"], fault=fault)
    node.send("synced")
    assert wait_until(node.waits, time.monotonic_ns() + SOON_NS)
    assert node.agent.do("heal", fault=fault)["effective"]
    assert node.line() == "done"


def feel_disk_full(node: Node, fault: str) -> None:
    assert node.agent.do("disk-full", nodes=["n1"], fault=fault)["effective"]
    size = node.size("synced")
    node.write("synced", 1 << 20)
    assert node.size("synced") <= -(-size // 4096) * 4096, "it got no new block"
    assert node.agent.do("heal", fault=fault)["effective"]
    assert node.write("synced") == "done"


def feel_sync_lie(node: Node, fault: str) -> None:
    size = node.size("synced")
    node.agent.do("sync-lie", nodes=["n1"], fault=fault)
    assert node.write("synced") == "done"
    healed = node.agent.do("heal", fault=fault)
    assert healed["effective"] and healed["calls"] == {"n1": 1}
    node.process.communicate()
    assert node.size("synced") == size
    node.start()


def feel_disk_slow(node: Node, fault: str) -> None:
    node.agent.do("disk-slow", nodes=["n1"], fault=fault, by_ns=20 * MS)
    begun = time.monotonic_ns()
    assert node.write("synced") == "done" and time.monotonic_ns() - begun >= 20 * MS
    assert node.agent.do("heal", fault=fault)["effective"]


def feel_disk_error(node: Node, fault: str) -> None:
    node.agent.do("disk-error", nodes=["n1"], fault=fault, error="EIO")
    assert node.write("synced") == "5"
    assert node.agent.do("heal", fault=fault)["effective"]
    assert node.write("synced") == "done"


def feel_torn_write(node: Node, fault: str) -> None:
    size = node.size("unsynced")
    node.agent.do("torn-write", nodes=["n1"], fault=fault)
    node.send("unsynced", 700)
    node.process.communicate()
    assert node.agent.do("heal", fault=fault)["effective"]
    assert node.size("unsynced") == size + 512
    node.start()


DISKS: Mapping[str, Callable[[Node, str], None]] = {
    "power": feel_power,
    "disk-hang": feel_disk_hang,
    "disk-full": feel_disk_full,
    "sync-lie": feel_sync_lie,
    "disk-slow": feel_disk_slow,
    "disk-error": feel_disk_error,
    "torn-write": feel_torn_write,
}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"disk-slow": {"by_ns": MS}, "disk-error": {}}


def asked(node: Node, do: str) -> bool:
    return claimed(node.agent, do, **ARGUMENTS.get(do, {}))


def process_gone(node: Node, do: str) -> bool:
    node.process.kill()
    node.process.communicate()
    return asked(node, do)


def disk_gone(node: Node, do: str) -> bool:
    """Unmounted by somebody; the process, which keeps its files, does nothing."""
    inside = ["nsenter", f"--mount=/proc/{node.agent.process.pid}/ns/mnt", "--"]
    subprocess.run([*inside, "umount", "--lazy", str(node.at)], check=True, timeout=10)
    return asked(node, do)


def no_disk(node: Node, do: str) -> bool:
    """A second node, which has none, and an idle process."""
    with subprocess.Popen(["sleep", "60"]) as idle:
        adopt(node.agent, "n2", idle.pid)
        found = node.agent.ask(do, fault="f1", nodes=["n2"], **ARGUMENTS.get(do, {}))
        seen = found["ok"] and node.agent.do("heal", fault="f1")["effective"]
        idle.kill()
    return bool(seen)


def nobody_writes(node: Node, do: str) -> bool:
    """The request itself is accepted: what the other ways are refused for is not its form."""
    node.agent.do(do, **WHERE, **ARGUMENTS.get(do, {}))
    return bool(node.agent.do("heal", fault="f1")["effective"])


def thawed(node: Node, do: str) -> bool:
    """By somebody else, before the node writes."""
    node.agent.do(do, **WHERE)
    inside = ["nsenter", f"--mount=/proc/{node.agent.process.pid}/ns/mnt", "--"]
    subprocess.run([*inside, "fsfreeze", "--unfreeze", str(node.at)], check=True, timeout=10)
    assert node.write("synced") == "done"
    return bool(node.agent.do("heal", fault="f1")["effective"])


def asleep_elsewhere(node: Node, do: str) -> bool:
    """The process sleeps uninterruptibly, and not for its disk."""
    pipe = node.at.parent / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    words = [sys.executable, "-S", "-P", "-c", FORKING, str(pipe)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        assert one.stdout is not None and one.stdout.readline()
        adopt(node.agent, "n1", one.pid)
        status = Path(f"/proc/{one.pid}/status")
        waits = wait_until(lambda: "State:\tD" in status.read_text(), time.monotonic_ns() + SOON_NS)
        assert waits, "vfork(2) lets the parent sleep otherwise here"
        seen = asked(node, do)
        os.close(os.open(pipe, os.O_WRONLY))
        one.kill()
    return seen


Way = Callable[[Node, str], bool]
BOTH: tuple[Way, ...] = (process_gone, disk_gone)
WAYS: Mapping[str, tuple[Way, ...]] = {
    "power": (*BOTH, no_disk),
    "disk-hang": (*BOTH, no_disk, nobody_writes, thawed, asleep_elsewhere),
    "disk-full": (*BOTH, no_disk),
    "sync-lie": (*BOTH, no_disk),
    "disk-slow": (*BOTH, no_disk, nobody_writes),
    "disk-error": (*BOTH, no_disk, nobody_writes),
    "torn-write": (*BOTH, no_disk, nobody_writes),
}


@pytest.mark.power
@pytest.mark.parametrize("do", DISKS)
def test_a_disk_fault_is_felt_fifty_times(do: str, tmp_path: Path) -> None:
    needs.disks()
    needs.tracing()
    with deployed(tmp_path) as node:
        for n in range(TIMES):
            DISKS[do](node, f"f{n}")


def impossible(do: str, way: Way, folder: Path) -> None:
    folder.mkdir()
    with deployed(folder) as node:
        assert not way(node, do), way.__name__


@pytest.mark.power
@pytest.mark.parametrize("do", DISKS)
def test_a_disk_fault_is_impossible_fifty_times(do: str, tmp_path: Path) -> None:
    needs.disks()
    needs.tracing()
    for n in range(TIMES):
        impossible(do, WAYS[do][n % len(WAYS[do])], tmp_path / str(n))


@pytest.mark.parametrize(
    ("do", "way"), [("disk-hang", asleep_elsewhere), ("disk-hang", thawed), ("power", disk_gone)]
)
def test_a_disk_fault_that_was_made_impossible(do: str, way: Way, tmp_path: Path) -> None:
    needs.disks()
    impossible(do, way, tmp_path / "once")


# System calls


def feel_freeze(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="send", act="freeze")
    one.ask("send late")
    assert effective(agent, fault)
    one.peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        one.peer.recv(10)
    one.peer.settimeout(5)
    assert agent.do("heal", fault=fault)["effective"]
    assert one.peer.recv(10) == b"late" and one.said() == "4"


def feel_fail(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="write", act="fail", file="dat?")
    size = one.file.stat().st_size
    assert one.does("write 900") == "OSError 5" and one.file.stat().st_size == size
    assert agent.do("heal", fault=fault)["effective"]


def feel_skip(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="write", act="skip", file="dat?")
    size = one.file.stat().st_size
    assert one.does("write 900") == "900" and one.file.stat().st_size == size
    assert agent.do("heal", fault=fault)["effective"]


def feel_delay(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="send", act="delay", by_ns=20 * MS)
    begun = time.monotonic_ns()
    assert one.does("send slow") == "4" and time.monotonic_ns() - begun >= 20 * MS
    assert one.peer.recv(10) == b"slow"
    assert agent.do("heal", fault=fault)["effective"]


def feel_tear(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="write", act="tear", file="dat?")
    one.ask("write 700")
    assert one.process.wait(10) == -signal.SIGKILL
    assert agent.do("heal", fault=fault)["effective"]
    assert one.file.stat().st_size == 512


def feel_kill(one: Caller, agent: AgentProcess, fault: str) -> None:
    agent.do("syscall", nodes=["n1"], fault=fault, call="send", act="kill")
    one.ask("send never")
    assert one.process.wait(10) == -signal.SIGKILL and one.peer.recv(10) == b""
    assert agent.do("heal", fault=fault)["effective"]


CALLS: Mapping[str, Callable[[Caller, AgentProcess, str], None]] = {
    "freeze": feel_freeze,
    "fail": feel_fail,
    "skip": feel_skip,
    "delay": feel_delay,
    "tear": feel_tear,
    "kill": feel_kill,
}
DEADLY = ("tear", "kill")


def watched(act: str) -> dict[str, Any]:
    """The fault, at a call that nobody makes unless it is asked to."""
    return {"call": "write", "act": act, "file": "dat?", "by_ns": MS}


def nobody_calls(one: Caller, agent: AgentProcess, act: str) -> bool:
    agent.do("syscall", **WHERE, **watched(act))
    assert (one.does("send on"), one.does("sync")) == ("2", "None")
    return bool(agent.do("heal", fault="f1")["effective"])


def killed_before(one: Caller, agent: AgentProcess, act: str) -> bool:
    one.process.kill()
    one.process.wait()
    return claimed(agent, "syscall", **watched(act))


def killed_while_traced(one: Caller, agent: AgentProcess, act: str) -> bool:
    """By somebody else, before such a call."""
    agent.do("syscall", **WHERE, **watched(act))
    one.process.kill()
    one.process.wait()
    return bool(agent.do("heal", fault="f1")["effective"])


def traced_by_another(one: Caller, agent: AgentProcess, act: str) -> bool:
    with AgentProcess() as other:
        adopt(other, "n1", one.process.pid)
        other.do("freeze", **WHERE)
        return claimed(agent, "syscall", **watched(act))


CALL_WAYS = (nobody_calls, killed_before, killed_while_traced, traced_by_another)


@contextmanager
def called(folder: Path) -> Iterator[tuple[Caller, AgentProcess]]:
    folder.mkdir(exist_ok=True)
    with caller(folder) as one, AgentProcess() as agent:
        adopt(agent, "n1", one.process.pid)
        yield one, agent


@pytest.mark.power
@pytest.mark.parametrize("act", CALLS)
def test_a_fault_at_a_call_is_felt_fifty_times(act: str, tmp_path: Path) -> None:
    needs.tracing()
    if act in DEADLY:
        for n in range(TIMES):
            with called(tmp_path / str(n)) as (one, agent):
                CALLS[act](one, agent, "f1")
        return
    with called(tmp_path) as (one, agent):
        for n in range(TIMES):
            CALLS[act](one, agent, f"f{n}")


@pytest.mark.power
@pytest.mark.parametrize("act", CALLS)
def test_a_fault_at_a_call_is_impossible_fifty_times(act: str, tmp_path: Path) -> None:
    needs.tracing()
    for n in range(TIMES):
        way = CALL_WAYS[n % len(CALL_WAYS)]
        with called(tmp_path / str(n)) as (one, agent):
            assert not way(one, agent, act), way.__name__


# Functions

HELD: Mapping[str, Mapping[str, str]] = {
    "thread": {"hold": "thread"},
    "all": {"hold": "all"},
    "kill": {"hold": "thread", "then": "kill"},
}


def feel_failpoint(steps: Steps, agent: AgentProcess, kind: str, fault: str) -> None:
    agent.do("failpoint", nodes=["n1"], fault=fault, function="first_step", **HELD[kind])
    assert held(agent, fault)
    if kind == "all":
        assert agent.do("states")["n1"] == {str(steps.process.pid): "T"}
    else:
        steps.stand_still(0)
    assert agent.do("heal", fault=fault)["effective"]
    if kind == "kill":
        assert steps.process.wait(10) == -signal.SIGKILL
    else:
        steps.go_on()


def function_not_called(steps: Steps, agent: AgentProcess, kind: str) -> bool:
    return claimed(agent, "failpoint", function="main", **HELD[kind])


def function_not_there(steps: Steps, agent: AgentProcess, kind: str) -> bool:
    return claimed(agent, "failpoint", function="third_step", **HELD[kind])


def program_killed_before(steps: Steps, agent: AgentProcess, kind: str) -> bool:
    steps.process.kill()
    steps.process.wait()
    return claimed(agent, "failpoint", function="first_step", **HELD[kind])


def program_killed_meanwhile(steps: Steps, agent: AgentProcess, kind: str) -> bool:
    """By somebody else, before it calls the function."""
    agent.do("failpoint", **WHERE, function="main", **HELD[kind])
    steps.process.kill()
    steps.process.wait()
    return bool(agent.do("heal", fault="f1")["effective"])


def program_traced_by_another(steps: Steps, agent: AgentProcess, kind: str) -> bool:
    with AgentProcess() as other:
        adopt(other, "n1", steps.process.pid)
        other.do("syscall", **WHERE, call="send", act="freeze")
        return claimed(agent, "failpoint", function="first_step", **HELD[kind])


FUNCTION_WAYS = (
    function_not_called,
    function_not_there,
    program_killed_before,
    program_killed_meanwhile,
    program_traced_by_another,
)


@pytest.mark.power
@pytest.mark.parametrize("kind", HELD)
def test_a_failpoint_is_felt_fifty_times(kind: str, built: dict[str, Path]) -> None:
    if kind == "kill":
        for _ in range(TIMES):
            with stepping(built["moved"]) as (steps, agent):
                feel_failpoint(steps, agent, kind, "f1")
        return
    with stepping(built["moved"]) as (steps, agent):
        for n in range(TIMES):
            feel_failpoint(steps, agent, kind, f"f{n}")


@pytest.mark.power
@pytest.mark.parametrize("kind", HELD)
def test_a_failpoint_is_impossible_fifty_times(kind: str, built: dict[str, Path]) -> None:
    for n in range(TIMES):
        way = FUNCTION_WAYS[n % len(FUNCTION_WAYS)]
        with stepping(built["fixed"]) as (steps, agent):
            assert not way(steps, agent, kind), way.__name__
