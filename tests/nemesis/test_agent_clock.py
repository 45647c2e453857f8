"""Clocks moved by the fault agent, as the moved programs themselves see them."""

from __future__ import annotations

import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.nemesis.agent import vdso
from holdfast.nemesis.agent.processes import find
from tests import needs
from tests.nemesis.agent_process import AgentProcess
from tests.nemesis.test_agent_signals import running
from tests.nemesis.waiting import wait_until

S = 1_000_000_000
PYTHON = """
import os, sys, time
print(0, flush=True)
for line in sys.stdin:
    if line == "exec\\n":
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    if line == "fork\\n" and os.fork():
        os.wait()
        continue
    names = "REALTIME", "REALTIME_COARSE", "TAI", "MONOTONIC", "MONOTONIC_RAW", "BOOTTIME"
    ids = 0, 5, 11, 1, 4, 7
    print(*[time.clock_gettime_ns(n) for n in ids], time.time_ns(), flush=True)
    if line == "fork\\n":
        os._exit(0)
"""
C = r"""
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
int main(void) {
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    struct { uint64_t a, b; struct timespec ts; uint64_t c, d; } guard = {1, 2, {0, 0}, 3, 4};
    struct timeval tv; time_t stored = 0;
    clock_gettime(CLOCK_REALTIME, &guard.ts); gettimeofday(&tv, NULL);
    time_t returned = time(&stored);
    int bad = guard.a != 1 || guard.b != 2 || guard.c != 3 || guard.d != 4 || stored != returned
      || clock_gettime(99, &guard.ts) == 0 || tv.tv_usec < 0 || tv.tv_usec > 999999
      || gettimeofday(NULL, NULL) != 0 || time(NULL) < returned;
    printf("%lld %lld %lld %d\n", (long long)guard.ts.tv_sec, (long long)tv.tv_sec,
           (long long)returned, bad);
    fflush(stdout);
  }
}
"""


@pytest.fixture(autouse=True)
def possible() -> None:
    needs.unless(vdso.probe())


@pytest.fixture
def agent() -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        yield started


class Teller:
    """A process that tells what its clocks show, when it is asked."""

    def __init__(self, *argv: str, user: int | None = None) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=user
        )

    def __enter__(self) -> Teller:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, word: str = "tell") -> list[int]:
        """The numbers of one answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> list[int]:
        """The numbers of the next line it prints, within ten seconds."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 10)[0], "it says nothing"
        return [int(number) for number in self.process.stdout.readline().split()]

    def offset_s(self, word: str = "tell") -> float:
        """How far its wall clock is from ours."""
        return (self.ask(word)[-1] - time.time_ns()) / S


@pytest.fixture
def python() -> Iterator[Teller]:
    with Teller(sys.executable, "-c", PYTHON) as teller:
        teller.hear()
        yield teller


def adopt(agent: AgentProcess, *pids: int) -> None:
    agent.do("adopt", node="n1", pid=pids[0], address="10.0.0.1", processes=list(pids))


def near(seconds: float) -> object:
    return pytest.approx(seconds, abs=0.15)


def test_the_bytes_of_the_stub_are_what_its_source_says(tmp_path: Path) -> None:
    needs.binary("gcc")
    source = Path(vdso.__file__).with_name("stub.S")
    made, text = tmp_path / "stub.o", tmp_path / "stub.bin"
    subprocess.run(["gcc", "-c", "-o", made, source], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, text], check=True)
    assert text.read_bytes() == vdso.CODE
    symbols = subprocess.run(["nm", made], capture_output=True, text=True, check=True).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines()}
    assert places["BANK_BYTES"] == vdso.BANK_BYTES
    kept = [places[name] for name in ("generation", "standstill", "banks")]
    assert kept == [vdso.GENERATION, vdso.STANDSTILL, vdso.BANKS]
    assert {
        f"__vdso_{name}": places[name] for name in ("clock_gettime", "gettimeofday", "time")
    } == vdso.STAND_INS


def test_wall_clocks_move_and_all_others_do_not(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    evidence = agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=-3 * S)
    assert evidence == {"effective": True, "offset_ns": {"n1": {str(python.process.pid): -3 * S}}}
    told = dict(zip((0, 5, 11, 1, 4, 7), python.ask(), strict=False))
    off = {clock: (ns - time.clock_gettime_ns(clock)) / S for clock, ns in told.items()}
    assert [off[clock] for clock in (0, 5, 11)] == [near(-3)] * 3
    assert [off[clock] for clock in (1, 4, 7)] == [near(0)] * 3
    healed = agent.do("heal", fault="f1")
    assert healed["after_ns"] == {"n1": {str(python.process.pid): 0}}
    assert python.offset_s() == near(0)


