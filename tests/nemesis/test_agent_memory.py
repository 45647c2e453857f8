"""Limits of memory by the fault agent: reclaim, OOM kills, and what is left of a group."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.limits import memory_groups
from holdfast.nemesis.agent.limits.memory_groups import Counts, Group, Version, version
from holdfast.nemesis.agent.request_errors import Refused
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.waiting import wait_until

MS, MIB = 1_000_000, 1 << 20
GREEDY = """
import mmap, sys
kept, path = [], sys.argv[1]
print("ready", flush=True)
for line in sys.stdin:
    word, number = line.split()
    if word == "take":
        kept.append(mmap.mmap(-1, int(number)))
        for place in range(0, int(number), 4096):
            kept[-1][place] = 1
    else:
        with open(path, "wb", buffering=0) as file:
            for _ in range(int(number) // 65536):
                file.write(b"x" * 65536)
    print("done", flush=True)
"""
"""Takes memory, or writes to a file, whose pages can be reclaimed."""


@pytest.fixture(autouse=True)
def possible() -> None:
    needs.root()
    try:
        version()
    except Refused as refused:
        needs.unless(str(refused))


@pytest.fixture
def agent() -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        yield started


class Greedy:
    """A process that takes memory when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", GREEDY, str(folder / "file")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hears() == "ready"

    def __enter__(self) -> Greedy:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def hears(self) -> str:
        """Its next line, "" if it has exited."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 10)[0], "it says nothing"
        return self.process.stdout.readline().strip()

    def told(self, word: str, number: int) -> str:
        """Its answer to an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()
        return self.hears()


@pytest.fixture
def greedy(agent: AgentProcess, tmp_path: Path) -> Iterator[Greedy]:
    with Greedy(tmp_path) as started:
        adopt(agent, started)
        yield started


def adopt(agent: AgentProcess, one: Greedy) -> None:
    pid = one.process.pid
    agent.do("adopt", node="n1", pid=pid, address="127.0.0.1", processes=[pid])


def groups(of: AgentProcess) -> list[str]:
    """The groups that this fault agent has made and that are there now. Other tests make groups
    beside this one and remove them while we look: `os.walk` passes over a folder that vanishes."""
    mark = f"-{of.process.pid}-"
    return [
        os.path.join(folder, name)
        for folder, names, _ in os.walk(version().root)
        for name in names
        if name.startswith(memory_groups.PREFIX) and mark in name
    ]


def test_who_needs_more_than_the_limit_is_killed_and_counted(
    agent: AgentProcess, greedy: Greedy
) -> None:
    injected = agent.do("memory-limit", fault="f1", nodes=["n1"], spare=2 * MIB)
    assert injected["effective"] is False and injected["oom_kills"] == {"n1": 0}
    assert len(groups(agent)) == 1
    assert greedy.told("take", 64 * MIB) == ""
    assert greedy.process.wait(10) == -signal.SIGKILL
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is True
    assert healed["oom_kills"] == {"n1": 1} and healed["limit_reached"]["n1"] > 0
    assert healed["exited"] == [greedy.process.pid] and healed["restart"] == ["n1"]
    assert not groups(agent)


def test_file_pages_are_reclaimed_and_nobody_is_killed(
    agent: AgentProcess, greedy: Greedy, tmp_path: Path
) -> None:
    needs.on_disk(tmp_path)
    agent.do("memory-limit", fault="f1", nodes=["n1"], spare=4 * MIB)
    assert greedy.told("write", 64 * MIB) == "done"
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is True and healed["limit_reached"]["n1"] > 0
    assert healed["oom_kills"] == {"n1": 0} and healed["restart"] == []
    assert greedy.told("take", 32 * MIB) == "done", "the limit is lifted"


def test_a_limit_that_is_never_reached_is_not_effective(
    agent: AgentProcess, greedy: Greedy
) -> None:
    home = memory_groups.home_of(found(greedy), version())
    agent.do("memory-limit", fault="f1", nodes=["n1"], spare=64 * MIB)
    assert memory_groups.home_of(found(greedy), version()) != home
    assert greedy.told("take", MIB) == "done"
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is False and healed["restart"] == []
    assert memory_groups.home_of(found(greedy), version()) == home


def test_a_kill_by_somebody_else_is_no_evidence(agent: AgentProcess, greedy: Greedy) -> None:
    agent.do("memory-limit", fault="f1", nodes=["n1"], spare=64 * MIB)
    greedy.process.kill()
    greedy.process.wait()
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is False and healed["oom_kills"] == {"n1": 0}
    assert healed["exited"] == [greedy.process.pid] and healed["restart"] == ["n1"]
    assert "no live process" in agent.error("memory-limit", fault="f2", nodes=["n1"])


def test_a_node_has_one_limit_at_a_time(agent: AgentProcess, greedy: Greedy) -> None:
    agent.do("memory-limit", fault="f1", nodes=["n1"], spare=64 * MIB)
    assert "has a limit already" in agent.error("memory-limit", fault="f2", nodes=["n1"])
    assert greedy.told("take", MIB) == "done"


def test_a_killed_agent_leaves_no_group_and_no_limit(tmp_path: Path) -> None:
    with AgentProcess() as agent, Greedy(tmp_path) as greedy:
        adopt(agent, greedy)
        agent.do("memory-limit", fault="f1", nodes=["n1"], spare=4 * MIB)
        assert len(groups(agent)) == 1
        agent.process.kill()
        agent.process.wait()
        assert wait_until(lambda: not groups(agent), time.monotonic_ns() + 10_000 * MS)
        assert greedy.told("take", 32 * MIB) == "done"


def found(greedy: Greedy) -> processes.Process:
    process = processes.find(greedy.process.pid)
    assert process is not None
    return process


def second_version(tmp_path: Path) -> Version:
    """Files like those of control groups of version 2."""
    for path in (tmp_path, tmp_path / "user.slice"):
        path.mkdir(exist_ok=True)
        (path / "cgroup.controllers").write_text("cpu memory\n")
        (path / "cgroup.subtree_control").write_text("memory\n")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"tmpfs /run tmpfs rw 0 0\ncgroup2 {tmp_path} cgroup2 rw,nsdelegate 0 0\n")
    return version(mounts)


