"""Faults at a function of a running program, on a program in C whose threads call two functions."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.nemesis.agent.tracing.functions import NotAProgram, Program, matching
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.test_agent_signals import adopt, running
from tests.nemesis.waiting import wait_until

SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
volatile long calls[2];
__attribute__((noinline)) void first_step(void) { calls[0]++; }
__attribute__((noinline)) void other_step(void) { calls[1]++; }
static void *other(void *nothing) {
    for (;;) { other_step(); usleep(1000); }
    return nothing;
}
static void *report(void *nothing) {
    struct timespec at;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &at);
        printf("%ld %ld %ld\\n", at.tv_sec * 1000000000L + at.tv_nsec, calls[0], calls[1]);
        fflush(stdout);
        usleep(20000);
    }
    return nothing;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    pthread_create(&thread, 0, report, 0);
    for (;;) { first_step(); usleep(1000); }
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The program where the linker puts it, where the loader puts it, and without names."""
    needs.tracing()
    compiler = needs.binary("gcc")
    folder = tmp_path_factory.mktemp("program")
    (folder / "steps.c").write_text(SOURCE)
    made = {}
    for name, words in {"fixed": ["-no-pie"], "moved": ["-pie"], "stripped": ["-s"]}.items():
        made[name] = folder / name
        argv = [compiler, "-O1", "-pthread", *words, "-o", str(made[name]), "steps.c"]
        subprocess.run(argv, cwd=folder, check=True)
    return made