def test_a_healed_process_runs_the_kernels_own_code_again(
    agent: AgentProcess, python: Teller
) -> None:
    process = find(python.process.pid)
    assert process is not None
    adopt(agent, python.process.pid)
    agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=S)
    patch = vdso.Patch(process)
    for name, (place, first) in vdso.image().entries.items():
        assert patch.read(place, vdso.JUMP_BYTES) == vdso.image().jump(name) != first
    agent.do("heal", fault="f1")
    for place, first in vdso.image().entries.values():
        assert patch.read(place, vdso.JUMP_BYTES) == first
    patch.close()


def test_a_rate_makes_the_clock_run_away(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    begun = time.monotonic_ns()
    agent.do("set_clock", fault="f1", nodes=["n1"], rate_ppm=2_000_000)
    assert wait_until(lambda: python.offset_s() > 0.6, begun + 5 * S)
    assert time.monotonic_ns() - begun == pytest.approx(0.3 * S, rel=0.2)
    agent.do("heal", fault="f1")
    assert python.offset_s() == near(0)


def test_a_slow_clock_falls_behind(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    begun = time.monotonic_ns()
    agent.do("set_clock", fault="f1", nodes=["n1"], rate_ppm=-500_000)
    assert wait_until(lambda: python.offset_s() < -0.2, begun + 5 * S)
    assert time.monotonic_ns() - begun == pytest.approx(0.4 * S, rel=0.2)


def test_a_strobe_comes_and_goes(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=60 * S, strobe_ns=30_000_000)
    seen = {0: 0, 60: 0}
    deadline = time.monotonic_ns() + 5 * S
    while min(seen.values()) < 20 and time.monotonic_ns() < deadline:
        seen[round(python.offset_s())] += 1
    assert min(seen.values()) >= 20


def test_faults_add_up_and_each_takes_only_its_own_part_away(
    agent: AgentProcess, python: Teller
) -> None:
    adopt(agent, python.process.pid)
    for n, seconds in enumerate((5, -2, 10, 100)):
        agent.do("set_clock", fault=f"f{n}", nodes=["n1"], step_ns=seconds * S)
    assert python.offset_s() == near(113)
    assert "at most 4 are supported" in agent.error(
        "set_clock", fault="f9", nodes=["n1"], step_ns=S
    )
    assert python.offset_s() == near(113)
    agent.do("heal", fault="f1")
    assert python.offset_s() == near(115)
    for n in (0, 2, 3):
        agent.do("heal", fault=f"f{n}")
    assert python.offset_s() == near(0)


def test_a_fork_inherits_the_skew_and_an_exec_gets_it_again(
    agent: AgentProcess, python: Teller
) -> None:
    adopt(agent, python.process.pid)
    agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=50 * S)
    assert python.offset_s("fork") == near(50)
    assert python.ask("exec") == [0]
    assert python.offset_s() == near(0)
    assert agent.do("observe", fault="f1")["effective"] is True
    assert python.offset_s() == near(50)
    agent.do("heal", fault="f1")
    assert python.offset_s() == near(0)


def test_a_restarted_node_gets_the_skew_that_is_still_on(
    agent: AgentProcess, python: Teller
) -> None:
    adopt(agent, python.process.pid)
    agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=50 * S)
    agent.do("kill", fault="f2", nodes=["n1"])
    with Teller(sys.executable, "-c", PYTHON) as successor:
        successor.hear()
        assert successor.offset_s() == near(0)
        adopt(agent, successor.process.pid)
        assert successor.offset_s() == near(50)
        agent.do("heal", fault="f1")
        assert successor.offset_s() == near(0)


def test_a_paused_process_is_skewed_and_stays_paused(agent: AgentProcess, python: Teller) -> None:
    adopt(agent, python.process.pid)
    agent.do("pause", fault="f1", nodes=["n1"])
    agent.do("set_clock", fault="f2", nodes=["n1"], step_ns=50 * S)
    assert agent.do("observe", fault="f1") == {"effective": True, "states": {"n1": "T"}}
    agent.do("heal", fault="f1")
    assert python.offset_s() == near(50)


def test_a_dead_driver_leaves_true_clocks(python: Teller) -> None:
    with AgentProcess() as agent:
        adopt(agent, python.process.pid)
        agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=50 * S)
        assert python.offset_s() == near(50)
    assert python.offset_s() == near(0)


