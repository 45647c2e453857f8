"""Limits of running processes by the fault agent: CPU time and open files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.limits.open_files import OpenFiles
from holdfast.nemesis.agent.request_errors import Refused
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.waiting import wait_until

MS = 1_000_000
BUSY = "while True: pass"
SERVER = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    try:
        connection, _ = server.accept()
    except OSError:
        continue
    if not os.fork():
        while data := connection.recv(100):
            connection.sendall(data)
        os._exit(0)
    connection.close()
"""


def started(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def agent() -> Iterator[AgentProcess]:
    with AgentProcess() as made:
        yield made


@pytest.fixture
def busy(agent: AgentProcess) -> Iterator[int]:
    process = started(BUSY)
    agent.do("adopt", node="n1", pid=process.pid, address="127.0.0.1", processes=[process.pid])
    yield process.pid
    process.kill()
    process.wait()


def state(pid: int) -> str:
    found = processes.find(pid)
    return processes.state(found) if found else "gone"


def later(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    return bool(wait_until(condition, time.monotonic_ns() + int(within_s * 1e9)))


def share_used(evidence: dict[str, object]) -> float:
    used, wall = evidence["cpu_ns"], evidence["wall_ns"]
    assert isinstance(used, dict) and isinstance(wall, int)
    return float(used["n1"]) / wall


def test_a_quota_bounds_the_cpu_time_that_a_busy_process_gets(
    agent: AgentProcess, busy: int
) -> None:
    injected = agent.do("cpu-quota", fault="f1", nodes=["n1"], share_ppm=100_000, period_ns=50 * MS)
    assert injected["effective"] is False
    assert later(lambda: agent.do("observe", fault="f1")["periods"]["n1"] >= 10)
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is True
    # A tenth, and what the stop takes to reach a busy process, on a shared machine.
    assert share_used(healed) < 0.5
    assert later(lambda: state(busy) == "R")


def test_a_quota_and_a_pause_of_one_node_do_not_resume_each_other(
    agent: AgentProcess, busy: int
) -> None:
    quota = {"nodes": ["n1"], "share_ppm": 500_000, "period_ns": 20 * MS}
    agent.do("cpu-quota", fault="f1", **quota)
    assert later(lambda: agent.do("observe", fault="f1")["effective"])
    agent.do("pause", fault="f2", nodes=["n1"])
    begun = agent.do("observe", fault="f1")["periods"]["n1"]
    deadline = time.monotonic_ns() + 200 * MS
    while time.monotonic_ns() < deadline:
        assert state(busy) == "T"
    assert agent.do("observe", fault="f1")["periods"]["n1"] <= begun + 1
    assert agent.do("heal", fault="f2")["effective"] is True
    assert later(lambda: agent.do("observe", fault="f1")["periods"]["n1"] > begun + 1)
    agent.do("heal", fault="f1")
    assert later(lambda: state(busy) == "R")


def test_a_quota_of_a_process_that_is_gone_is_never_effective(
    agent: AgentProcess, busy: int
) -> None:
    os.kill(busy, signal.SIGKILL)
    assert later(lambda: state(busy) == "gone")
    error = agent.error("cpu-quota", fault="f1", nodes=["n1"])
    assert "no live process" in error
    assert "was injected" in agent.error("heal", fault="f1")


def test_a_quota_of_a_node_that_is_paused_all_the_time_is_not_effective(
    agent: AgentProcess, busy: int
) -> None:
    agent.do("pause", fault="f1", nodes=["n1"])
    agent.do("cpu-quota", fault="f2", nodes=["n1"], period_ns=20 * MS)
    deadline = time.monotonic_ns() + 100 * MS
    assert not wait_until(lambda: agent.do("observe", fault="f2")["effective"], deadline)
    assert agent.do("heal", fault="f2")["effective"] is False
    assert state(busy) == "T"


@pytest.mark.parametrize("how", ["eof", "SIGTERM"])
def test_an_agent_that_leaves_lets_the_process_run(how: str) -> None:
    process = started(BUSY)
    try:
        with AgentProcess() as agent:
            adopted = {"node": "n1", "pid": process.pid, "address": "127.0.0.1"}
            agent.do("adopt", **adopted, processes=[process.pid])
            before = limit_of(process.pid)
            agent.do("cpu-quota", fault="f1", nodes=["n1"], share_ppm=10_000)
            agent.do("open-files", fault="f2", nodes=["n1"])
            assert limit_of(process.pid) != before
            if how == "SIGTERM":
                agent.process.send_signal(signal.SIGTERM)
                agent.process.wait(10)
        assert later(lambda: state(process.pid) == "R")
        assert limit_of(process.pid) == before
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "args",
    [{"share_ppm": 0}, {"share_ppm": 1_000_000}, {"period_ns": MS}, {"period_ns": 2000 * MS}],
)
def test_a_quota_of_no_use_is_refused(agent: AgentProcess, busy: int, args: dict[str, int]) -> None:
    assert "needs a share" in agent.error("cpu-quota", fault="f1", nodes=["n1"], **args)


def limit_of(pid: int) -> tuple[str, str]:
    """Soft and hard limit of open files, as the kernel lists them."""
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            soft, hard = line.split()[3:5]
            return soft, hard
    raise AssertionError("no such line")


@pytest.fixture
def server(agent: AgentProcess) -> Iterator[tuple[int, int]]:
    process = started(SERVER)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    adopted = {"node": "n1", "pid": process.pid, "address": "127.0.0.1"}
    agent.do("adopt", **adopted, processes=[process.pid])
    yield process.pid, port
    for one in processes.tree([found] if (found := processes.find(process.pid)) else []):
        processes.send(one, signal.SIGKILL)
    process.wait()


def echoes(connection: socket.socket, within_s: float = 0.3) -> bool:
    connection.settimeout(within_s)
    try:
        connection.sendall(b"?")
        return connection.recv(1) == b"?"
    except TimeoutError:
        return False


def descriptors(pid: int) -> set[str]:
    return set(os.listdir(f"/proc/{pid}/fd"))


def served(pid: int, connection: socket.socket, before: set[str]) -> bool:
    """It echoes, and the server, which passes it on to a child, has closed its own end."""
    return echoes(connection, 5) and later(lambda: descriptors(pid) == before)


def test_a_server_without_descriptors_accepts_nothing_until_the_heal(
    agent: AgentProcess, server: tuple[int, int]
) -> None:
    pid, port = server
    before, free = limit_of(pid), descriptors(pid)
    with socket.create_connection(("127.0.0.1", port)) as old:
        assert served(pid, old, free)
        injected = agent.do("open-files", fault="f1", nodes=["n1"])
        assert injected["effective"] is True
        assert injected["limits"][str(pid)]["limit"] <= injected["limits"][str(pid)]["lowest free"]
        # The server waits in accept(2), which has reserved a descriptor before the fault.
        last = socket.create_connection(("127.0.0.1", port))
        with last, socket.create_connection(("127.0.0.1", port)) as new:
            assert echoes(last, 5) and not echoes(new)
            assert echoes(old, 5)
            healed = agent.do("heal", fault="f1")
            assert healed["effective"] is True
            assert new.recv(1) == b"?"
    assert limit_of(pid) == before


def test_with_descriptors_to_spare_nothing_happened(
    agent: AgentProcess, server: tuple[int, int]
) -> None:
    _, port = server
    assert agent.do("open-files", fault="f1", nodes=["n1"], spare=8)["effective"] is False
    with socket.create_connection(("127.0.0.1", port)) as new:
        assert echoes(new, 5)
    assert agent.do("heal", fault="f1")["effective"] is False


def test_two_limits_of_one_process_end_each_for_itself(
    agent: AgentProcess, server: tuple[int, int]
) -> None:
    pid, _ = server
    before = limit_of(pid)
    agent.do("open-files", fault="f1", nodes=["n1"])
    agent.do("open-files", fault="f2", nodes=["n1"])
    agent.do("heal", fault="f1")
    assert limit_of(pid) != before
    agent.do("heal", fault="f2")
    assert limit_of(pid) == before


def test_open_files_of_a_process_that_is_gone_are_never_effective(
    agent: AgentProcess, server: tuple[int, int]
) -> None:
    pid, _ = server
    assert agent.do("open-files", fault="f1", nodes=["n1"])["effective"] is True
    os.kill(pid, signal.SIGKILL)
    assert later(lambda: state(pid) == "gone")
    assert agent.do("heal", fault="f1")["limits"] == {str(pid): "gone"}
    assert "no live process" in agent.error("open-files", fault="f2", nodes=["n1"])
    assert "was injected" in agent.error("heal", fault="f2")


def test_descriptors_that_cannot_be_read_refuse_the_fault_with_their_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = processes.find(os.getpid())
    world = World()
    monkeypatch.setattr(World, "living", lambda self, node: [found])

    def forbidden(process: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("holdfast.nemesis.agent.limits.open_files.lowest_free", forbidden)
    files = OpenFiles(world)
    with pytest.raises(Refused, match="Permission denied; the agent needs CAP_SYS_PTRACE"):
        files.inject("f1", {"nodes": ["n1"], "spare": 0})
    assert files.observe("f1")["effective"] is False


def paused(agent: AgentProcess, fault: str) -> dict[str, object]:
    """A quota of a node that another fault stops."""
    agent.do("pause", fault=f"{fault}p", nodes=["n1"])
    try:
        return short_quota(agent, fault, 50)
    finally:
        agent.do("heal", fault=f"{fault}p")


def short_quota(agent: AgentProcess, fault: str, for_ms: int = 2000) -> dict[str, object]:
    """The evidence of a quota, healed once it is effective or that long has passed."""
    agent.do("cpu-quota", fault=fault, nodes=["n1"], period_ns=10 * MS)
    wait_until(
        lambda: agent.do("observe", fault=fault)["effective"], time.monotonic_ns() + for_ms * MS
    )
    return agent.do("heal", fault=fault)


@pytest.mark.power
def test_a_quota_is_fifty_times_effective_and_fifty_times_not(
    agent: AgentProcess, busy: int
) -> None:
    assert all(short_quota(agent, f"f{n}")["effective"] is True for n in range(50))
    assert all(paused(agent, f"p{n}")["effective"] is False for n in range(25))
    os.kill(busy, signal.SIGKILL)
    assert later(lambda: state(busy) == "gone")
    for n in range(25):
        assert "no live process" in agent.error("cpu-quota", fault=f"g{n}", nodes=["n1"])


@pytest.mark.power
def test_files_run_out_fifty_times_and_fifty_times_not(
    agent: AgentProcess, server: tuple[int, int]
) -> None:
    pid, port = server
    free = descriptors(pid)
    for n in range(50):
        agent.do("open-files", fault=f"f{n}", nodes=["n1"])
        assert agent.do("heal", fault=f"f{n}")["effective"] is True
        with socket.create_connection(("127.0.0.1", port)) as healed:
            assert served(pid, healed, free)
    for n in range(25):  # more to spare than it needs
        agent.do("open-files", fault=f"s{n}", nodes=["n1"], spare=50)
        assert agent.do("heal", fault=f"s{n}")["effective"] is False
    os.kill(pid, signal.SIGKILL)
    assert later(lambda: state(pid) == "gone")
    for n in range(25):
        assert "no live process" in agent.error("open-files", fault=f"g{n}", nodes=["n1"])
