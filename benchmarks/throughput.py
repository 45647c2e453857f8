"""How fast clients of Redis ask, every op recorded, beside redis-benchmark in the same minute.

Run: `python -m benchmarks.throughput`. One process each, nothing pipelined, SET NX PX; rounds
alternate, so that a busy machine slows all alike. The numbers to compare are the ratios to
redis-benchmark and the CPU an op; uvloop is used where it is installed.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.clusters.libraries import fetch
from holdfast.clusters.systems.redis.lean import Lean
from holdfast.clusters.systems.redis.resp import encoded
from holdfast.clusters.systems.redis.system import LIBRARIES
from holdfast.harness.events import Op, Status
from holdfast.harness.ports import CALL
from holdfast.harness.segments import Recorder
from holdfast.harness.steady import KernelStamps

CONNECTIONS = (10, 50, 200)
ROUNDS = 5
OPS = {
    "redis-benchmark": 20_000,
    "own": 20_000,
    "own, uvloop": 20_000,
    "redis-py, bare": 4_000,
    "redis-py": 4_000,
    "redis-py, stamped": 4_000,
    "redis-py, any core": 4_000,
    "hiredis, bare": 4_000,
    "hiredis": 4_000,
    "hiredis, stamped": 4_000,
    "hiredis, asyncio, bare": 4_000,
}
"""Ops of a round. "hiredis" is redis-py with its parser in C, as `pip install redis[hiredis]` has
it; "bare" is the library alone: nothing is recorded."""
HIREDIS = "hiredis==3.5.0"
PORT = 17_379
WORDS = ("SET", "lock", "owner", "NX", "PX", 10_000)


@contextmanager
def server(folder: Path) -> Iterator[None]:
    """A redis-server of our own that keeps nothing."""
    argv = ["redis-server", "--port", str(PORT), "--bind", "127.0.0.1", "--dir", str(folder)]
    argv += ["--save", "", "--appendonly", "no"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
        until = time.monotonic() + 20
        while subprocess.run(
            ["redis-cli", "-p", str(PORT), "ping"], capture_output=True
        ).returncode:
            if time.monotonic() > until:
                raise TimeoutError("redis-server does not answer")
            time.sleep(0.05)
        yield
        running.terminate()


def reference(connections: int, ops: int) -> dict[str, float]:
    """What redis-benchmark makes of the same command."""
    argv = ["redis-benchmark", "-p", str(PORT), "-c", str(connections), "-n", str(ops), "--csv"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*argv, *map(str, WORDS)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rate = float(done.stdout.strip().splitlines()[-1].rsplit('",', 1)[0].split('","')[1])
    return {"rate": rate, "cpu_us": spent / ops * 1e6}


@dataclass(slots=True)
class Meter:
    """Seconds and CPU seconds of this process, of what runs inside it."""

    took: float = 0.0
    spent: float = 0.0

    def __enter__(self) -> Meter:
        self.took, self.spent = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.took += time.perf_counter()
        self.spent += time.process_time()


class Asker:
    """One connection in a closed loop: an answer is recorded, and the next question follows."""

    def __init__(self, recorder: Recorder, process: int, left: Callable[[], bool]) -> None:
        self._recorder, self._process, self._left = recorder, process, left
        self._question = encoded(WORDS)
        self._row = -1
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.line = Lean(self.answered, self.ended)

    def next(self) -> None:
        if not self._left():
            self.line.close()
            return
        self._row = self._recorder.invoke(Op.TRY, self._process, 0, arg=10_000_000_000)
        self.line.ask(self._question)

    def answered(self, answer: bytes) -> None:
        status = Status.OK if answer == b"+OK\r\n" else Status.FAIL
        self._recorder.complete(self._row, status, res=10_000_000_000)
        self.next()

    def ended(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def own(recorder: Recorder, connections: int, ops: int) -> Meter:
    """`ops` by the own protocol."""
    todo = iter(range(ops))
    askers = [Asker(recorder, n, lambda: next(todo, None) is not None) for n in range(connections)]
    for asker in askers:
        await asker.line.connect("127.0.0.1", PORT)
    with Meter() as meter:
        for asker in askers:
            asker.next()
        await asyncio.gather(*(asker.over for asker in askers))
    return meter


def threaded(recorder: Recorder, connections: int, ops: int, kind: str) -> Meter:
    """The same with unmodified redis-py, a thread and a connection per client, on one core: of the
    threads of an interpreter one runs at a time, and handing over to another core costs more."""
    import redis

    if "any core" not in kind:
        one_core()
    stamps = KernelStamps(recorder, alone=False) if "stamped" in kind else None
    todo = iter(range(ops))
    plugs = [redis.Redis(port=PORT) for _ in range(connections)]
    for plug in plugs:
        plug.ping()

    def bare(process: int) -> None:
        plug = plugs[process]
        while next(todo, None) is not None:
            plug.set("lock", "owner", nx=True, px=10_000)

    def recorded(process: int) -> None:
        plug = plugs[process]
        while next(todo, None) is not None:
            row = recorder.invoke(Op.TRY, process, 0)
            with stamps.watch(CALL) if stamps else nullcontext() as stamped:
                ok = plug.set("lock", "owner", nx=True, px=10_000)
            recorder.complete(row, Status.OK if ok else Status.FAIL, stamped=stamped)

    run = bare if "bare" in kind else recorded
    threads = [threading.Thread(target=run, args=(n,)) for n in range(connections)]
    with Meter() as meter:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if stamps is not None:
        stamps.close()
    return meter


async def coroutines(connections: int, ops: int) -> Meter:
    """The same with redis-py's asyncio side, nothing recorded."""
    import redis.asyncio

    todo = iter(range(ops))
    plugs = [redis.asyncio.Redis(port=PORT) for _ in range(connections)]
    for plug in plugs:
        await plug.ping()

    async def run(plug: Any) -> None:
        while next(todo, None) is not None:
            await plug.set("lock", "owner", nx=True, px=10_000)

    with Meter() as meter:
        await asyncio.gather(*(run(plug) for plug in plugs))
    for plug in plugs:
        await plug.aclose()
    return meter