@pytest.mark.parametrize("flags", [[], ["-static"]], ids=["dynamic", "static"])
def test_every_function_of_a_c_program_agrees(
    agent: AgentProcess, tmp_path: Path, flags: list[str]
) -> None:
    needs.binary("gcc")
    source, program = tmp_path / "clock.c", tmp_path / "clock"
    source.write_text(C)
    subprocess.run(["gcc", "-O2", *flags, "-o", program, source], check=True)
    with Teller(str(program)) as teller:
        teller.ask()
        adopt(agent, teller.process.pid)
        for n, step in enumerate((-7 * S, 3 * S + 999_999_999, 1)):
            agent.do("set_clock", fault=f"f{n}", nodes=["n1"], step_ns=step)
            *seconds, bad = teller.ask()
            wall = (time.time_ns() + step) // S
            assert bad == 0
            assert all(wall - 1 <= told <= wall for told in seconds), (seconds, wall)
            agent.do("heal", fault=f"f{n}")


def _accepts(path: Path) -> bool:
    """Whether a server listens on the socket: its file is there a moment before that."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def test_redis_expires_a_key_early_when_its_clock_jumps_ahead(
    agent: AgentProcess, tmp_path: Path
) -> None:
    server = needs.binary("redis-server")
    path = tmp_path / "redis.sock"
    with running(server, "--port", "0", "--unixsocket", str(path), "--save", "") as process:
        assert wait_until(lambda: _accepts(path), time.monotonic_ns() + 5 * S)

        def redis(command: str) -> bytes:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(command.encode() + b"\r\n")
                return connection.recv(64)

        assert redis("SET lock me PX 60000") == b"+OK\r\n"
        assert redis("EXISTS lock") == b":1\r\n"
        adopt(agent, process.pid)
        agent.do("set_clock", fault="f1", nodes=["n1"], step_ns=61 * S)
        assert redis("EXISTS lock") == b":0\r\n"
        agent.do("heal", fault="f1")
        assert redis("SET lock me PX 60000") == b"+OK\r\n"
        agent.do("set_clock", fault="f2", nodes=["n1"], step_ns=-3600 * S)
        assert int(redis("PTTL lock")[1:]) > 3_600_000


BUSY = """
import threading, time
def spin():
    last = time.clock_gettime_ns(1)
    while True:
        wall, true = time.time_ns(), time.clock_gettime_ns(7)
        now = time.clock_gettime_ns(1)
        assert now >= last and wall > 10**18 and true > 0
        last = now
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
time.sleep(120)
"""


def test_two_hundred_changes_under_load_harm_nobody(agent: AgentProcess) -> None:
    with running(sys.executable, "-c", BUSY) as busy:
        assert busy.stdout is not None
        assert busy.stdout.readline() == "ready\n"
        adopt(agent, busy.pid)
        for n in range(200):
            move = {"fault": f"f{n}", "nodes": ["n1"], "step_ns": S * (n - 100) + 1}
            assert agent.do("set_clock", **move)["effective"]
            assert agent.do("heal", fault=f"f{n}")["after_ns"] == {"n1": {str(busy.pid): 0}}
        assert busy.poll() is None
        assert len(list(Path(f"/proc/{busy.pid}/task").iterdir())) == 4


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "missing step_ns or rate_ppm"),
        ({"step_ns": 10**18}, "expected at most 10 years"),
        ({"rate_ppm": -1_000_000}, "invalid rate_ppm -1000000"),
        ({"step_ns": 1, "strobe_ns": 10}, "invalid strobe_ns 10: expected >= 1000000"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(
    agent: AgentProcess, python: Teller, args: dict[str, int], says: str
) -> None:
    adopt(agent, python.process.pid)
    assert says in agent.error("set_clock", fault="f1", nodes=["n1"], **args)
    assert python.offset_s() == near(0)


def test_a_vdso_without_room_or_without_the_functions_is_left_alone() -> None:
    with open("/proc/self/maps") as maps:
        span = next(line.split()[0] for line in maps if line.rstrip().endswith("[vdso]"))
    start, end = (int(edge, 16) for edge in span.split("-"))
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        elf = memory.read(end - start)
    assert vdso.parse(elf).entries == vdso.image().entries
    sections = struct.unpack_from("<Q", elf, 40)[0]
    with pytest.raises(vdso.Unpatchable, match="bytes; 632 are needed"):
        vdso.parse(elf[:sections])
    with pytest.raises(vdso.Unpatchable, match="lacks __vdso_time"):
        vdso.parse(elf.replace(b"__vdso_time\0", b"__vdso_emit\0"))
    with pytest.raises(vdso.Unpatchable, match="not a 64-bit"):
        vdso.parse(b"\x7fELF\x01\x01" + elf[6:])
