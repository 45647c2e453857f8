"""Suspended processes, as they themselves see it: wall and boot time passed, no monotonic time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.nemesis.agent import processes, vdso
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Refused
from holdfast.nemesis.agent.suspends import Suspends
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.test_agent_clock import PYTHON, S, Teller, adopt
from tests.nemesis.waiting import wait_until

MS = 1_000_000
WATCHER = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
static const clockid_t ids[3] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE};
static volatile int64_t back[3], reads;
static int64_t read_ns(clockid_t id) {
  struct timespec ts;
  clock_gettime(id, &ts);
  return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}
static void *watch(void *which) {
  clockid_t id = ids[(intptr_t)which];
  int64_t last = read_ns(id), now;
  for (;; last = now) {
    now = read_ns(id);
    if (now < last) back[(intptr_t)which]++;
    __atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED);
  }
}
int main(void) {
  char line[16];
  pthread_t thread;
  for (intptr_t n = 0; n < 3; n++) pthread_create(&thread, NULL, watch, (void *)n);
  puts("0"); fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    printf("%lld %lld %lld %lld\n", (long long)back[0], (long long)back[1], (long long)back[2],
           (long long)reads);
    fflush(stdout);
  }
}
"""


WAITS = """
import os, sys, threading, time
def took_ms(wait):
    begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    wait()
    return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - begun) // 1_000_000
def lock_wait():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.1)
print(0, flush=True)
for line in sys.stdin:
    if line == "fork\\n" and os.fork():
        os.wait()
        continue
    if line == "long\\n":
        print(0, flush=True)
        print(took_ms(lambda: time.sleep(0.3)), flush=True)
        continue
    waits = lambda: time.sleep(0.1), lambda: threading.Event().wait(0.1), lock_wait
    print(*map(took_ms, waits), flush=True)
    if line == "fork\\n":
        os._exit(0)
"""


@pytest.fixture(autouse=True)
def possible() -> None:
    needs.unless(vdso.probe())


@pytest.fixture
def agent() -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        yield started


@pytest.fixture
def python() -> Iterator[Teller]:
    with Teller(sys.executable, "-c", PYTHON) as teller:
        teller.hear()
        yield teller


def offsets(teller: Teller) -> list[int]:
    """By how much each of its clocks is ahead of ours, ns: wall, monotonic, boot."""
    told = teller.ask()
    ours = [time.clock_gettime_ns(n) for n in (time.CLOCK_REALTIME, 1, 4, time.CLOCK_BOOTTIME)]
    return [told[n] - ours[m] for m, n in enumerate((0, 3, 4, 5))]


def suspended(agent: AgentProcess, fault: str, for_ms: int) -> dict[str, object]:
    """The evidence of one suspension that lasts at least so long."""
    agent.do("suspend", fault=fault, nodes=["n1"])
    over_ns = time.monotonic_ns() + for_ms * MS
    wait_until(lambda: time.monotonic_ns() >= over_ns, over_ns + S)
    return agent.do("heal", fault=fault)


def behind_ns(evidence: dict[str, object]) -> int:
    behind = evidence["monotonic_behind_ns"]
    assert isinstance(behind, dict)
    return int(behind["n1"])


def test_monotonic_time_stands_still_and_wall_and_boot_time_pass(
    agent: AgentProcess, python: Teller
) -> None:
    pid = python.process.pid
    adopt(agent, pid)
    before = python.ask()
    injected = agent.do("suspend", fault="f1", nodes=["n1"])
    assert injected == {"effective": True, "states": {"n1": "T"}}
    begun_ns = time.monotonic_ns()
    wait_until(lambda: time.monotonic_ns() >= begun_ns + 300 * MS, begun_ns + S)
    healed = agent.do("heal", fault="f1")
    took_ns = time.monotonic_ns() - begun_ns
    assert healed["effective"] is True
    assert 290 * MS <= behind_ns(healed) <= took_ns + 50 * MS
    wall, mono, raw, boot = offsets(python)
    assert abs(wall) < 100 * MS and abs(boot) < 100 * MS
    assert mono == pytest.approx(-behind_ns(healed), abs=100 * MS)
    assert raw == pytest.approx(-behind_ns(healed), abs=100 * MS)
    after = python.ask()
    assert after[3] > before[3] and after[4] > before[4]