def one_core() -> None:
    """Keep this process on the last core that it may use."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def client(kind: str, connections: int, ops: int) -> None:
    """The process under measurement: prints its rate, and its CPU an op, starting left out."""
    if "redis" in kind:
        pins = (*LIBRARIES, HIREDIS) if kind.startswith("hiredis") else LIBRARIES
        sys.path.insert(0, str(fetch(pins)))
    with (
        tempfile.TemporaryDirectory() as folder,
        Recorder(Path(folder), "w", {"node": "c1", "processes": list(range(connections))}) as rows,
    ):
        gc.freeze()
        gc.disable()
        if kind == "own":
            meter = asyncio.run(own(rows, connections, ops))
        elif kind == "own, uvloop":
            meter = importlib.import_module("uvloop").run(own(rows, connections, ops))
        elif "asyncio" in kind:
            meter = asyncio.run(coroutines(connections, ops))
        else:
            meter = threaded(rows, connections, ops, kind)
    found = {"rate": ops / meter.took, "cpu_us": meter.spent / ops * 1e6}
    sys.stdout.write(json.dumps(found))


def measured(kind: str, connections: int) -> dict[str, float]:
    if kind == "redis-benchmark":
        return reference(connections, OPS[kind])
    argv = ["-m", "benchmarks.throughput", "client", kind, str(connections), str(OPS[kind])]
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def main() -> None:
    """Print medians of the rounds and of their ratios to redis-benchmark."""
    for tool in ("redis-server", "redis-benchmark", "redis-cli"):
        if shutil.which(tool) is None:
            sys.exit(f"throughput: {tool} is not installed")
    kinds = [kind for kind in OPS if "uvloop" not in kind or importlib.util.find_spec("uvloop")]
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)):
        for connections in CONNECTIONS:
            rounds: list[dict[str, Any]] = [
                {kind: measured(kind, connections) for kind in kinds} for _ in range(ROUNDS)
            ]
            for kind in kinds:
                rate = statistics.median(one[kind]["rate"] for one in rounds)
                cpu = statistics.median(one[kind]["cpu_us"] for one in rounds)
                ratios = [one[kind]["rate"] / one["redis-benchmark"]["rate"] for one in rounds]
                sys.stdout.write(
                    f"{connections:4} connections  {kind:22} {rate:8.0f} ops/s,"
                    f" ratio {statistics.median(ratios):.2f}, {cpu:5.1f} us CPU an op\n"
                )
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
