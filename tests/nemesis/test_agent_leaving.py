"""Whatever ends the driver or the agent, nothing stays broken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nemesis.agent_process import ARGV, HALVES, SRC, AgentProcess
from tests.nemesis.test_agent_signals import adopt, running, shown, soon

DRIVER = f"""
import json, subprocess, sys, time
agent = subprocess.Popen({ARGV!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
keeper = subprocess.Popen(["sleep", "60"], pass_fds=[agent.stdin.fileno()])
def ask(do, **args):
    agent.stdin.write(json.dumps({{"id": 1, "do": do, **args}}) + "\\n")
    agent.stdin.flush()
    reply = json.loads(agent.stdout.readline())
    assert reply["ok"], reply
pid = int(sys.argv[1])
ask("hello", kill_on_eof=sys.argv[2] == "kill")
ask("load", halves={HALVES!r})
ask("adopt", node="n1", pid=pid, address="10.0.0.1", processes=[pid])
ask("pause", fault="f1", nodes=["n1"])
if sys.argv[3] == "clock":
    ask("set_clock", fault="f2", nodes=["n1"], step_ns=-9_000_000_000)
print(agent.pid, keeper.pid, flush=True)
time.sleep(60)
"""


def drive(pid: int, *words: str) -> tuple[subprocess.Popen[str], int, int]:
    """A driver that has paused a process, with the pids of its agent and of a child that keeps
    the agent's standard input open."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(pid), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(SRC), "PATH": os.environ["PATH"]},
    )
    assert driver.stdout is not None
    agent, keeper = driver.stdout.readline().split()
    driver.stdout.close()
    return driver, int(agent), int(keeper)


@pytest.mark.parametrize("clock", ["clock", "no clock"])
def test_a_driver_killed_with_minus_nine_leaves_nothing_paused(clock: str) -> None:
    with running("sleep", "60") as node:
        driver, agent, keeper = drive(node.pid, "keep", clock)
        try:
            assert shown(node.pid) == "T"
            begun = time.monotonic_ns()
            driver.kill()
            driver.wait()
            assert soon(node.pid, "S")
            assert time.monotonic_ns() - begun < 2_000_000_000
            assert soon(agent, "gone")
        finally:
            os.kill(keeper, signal.SIGKILL)


def test_with_kill_on_eof_the_processes_of_a_dead_driver_end_too() -> None:
    with running("sleep", "60") as node:
        driver, agent, keeper = drive(node.pid, "kill", "no clock")
        driver.kill()
        driver.wait()
        os.kill(keeper, signal.SIGKILL)
        assert soon(node.pid, "gone")
        assert soon(agent, "gone")


def end_input(agent: AgentProcess) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.close()


WAYS: dict[str, Callable[[AgentProcess], None]] = {
    "its input ends": end_input,
    "SIGTERM": lambda agent: agent.process.send_signal(signal.SIGTERM),
    "SIGINT": lambda agent: agent.process.send_signal(signal.SIGINT),
    "SIGHUP": lambda agent: agent.process.send_signal(signal.SIGHUP),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_agent_heals_everything_on_its_way_out(way: str) -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("pause", fault="f1", nodes=["n1", "n2"])
        two.kill()
        two.wait()
        WAYS[way](agent)
        assert agent.process.wait(5) == 0
        assert soon(one.pid, "S")


def test_heal_all_heals_all() -> None:
    with running("sleep", "60") as one, running("sleep", "60") as two, AgentProcess() as agent:
        adopt(agent, "n1", one.pid)
        adopt(agent, "n2", two.pid)
        agent.do("pause", fault="f1", nodes=["n1"])
        agent.do("pause", fault="f2", nodes=["n2", "n1"])
        assert set(agent.do("heal_all")) == {"f1", "f2"}
        assert soon(one.pid, "S")
        assert soon(two.pid, "S")
        assert agent.do("heal_all") == {}


def test_the_agent_has_a_session_of_its_own_out_of_reach_of_the_terminal() -> None:
    with AgentProcess() as agent:
        agent.do("hello")
        assert os.getsid(agent.process.pid) == agent.process.pid


BAD = {
    "no JSON": "{",
    "no object": "[1, 2]",
    "deep": "[" * 100_000,
    "bytes": "\x00\ufffd",
    "unknown": '{"id": 1, "do": "explode"}',
    "no name": '{"id": 1}',
    "a list for a name": '{"id": 1, "do": ["cut"]}',
    "wrong shapes": '{"do": "cut", "fault": 1, "links": {"node": "n1"}}',
    "empty": '{"do": "pause", "fault": "", "nodes": []}',
    "a bool for a pid": '{"do": "adopt", "node": "n", "pid": true, "address": "1.2.3.4"}',
    "a huge pid": '{"do": "adopt", "node": "n", "pid": 1e999, "address": "1.2.3.4"}',
    "nobody's pid": '{"do": "adopt", "node": "n", "pid": 4194305, "address": "1.2.3.4"}',
    "nft in an address": '{"do": "adopt", "node": "n", "pid": 1, "address": "1.2.3.4 }"}',
    "a strange argument": '{"do": "states", "verbose": true}',
    "unknown fault": '{"do": "heal", "fault": "f9"}',
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_bad_input_is_answered_and_survived(line: str) -> None:
    with AgentProcess() as agent:
        reply = agent.line(line)
        assert reply["ok"] is False
        assert len(reply["error"]) > 10
        assert agent.do("states") == {}


def test_requests_in_one_write_are_answered_in_order() -> None:
    with AgentProcess() as agent:
        assert agent.process.stdin is not None and agent.process.stdout is not None
        agent.process.stdin.write(
            "".join(json.dumps({"id": n, "do": "states"}) + "\n" for n in range(50))
        )
        agent.process.stdin.flush()
        ids = [json.loads(agent.process.stdout.readline())["id"] for _ in range(50)]
    assert ids == list(range(50))


def test_the_agent_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "holdfast").symlink_to(SRC / "holdfast")
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
            "import holdfast.nemesis.agent.requests;"
            "from holdfast.nemesis.agent.halves import loaded;"
            f"[loaded(half) for half in {HALVES!r}]",
        ],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
