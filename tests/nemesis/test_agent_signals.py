"""Pauses and kills by the fault agent, on real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.nemesis.agent.processes import find, state
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.waiting import wait_until

FORKS = "import subprocess, sys; subprocess.run(['sleep', '60'])"
THREADS = """
import threading, time
for _ in range(8):
    threading.Thread(target=lambda: [sum(range(2000)) for _ in iter(int, 1)], daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended in the end; it has printed a line if it is Python."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def adopt(agent: AgentProcess, node: str, *pids: int) -> None:
    agent.do("adopt", node=node, pid=pids[0], address="10.77.0.1", processes=list(pids))


def shown(pid: int) -> str:
    process = find(pid)
    return state(process) if process else "gone"


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def soon(pid: int, *states: str) -> bool:
    return wait_until(lambda: shown(pid) in states, time.monotonic_ns() + 5_000_000_000)


def test_a_pause_stops_every_process_of_a_node_and_its_children() -> None:
    with running(sys.executable, "-c", FORKS) as parent, AgentProcess() as agent:
        assert wait_until(lambda: bool(children(parent.pid)), time.monotonic_ns() + 5_000_000_000)
        (child,) = children(parent.pid)
        # A process that still waits for the disk to give its code cannot be stopped before it has.
        assert soon(parent.pid, "S") and soon(child, "S")
        adopt(agent, "n1", parent.pid)
        assert agent.do("pause", fault="f1", nodes=["n1"]) == {
            "effective": True,
            "states": {"n1": "T"},
        }
        assert (shown(parent.pid), shown(child)) == ("T", "T")
        assert agent.do("states") == {"n1": {str(parent.pid): "T", str(child): "T"}}
        assert agent.do("heal", fault="f1") == {"effective": True, "states": {"n1": "T"}}
        assert soon(parent.pid, "S")
        assert soon(child, "S")


def test_a_pause_is_over_for_no_thread_before_the_answer() -> None:
    with running(sys.executable, "-c", THREADS) as busy, AgentProcess() as agent:
        assert busy.stdout is not None
        assert busy.stdout.readline() == "ready\n"
        adopt(agent, "n1", busy.pid)
        for n in range(10):
            agent.do("pause", fault=f"f{n}", nodes=["n1"])
            used = Path(f"/proc/{busy.pid}/schedstat").read_text()
            assert shown(busy.pid) == "T"
            assert Path(f"/proc/{busy.pid}/schedstat").read_text() == used
            agent.do("heal", fault=f"f{n}")
            assert soon(busy.pid, "S", "R")


def test_two_pauses_of_a_node_end_with_the_last_of_them() -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("pause", fault="f1", nodes=["n1", "n2"])
        agent.do("pause", fault="f2", nodes=["n1"])
        agent.do("heal", fault="f1")
        assert soon(two.pid, "S")
        assert shown(one.pid) == "T"
        agent.do("heal", fault="f2")
        assert soon(one.pid, "S")


def test_a_process_that_dies_during_its_pause_is_told_and_healed() -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("pause", fault="f1", nodes=["n1", "n2"])
        one.kill()
        one.wait()
        assert agent.do("observe", fault="f1")["states"] == {"n1": "gone", "n2": "T"}
        agent.do("heal", fault="f1")
        assert soon(two.pid, "S")
        assert "no live process" in agent.error("pause", fault="f2", nodes=["n1"])


def test_a_kill_takes_the_children_along_and_names_what_to_restart() -> None:
    with running(sys.executable, "-c", FORKS) as parent, AgentProcess() as agent:
        assert wait_until(lambda: bool(children(parent.pid)), time.monotonic_ns() + 5_000_000_000)
        (child,) = children(parent.pid)
        adopt(agent, "n1", parent.pid)
        killed = agent.do("kill", fault="f1", nodes=["n1"])
        assert killed == {
            "effective": True,
            "killed": {"n1": {str(parent.pid): "gone", str(child): "gone"}},
        }
        assert (shown(parent.pid), shown(child)) == ("gone", "gone")
        assert agent.do("heal", fault="f1")["restart"] == ["n1"]


CLEANS_UP = """
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path(sys.argv[1]).write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


@contextmanager
def handling(code: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has installed its signal handler."""
    with running(sys.executable, "-c", code, *argv) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def test_a_server_that_is_terminated_may_write_its_state(tmp_path: Path) -> None:
    saved = tmp_path / "state"
    with handling(CLEANS_UP, str(saved)) as server, AgentProcess() as agent:
        adopt(agent, "n1", server.pid)
        seen = agent.do("terminate", fault="f1", nodes=["n1"], grace_ns=5_000_000_000)
        assert seen["effective"] and seen["grace_exceeded"] == []
        assert 0 < seen["shutdown_ns"]["n1"] < 5_000_000_000 and seen["did"] == "shut down"
        assert (server.wait(), saved.read_text()) == (0, "saved")
        healed = agent.do("heal", fault="f1")
        assert (healed["restart"], healed["shutdown_ns"]) == (["n1"], seen["shutdown_ns"])


def test_a_server_that_outlives_the_grace_time_is_killed() -> None:
    with handling(STUBBORN) as server, AgentProcess() as agent:
        adopt(agent, "n1", server.pid)
        seen = agent.do("terminate", fault="f1", nodes=["n1"], grace_ns=50_000_000)
        assert seen["effective"] and seen["killed"] == {"n1": {str(server.pid): "gone"}}
        assert (seen["shutdown_ns"], seen["grace_exceeded"]) == ({}, ["n1"])
        assert seen["did"] == "killed"
        assert server.wait() == -signal.SIGKILL
        assert agent.do("heal", fault="f1")["restart"] == ["n1"]


def test_a_terminated_node_that_a_kill_wants_dead_is_not_restarted_yet() -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("kill", fault="f1", nodes=["n1"])
        agent.do("terminate", fault="f2", nodes=["n1", "n2"], grace_ns=1_000_000_000)
        assert agent.do("heal", fault="f2")["restart"] == ["n2"]
        assert agent.do("heal", fault="f1")["restart"] == ["n1"]
        refused = agent.ask("terminate", fault="f3", nodes=["n1"], grace_ns=0)
        assert "terminate n1: no live process" in refused["error"]


def test_a_node_that_another_kill_wants_dead_is_not_restarted_yet() -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("kill", fault="f1", nodes=["n1"])
        agent.do("kill", fault="f2", nodes=["n1", "n2"])
        assert agent.do("heal", fault="f1")["restart"] == []
        assert agent.do("heal", fault="f2")["restart"] == ["n1", "n2"]


def test_a_paused_node_can_be_killed_and_its_successor_runs() -> None:
    with running("sleep", "60") as old, running("sleep", "60") as new, AgentProcess() as agent:
        adopt(agent, "n1", old.pid)
        agent.do("pause", fault="f1", nodes=["n1"])
        agent.do("kill", fault="f2", nodes=["n1"])
        assert shown(old.pid) == "gone"
        assert agent.do("heal", fault="f2")["restart"] == ["n1"]
        adopt(agent, "n1", new.pid)
        assert soon(new.pid, "S")
        agent.do("heal", fault="f1")
        assert soon(new.pid, "S")


def test_a_pid_that_was_given_out_again_is_not_the_process_that_was_adopted() -> None:
    with running("sleep", "60") as process:
        known = find(process.pid)
        assert known is not None
        stranger = type(known)(pid=known.pid, started=known.started + 1)
        assert state(known) != "gone"
        assert state(stranger) == "gone"


@pytest.mark.parametrize("node", ["agent", "the first process"])
def test_the_agent_never_adopts_itself(node: str) -> None:
    with AgentProcess() as agent:
        pid = agent.process.pid if node == "agent" else 1
        error = agent.error("adopt", node="n1", pid=pid, address="10.0.0.1", processes=[pid])
        assert "the fault agent descends from these" in error


def test_root_in_a_container_pauses_a_process_of_another_user_and_cuts_nothing_of_it() -> None:
    """Without CAP_SYS_PTRACE, as in a container of CI, it may not look at its network."""
    needs.root()
    setpriv = needs.binary("setpriv")
    less = [setpriv, "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]
    other = [setpriv, "--reuid=65534", "--clear-groups", "--", "sleep", "60"]
    with AgentProcess(prefix=less) as agent, running(*other) as node:
        comm = Path(f"/proc/{node.pid}/comm")
        bound_ns = time.monotonic_ns() + 5_000_000_000
        assert wait_until(lambda: comm.read_text() == "sleep\n", bound_ns)
        place = {"address": "10.0.0.1", "processes": [node.pid]}
        adopted = agent.do("adopt", node="n1", pid=node.pid, **place)
        assert adopted["network"] == "unknown: Permission denied"
        agent.do("pause", fault="f1", nodes=["n1"])
        assert shown(node.pid) == "T"
        assert agent.do("heal", fault="f1")["effective"] is True
        links = [{"node": "n1", "from": ["10.0.0.2"]}]
        for refused in ("cut", "link"):
            more = {"act": "loss"} if refused == "link" else {}
            error = agent.error(refused, fault="f2", links=links, **more)
            assert "the network of n1 cannot be read (Permission denied)" in error