class Steps:
    """The running program, and what it reports of its calls."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.out = process.stdout

    def counts(self) -> tuple[int, int]:
        """As counted later than now: what the program reported before is still in the pipe, on a
        busy machine two reports without a call between them among it."""
        now = time.monotonic_ns()
        for _ in range(5000):
            at, first, other = map(int, self.out.readline().split())
            if at > now:
                return first, other
        raise AssertionError("it reports nothing new")

    def go_on(self) -> None:
        """Both functions are called again, within as many reports as it takes."""
        before = self.counts()
        for _ in range(200):
            if all(now > then for now, then in zip(self.counts(), before, strict=True)):
                return
        raise AssertionError("it stands still")

    def stand_still(self, which: int) -> None:
        """In four further reports the function `which` was not called."""
        before = self.counts()
        assert {self.counts()[which] for _ in range(4)} == {before[which]}


@contextmanager
def stepping(program: Path) -> Iterator[tuple[Steps, AgentProcess]]:
    with running(str(program)) as process, AgentProcess() as agent:
        adopt(agent, "n1", process.pid)
        steps = Steps(process)
        steps.go_on()
        yield steps, agent


def held(agent: AgentProcess, fault: str = "f1") -> bool:
    return wait_until(
        lambda: bool(agent.do("observe", fault=fault)["effective"]),
        time.monotonic_ns() + 5_000_000_000,
    )


@pytest.mark.parametrize("kind", ["fixed", "moved"])
def test_the_first_thread_that_calls_the_function_is_held_and_no_other(
    built: dict[str, Path], kind: str
) -> None:
    with stepping(built[kind]) as (steps, agent):
        agent.do("failpoint", fault="f1", nodes=["n1"], function="first_step")
        assert held(agent)
        before = steps.counts()
        steps.stand_still(0)
        other_goes_on = any(steps.counts()[1] > before[1] for _ in range(200))
        assert steps.counts()[0] == before[0] and other_goes_on
        evidence = agent.do("heal", fault="f1")
        assert evidence["caught"]["n1"]["function"] == "first_step"
        assert evidence["caught"]["n1"]["thread"] == steps.process.pid
        steps.go_on()


def test_all_threads_are_held_where_that_is_asked_for(built: dict[str, Path]) -> None:
    with stepping(built["moved"]) as (steps, agent):
        agent.do("failpoint", fault="f1", nodes=["n1"], function="other_step", hold="all")
        assert held(agent)
        assert agent.do("states")["n1"] == {str(steps.process.pid): "T"}
        assert agent.do("heal", fault="f1")["effective"]
        steps.go_on()


def test_a_function_that_nobody_calls_holds_nobody_and_its_byte_is_put_back(
    built: dict[str, Path],
) -> None:
    with stepping(built["fixed"]) as (steps, agent):
        address = Program(built["fixed"]).functions()["main"]
        with open(f"/proc/{steps.process.pid}/mem", "rb", buffering=0) as memory:
            before = os.pread(memory.fileno(), 1, address)
            agent.do("failpoint", fault="f1", nodes=["n1"], function="main")
            assert os.pread(memory.fileno(), 1, address) == b"\xcc"
            steps.go_on()
            healed = agent.do("heal", fault="f1")
            assert (healed["effective"], healed["caught"], healed["restart"]) == (False, {}, [])
            assert os.pread(memory.fileno(), 1, address) == before
        steps.go_on()


def test_it_can_be_held_again_and_again(built: dict[str, Path]) -> None:
    with stepping(built["moved"]) as (steps, agent):
        for n in range(20):
            agent.do("failpoint", fault=f"f{n}", nodes=["n1"], function="first_step")
            assert held(agent, f"f{n}")
            assert agent.do("heal", fault=f"f{n}")["effective"]
        steps.go_on()


def test_a_program_that_is_killed_meanwhile_is_to_be_started_again(built: dict[str, Path]) -> None:
    with stepping(built["fixed"]) as (steps, agent):
        agent.do("failpoint", fault="f1", nodes=["n1"], function="first_step")
        assert held(agent)
        os.kill(steps.process.pid, signal.SIGKILL)
        steps.process.wait()
        healed = agent.do("heal", fault="f1")
        assert (healed["effective"], healed["restart"]) == (False, ["n1"])


@pytest.mark.parametrize("hold", ["thread", "all"])
def test_a_held_program_can_be_killed_there_and_is_to_be_started_again(
    built: dict[str, Path], hold: str
) -> None:
    with stepping(built["moved"]) as (steps, agent):
        words = {"function": "other_step", "hold": hold, "then": "kill"}
        agent.do("failpoint", fault="f1", nodes=["n1"], **words)
        assert held(agent)
        healed = agent.do("heal", fault="f1")
        assert steps.process.wait() == -signal.SIGKILL
        assert (healed["effective"], healed["restart"]) == (True, ["n1"])
        assert healed["killed"] == {"n1": {str(steps.process.pid): "gone"}}


def test_a_program_that_does_not_call_the_function_is_not_killed(built: dict[str, Path]) -> None:
    with stepping(built["fixed"]) as (steps, agent):
        agent.do("failpoint", fault="f1", nodes=["n1"], function="main", then="kill")
        healed = agent.do("heal", fault="f1")
        assert (healed["effective"], healed["killed"], healed["restart"]) == (False, {}, [])
        steps.go_on()


def test_a_node_that_is_down_keeps_the_fault_from_no_other(built: dict[str, Path]) -> None:
    with stepping(built["fixed"]) as (steps, agent), running(str(built["fixed"])) as other:
        adopt(agent, "n2", other.pid)
        other.kill()
        other.wait()
        agent.do("failpoint", fault="f1", nodes=["n2", "n1"], function="first_step")
        assert held(agent)
        healed = agent.do("heal", fault="f1")
        # The fault that killed n2 starts it again.
        assert (healed["effective"], healed["restart"]) == (True, [])
        steps.process.kill()
        steps.process.wait()
        why = agent.error("failpoint", fault="f2", nodes=["n2", "n1"], function="first_step")
        assert "no live process" in why


def test_the_end_of_the_agent_lets_the_thread_go_on(built: dict[str, Path]) -> None:
    with running(str(built["moved"])) as process:
        steps = Steps(process)
        with AgentProcess() as agent:
            adopt(agent, "n1", process.pid)
            agent.do("failpoint", fault="f1", nodes=["n1"], function="first_step")
            assert held(agent)
        steps.go_on()


def test_a_function_that_is_not_there_is_refused_with_similar_ones(built: dict[str, Path]) -> None:
    with stepping(built["fixed"]) as (steps, agent):
        words = {"fault": "f1", "nodes": ["n1"]}
        assert "similar: first_step" in agent.error("failpoint", function="step.first", **words)
        assert "known: thread" in agent.error("failpoint", function="main", hold="one", **words)
        assert "known: resume" in agent.error("failpoint", function="main", then="wait", **words)
        steps.go_on()
    with stepping(built["stripped"]) as (steps, agent):
        assert "has no function" in agent.error("failpoint", function="first_step", **words)
        steps.go_on()


def test_the_path_of_a_package_may_be_left_out() -> None:
    functions = {"go.etcd.io/etcd/lease.(*lessor).Grant": 1, "a/lease.New": 2, "b/lease.New": 3}
    assert matching(functions, "lease.(*lessor).Grant") == ["go.etcd.io/etcd/lease.(*lessor).Grant"]
    assert matching(functions, "a/lease.New") == ["a/lease.New"]
    assert matching(functions, "lease.New") == ["a/lease.New", "b/lease.New"]
    assert matching(functions, "Grant") == []


@pytest.mark.parametrize("cut", [0, 5, 63, 64, 200, 5000])
def test_a_file_that_is_no_program_is_told(
    tmp_path: Path, built: dict[str, Path], cut: int
) -> None:
    file = tmp_path / "cut"
    file.write_bytes(built["fixed"].read_bytes()[:cut])
    with pytest.raises(NotAProgram):
        Program(file).functions()