def test_it_stays_behind_also_when_a_clock_fault_heals(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("set_clock", fault="c1", nodes=["n1"], step_ns=50 * S)
    one = behind_ns(suspended(agent, "f1", 100))
    agent.do("heal", fault="c1")
    both = behind_ns(suspended(agent, "f2", 100))
    assert both >= one + 90 * MS
    wall, mono, _, _ = offsets(python)
    assert abs(wall) < 100 * MS and mono == pytest.approx(-both, abs=100 * MS)


def test_suspensions_that_overlap_are_one(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    begun_ns = time.monotonic_ns()
    agent.do("suspend", fault="f1", nodes=["n1"])
    agent.do("suspend", fault="f2", nodes=["n1"])
    wait_until(lambda: time.monotonic_ns() >= begun_ns + 200 * MS, begun_ns + S)
    first = agent.do("heal", fault="f1")
    assert first["effective"] is True and first["monotonic_behind_ns"] == {}
    healed = agent.do("heal", fault="f2")
    assert behind_ns(healed) <= time.monotonic_ns() - begun_ns
    assert python.ask()


def test_a_node_that_is_paused_too_stays_stopped(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("pause", fault="p", nodes=["n1"])
    begun_ns = time.monotonic_ns()
    assert suspended(agent, "f1", 50)["effective"] is True
    assert agent.do("observe", fault="p") == {"effective": True, "states": {"n1": "T"}}
    agent.do("heal", fault="p")
    # Not longer than all of this took, however busy the machine is.
    assert begun_ns - time.monotonic_ns() <= offsets(python)[1] <= -5 * MS


def goes_on(watcher: Teller) -> None:
    """Its threads read their clocks again."""
    reads = watcher.ask()[3]
    assert wait_until(lambda: watcher.ask()[3] > reads + 1000, time.monotonic_ns() + 5 * S)


@pytest.mark.parametrize("flags", [[], ["-static"]], ids=["dynamic", "static"])
def test_no_thread_ever_reads_an_earlier_monotonic_time(
    agent: AgentProcess, tmp_path: Path, flags: list[str]
) -> None:
    needs.binary("gcc")
    source, program = tmp_path / "watcher.c", tmp_path / "watcher"
    source.write_text(WATCHER)
    subprocess.run(["gcc", "-O2", "-pthread", *flags, "-o", program, source], check=True)
    with Teller(str(program)) as watcher:
        watcher.hear()
        adopt(agent, watcher.process.pid)
        for n in range(25):
            assert suspended(agent, f"f{n}", 10)["effective"] is True
            goes_on(watcher)
        assert watcher.ask()[:3] == [0, 0, 0]


@pytest.mark.parametrize("user", [None, 65534], ids=["same-user", "nobody"])
def test_waits_until_a_monotonic_time_are_as_long_as_before(
    agent: AgentProcess, user: int | None
) -> None:
    if user is not None:
        needs.tracing_of_others()
    with Teller("/usr/bin/python3", "-c", WAITS, user=user) as waiting:
        waiting.hear()
        adopt(agent, waiting.process.pid)
        for n in range(2):
            assert suspended(agent, f"f{n}", 300)["effective"] is True
            for word in ("tell", "fork", "tell"):
                assert all(95 <= took <= 250 for took in waiting.ask(word))


def test_a_wait_that_a_suspension_interrupts_ends_in_time(agent: AgentProcess) -> None:
    with Teller("/usr/bin/python3", "-c", WAITS) as waiting:
        waiting.hear()
        adopt(agent, waiting.process.pid)
        suspended(agent, "f1", 100)
        waiting.ask("long")
        assert suspended(agent, "f2", 100)["effective"] is True
        assert 295 <= waiting.hear()[0] <= 700


def test_a_process_that_is_traced_is_refused(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("syscall", fault="t", nodes=["n1"], call="sync", act="freeze")
    assert "tracer" in agent.error("suspend", fault="f1", nodes=["n1"])
    agent.do("heal", fault="t")
    assert suspended(agent, "f2", 20)["effective"] is True
    agent.do("syscall", fault="t2", nodes=["n1"], call="sync", act="freeze")
    agent.do("heal", fault="t2")
    assert python.ask()


def test_a_process_that_is_gone_is_never_suspended(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("suspend", fault="f1", nodes=["n1"])
    os.kill(python.process.pid, signal.SIGKILL)
    python.process.wait()
    healed = agent.do("heal", fault="f1")
    assert healed["effective"] is False and healed["monotonic_behind_ns"] == {}
    assert "no live process" in agent.error("suspend", fault="f2", nodes=["n1"])


def test_one_that_someone_resumes_early_is_not_effective(
    agent: AgentProcess, python: Teller
) -> None:
    adopt(agent, python.process.pid)
    agent.do("suspend", fault="f1", nodes=["n1"])
    os.kill(python.process.pid, signal.SIGCONT)
    assert python.ask()
    assert agent.do("heal", fault="f1")["effective"] is False
    assert offsets(python)[1] == pytest.approx(0, abs=100 * MS)


def test_a_host_whose_clocks_cannot_be_shifted_refuses(
    python: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpatchable() -> vdso.VdsoImage:
        raise vdso.Unpatchable("this kernel maps no vDSO")

    monkeypatch.setattr(vdso, "image", unpatchable)
    world = World()
    world.adopt("n1", python.process.pid, "10.0.0.1", [python.process.pid])
    suspends = Suspends(world)
    with pytest.raises(Refused, match="maps no vDSO"):
        suspends.inject("f1", {"nodes": ["n1"]})
    assert suspends.heal("f1")["effective"] is False
    found = processes.find(python.process.pid)
    assert found is not None and processes.state(found) != "T"


@pytest.mark.power
def test_fifty_are_effective_and_fifty_are_not(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    before = 0
    for n in range(50):
        healed = suspended(agent, f"f{n}", 20)
        assert healed["effective"] is True
        assert behind_ns(healed) >= before + 10 * MS  # The tick of coarse time.
        before = behind_ns(healed)
        assert offsets(python)[1] <= -before + MS
    for n in range(25):
        agent.do("suspend", fault=f"r{n}", nodes=["n1"])
        os.kill(python.process.pid, signal.SIGCONT)
        assert python.ask()
        assert agent.do("heal", fault=f"r{n}")["effective"] is False
    os.kill(python.process.pid, signal.SIGKILL)
    python.process.wait()
    for n in range(25):
        assert "no live process" in agent.error("suspend", fault=f"g{n}", nodes=["n1"])