def test_version_two_is_found_and_its_counters_are_read(tmp_path: Path) -> None:
    of = second_version(tmp_path)
    assert (of.number, of.root, of.limit) == (2, tmp_path, "memory.max")
    group = Group("x", of)
    group.path = tmp_path / "user.slice"
    events = "low 0\nhigh 3\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n"
    (group.path / "memory.events").write_text(events)
    assert group.counts() == Counts(refused=17, killed=1)


def test_in_version_two_the_group_is_beside_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = second_version(tmp_path)
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/user.slice/session-1.scope\n")
    monkeypatch.setattr(memory_groups, "PROC", tmp_path / "proc")
    home = memory_groups.home_of(processes.Process(pid=7, started=1), of)
    assert home == tmp_path / "user.slice" / "session-1.scope"
    assert memory_groups._parent(home, of) == tmp_path / "user.slice"


def test_a_host_without_control_groups_of_memory_refuses(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("tmpfs /run tmpfs rw 0 0\ncgroup2 /none cgroup2 rw 0 0\n")
    with pytest.raises(Refused, match="no control groups of memory"):
        version(mounts)


@pytest.mark.power
def test_fifty_are_effective_and_fifty_are_not(agent: AgentProcess, tmp_path: Path) -> None:
    for n in range(50):
        with Greedy(tmp_path) as one:
            adopt(agent, one)
            agent.do("memory-limit", fault=f"f{n}", nodes=["n1"])
            assert one.told("take", 8 * MIB) == "" and one.process.wait(10) == -signal.SIGKILL
            healed = agent.do("heal", fault=f"f{n}")
            assert healed["effective"] is True and healed["oom_kills"] == {"n1": 1}
    for n in range(25):
        with Greedy(tmp_path) as one:
            adopt(agent, one)
            agent.do("memory-limit", fault=f"s{n}", nodes=["n1"], spare=64 * MIB)
            os.kill(one.process.pid, signal.SIGKILL)
            one.process.wait()
            assert agent.do("heal", fault=f"s{n}")["effective"] is False
            assert "no live process" in agent.error("memory-limit", fault=f"g{n}", nodes=["n1"])
    assert not groups(agent)


def test_the_counts_of_a_group_that_its_manager_removed_are_the_last_ones(tmp_path: Path) -> None:
    """As of a container whose one process is killed: its groups go with it."""
    of = Version(
        root=tmp_path, number=2, limit="memory.max", usage="memory.current",
        refused=("memory.events", "max"), killed=("memory.events", "oom_kill"),
    )  # fmt: skip
    group = Group("r", of)
    group.path = tmp_path / "group"
    group.path.mkdir()
    (group.path / "memory.events").write_text("max 3\noom_kill 1\n")
    assert group.counts() == Counts(refused=3, killed=1)
    (group.path / "memory.events").unlink()
    group.path.rmdir()
    assert group.counts() == Counts(refused=3, killed=1)
    group.close()


def test_a_group_of_version_1_is_beside_that_of_its_process(tmp_path: Path) -> None:
    root, container = tmp_path, tmp_path / "docker" / "c"
    container.mkdir(parents=True)
    of = Version(
        root=root, number=1, limit="memory.limit_in_bytes", usage="memory.usage_in_bytes",
        refused=("memory.failcnt", ""), killed=("memory.oom_control", "oom_kill"),
    )  # fmt: skip
    assert memory_groups._parent(container, of) == root / "docker"
    assert memory_groups._parent(root, of) == root
