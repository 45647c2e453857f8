"""How long the fault agent takes: `python benchmarks/faults.py` as root prints one small table.

Times are the agent's own, from reading a request to knowing that the fault is in place.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.interpreter import build
from holdfast.nemesis.agent import nft
from holdfast.nemesis.agent.requests import FaultAgent

ROUNDS, SLOW_ROUNDS = 200, 20
CALLS = """
import os, time
while True:
    begun, count = time.monotonic(), 0
    while time.monotonic() < begun + 0.5:
        for _ in range(100):
            os.getppid()
        count += 100
    print(count / (time.monotonic() - begun), flush=True)
"""
"""A program that makes calls, and prints how many per second twice a second."""
NODES = 5
BOUND_S = 5


@contextmanager
def nodes() -> Iterator[list[int]]:
    """Pids of sleeping processes, each in a network namespace of its own."""
    ours = Path("/proc/self/ns/net").readlink()
    started = [subprocess.Popen(["unshare", "--net", "sleep", "600"]) for _ in range(NODES)]
    try:
        for process in started:
            place = Path(f"/proc/{process.pid}/ns/net")
            deadline = time.monotonic() + BOUND_S
            while place.readlink() == ours:
                if time.monotonic() > deadline:
                    raise SystemExit("no network namespace came up; run this as root")
                time.sleep(0.001)
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


class Bench:
    """One agent in this process, its nodes adopted; every fault gets an id of its own."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._agent = FaultAgent()
        self._faults = 0
        kinds = (load(row.entry) for row in catalogue.NEMESES.values())
        self._ask("load", halves=list(dict.fromkeys(half for one in kinds for half in one.agent)))
        for n, pid in enumerate(pids):
            self._ask("adopt", node=f"n{n}", pid=pid, address=f"10.0.0.{n}", processes=[pid])

    def time(self, rounds: int, do: str, **args: Any) -> tuple[list[int], list[int]]:
        """Nanoseconds of each injection and of each heal."""
        injected, healed = [], []
        for _ in range(rounds):
            self._faults += 1
            fault = f"f{self._faults}"
            injected.append(self._ask(do, fault=fault, **args))
            healed.append(self._ask("heal", fault=fault))
        return injected, healed

    def during(self, work: Callable[[], object], do: str, **args: Any) -> None:
        """Does some work while a fault is in place."""
        self._faults += 1
        self._ask(do, fault=f"f{self._faults}", **args)
        work()

    def close(self) -> None:
        """Heals what is left."""
        self._agent.leave()

    def _ask(self, do: str, **args: Any) -> int:
        reply = self._agent.serve({"id": 1, "do": do, **args})
        if not reply["ok"]:
            raise SystemExit(reply["error"])
        return int(reply["took_ns"])


def main() -> int:
    """Prints the table."""
    write = sys.stdout.write
    line = "{:44} {:>10} {:>10} {:>10}\n".format
    write(line("milliseconds", "median", "95 %", "heal"))

    def show(what: str, times: tuple[list[int], list[int]]) -> float:
        injected, healed = (sorted(column) for column in times)
        median = statistics.median(injected) / 1e6
        tail = injected[len(injected) * 95 // 100] / 1e6
        heal = statistics.median(healed) / 1e6
        write(line(what, f"{median:.3f}", f"{tail:.3f}", f"{heal:.3f}"))
        return median

    with nodes() as pids:
        bench = Bench(pids)
        library = show(f"halves partition of {NODES} nodes", bench.time(ROUNDS, **halves()))
        show("pause of one node, every thread seen stopped", bench.time(ROUNDS, **on(1, "pause")))
        show(f"pause of {NODES} nodes", bench.time(ROUNDS, **on(NODES, "pause")))
        show("clock step of one node, installed", bench.time(ROUNDS, **clock(1)))
        show(f"clock step of {NODES} nodes", bench.time(ROUNDS, **clock(NODES)))
        show("trace of one node, until a call", bench.time(ROUNDS, **traced()))
        show("loss on one link, by a rule", bench.time(ROUNDS, **link("loss")))
        slow_link = link("delay", by_ns=50_000_000, jitter_ns=0)
        show("delay of one link, by a queue", bench.time(ROUNDS, **slow_link))
        show("CPU quota of one node", bench.time(SLOW_ROUNDS, **on(1, "cpu-quota")))
        show("no more files for one node", bench.time(ROUNDS, **on(1, "open-files")))
        suspended = bench.time(SLOW_ROUNDS, **on(1, "suspend"))
        show("suspension of one node, waits redirected", suspended)
        show("memory limit of one node", bench.time(SLOW_ROUNDS, **on(1, "memory-limit")))
        with mock.patch.object(nft, "_library", return_value=None):
            program = bench.time(SLOW_ROUNDS, **halves())
        slow = show("the same partition by the nft program", program)
        bench.close()
    write(f"\nthe library is {slow / library:.0f} times as fast as the program\n")
    write(f"a program that only makes system calls is {slower():.1f} times as slow while traced\n")
    write(f"{build()}\n")
    return 0


def slower() -> float:
    """How many times as many system calls a program makes per second untraced as traced."""
    process = subprocess.Popen([sys.executable, "-c", CALLS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        bench = Bench([process.pid])
        plain = float(process.stdout.readline())
        rates: list[float] = []

        def look() -> None:
            assert process.stdout is not None
            process.stdout.readline()  # The one that was under way.
            rates.append(float(process.stdout.readline()))

        bench.during(look, **traced())
        bench.close()
    finally:
        process.kill()
        process.communicate()
    return plain / rates[0]


def halves() -> dict[str, Any]:
    """The request that cuts two nodes off from the others, both ways."""
    few, many = range(2), range(2, NODES)
    sides = [(n, many) for n in few] + [(n, few) for n in many]
    links = [{"node": f"n{n}", "from": [f"10.0.0.{m}" for m in other]} for n, other in sides]
    return {"do": "cut", "links": links}


def on(count: int, do: str) -> dict[str, Any]:
    """A request about the first nodes."""
    return {"do": do, "nodes": [f"n{n}" for n in range(count)]}


def link(act: str, **more: Any) -> dict[str, Any]:
    """The request about what one node receives from another."""
    return {"do": "link", "act": act, "links": [{"node": "n1", "from": ["10.0.0.0"]}], **more}


def traced() -> dict[str, Any]:
    """The request that waits for a call which never comes."""
    return {**on(1, "syscall"), "call": "sync", "act": "freeze"}


def clock(count: int) -> dict[str, Any]:
    """The request that sets clocks a minute ahead."""
    return {**on(count, "set_clock"), "step_ns": 60_000_000_000}


if __name__ == "__main__":
    sys.exit(main())
