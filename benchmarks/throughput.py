"""How fast clients of Redis ask, every op recorded, beside redis-benchmark in the same minute.

Run: `python -m benchmarks.throughput [ROUNDS]`. Nothing is pipelined, and each op is one SET NX PX,
redis-benchmark's too: `redis-benchmark -P 1 -c CONNECTIONS SET lock owner NX PX 10000`. Rounds
alternate, so that a busy machine slows all alike. The numbers to compare are the ratios to
redis-benchmark and the CPU an op; uvloop is used where it is installed.

"protocol" is what our adapter for Redis speaks through, each op recorded. "adapter" is that one
as a worker runs it: a task for each client, the bound on its call, the row. "per core" shares the
connections among as many processes as there are cores, as a run with many paced clients does.
"hiredis" is redis-py with its parser in C, as `pip install redis[hiredis]` has it; "bare" is the
library alone: nothing is recorded. "stamped" has the stamps of the kernel, too.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.clusters.libraries.environments import fetch
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.lean_connection import Lean
from holdfast.clusters.systems.redis.native_client import OwnRedisLock
from holdfast.clusters.systems.redis.resp import encoded
from holdfast.clusters.systems.redis.system import LIBRARIES
from holdfast.harness.client.context import Context, Dependencies
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import CALL, ClientSetup
from holdfast.harness.recording.clock_sync import KernelStamps
from holdfast.harness.recording.phase import GO
from holdfast.harness.recording.segments import Recorder
from holdfast.interpreter import build

CONNECTIONS = (10, 50, 200)
ROUNDS = 5
OPS = {
    "redis-benchmark": 20_000,
    "protocol": 20_000,
    "protocol, uvloop": 20_000,
    "protocol, per core": 20_000,
    "protocol, uvloop, per core": 20_000,
    "adapter": 10_000,
    "adapter, per core": 10_000,
    "adapter, stamped, per core": 10_000,
    "redis-py, bare": 4_000,
    "redis-py": 4_000,
    "redis-py, stamped": 4_000,
    "redis-py, any core": 4_000,
    "hiredis, bare": 4_000,
    "hiredis": 4_000,
    "hiredis, stamped": 4_000,
    "hiredis, asyncio, bare": 4_000,
    "hiredis, asyncio, uvloop, bare": 4_000,
}
"""Ops of a round."""
HIREDIS = "hiredis==3.5.0"
ADDRESS = "127.0.77.1"
"""Ours alone: the adapter knows no port but the usual one."""
WORDS = ("SET", "lock", "owner", "NX", "PX", 10_000)


@contextmanager
def server(folder: Path) -> Iterator[None]:
    """A redis-server of our own that keeps nothing."""
    argv = ["redis-server", "--port", str(PORT), "--bind", ADDRESS, "--dir", str(folder)]
    argv += ["--save", "", "--appendonly", "no"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as running:
        until = time.monotonic() + 20
        while subprocess.run(["redis-cli", "-h", ADDRESS, "ping"], capture_output=True).returncode:
            if time.monotonic() > until:
                raise TimeoutError("redis-server does not answer")
            time.sleep(0.05)
        yield
        running.terminate()


def reference(connections: int, ops: int) -> dict[str, float]:
    """What redis-benchmark makes of the same command."""
    argv = ["redis-benchmark", "-h", ADDRESS, "-c", str(connections), "-n", str(ops), "--csv"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*argv, "-P", "1", *map(str, WORDS)],
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
    """When this process began and ended, s, and the CPU seconds of what ran inside. It begins when
    it is told to, so that processes begin together."""

    begun: float = 0.0
    ended: float = 0.0
    spent: float = 0.0

    def __enter__(self) -> Meter:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        self.begun, self.spent = time.monotonic(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = time.monotonic()
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


async def protocol(recorder: Recorder, connections: int, ops: int) -> Meter:
    """`ops` by what the adapter speaks through."""
    todo = iter(range(ops))
    askers = [Asker(recorder, n, lambda: next(todo, None) is not None) for n in range(connections)]
    for asker in askers:
        await asker.line.connect(ADDRESS, PORT)
    with Meter() as meter:
        for asker in askers:
            asker.next()
        await asyncio.gather(*(asker.over for asker in askers))
    return meter


def context(recorder: Recorder, process: int, stamps: KernelStamps | None) -> Context:
    """One client with the adapter, as a worker makes it; it never turns to the resource."""
    nobody: Any = None
    told: list[Context] = []
    setup = ClientSetup(
        process=process,
        name="w",
        servers=(("n1", ADDRESS),),
        lease_ns=10 * SECOND,
        options={},
        tell=lambda *args, **kwargs: told[0].tell(*args, **kwargs),
    )
    parts = Dependencies(
        lock_client=OwnRedisLock(setup),
        resource=nobody,
        recorder=recorder,
        process=process,
        lease_ns=10 * SECOND,
        rng=random.Random(process),
        options={},
        phase=lambda: GO,
        die=lambda: None,
        stamps=stamps,
    )
    told.append(Context(parts, ("lock",)))
    return told[0]


async def adapter(recorder: Recorder, connections: int, ops: int, kind: str) -> Meter:
    """`ops` as a worker has them done."""
    stamps = KernelStamps(recorder, alone=False) if "stamped" in kind else None
    todo = iter(range(ops))
    clients = [context(recorder, n, stamps) for n in range(connections)]
    await asyncio.gather(*(ctx.open() for ctx in clients))

    async def run(ctx: Context) -> None:
        while next(todo, None) is not None:
            await ctx.try_acquire("lock")

    with Meter() as meter:
        await asyncio.gather(*(run(ctx) for ctx in clients))
    await asyncio.gather(*(ctx.close() for ctx in clients))
    if stamps is not None:
        stamps.close()
    return meter


def threaded(recorder: Recorder, connections: int, ops: int, kind: str) -> Meter:
    """The same with unmodified redis-py, a thread and a connection per client, on one core: of the
    threads of an interpreter one runs at a time, and handing over to another core costs more."""
    import redis

    if "any core" not in kind:
        one_core()
    stamps = KernelStamps(recorder, alone=False) if "stamped" in kind else None
    todo = iter(range(ops))
    plugs = [redis.Redis(host=ADDRESS) for _ in range(connections)]
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
    plugs = [redis.asyncio.Redis(host=ADDRESS) for _ in range(connections)]
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
        run = importlib.import_module("uvloop").run if "uvloop" in kind else asyncio.run
        if kind.startswith("protocol"):
            meter = run(protocol(rows, connections, ops))
        elif kind.startswith("adapter"):
            meter = run(adapter(rows, connections, ops, kind))
        elif "asyncio" in kind:
            meter = run(coroutines(connections, ops))
        else:
            meter = threaded(rows, connections, ops, kind)
    sys.stdout.write(json.dumps(asdict(meter)))


def measured(kind: str, connections: int) -> dict[str, float]:
    """The rate of all processes together, and what an op costs them."""
    ops = OPS[kind]
    if kind == "redis-benchmark":
        return reference(connections, ops)
    among = len(os.sched_getaffinity(0)) if "per core" in kind else 1
    words = [kind, str(connections // among), str(ops // among)]
    argv = [sys.executable, "-m", "benchmarks.throughput", "client", *words]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen(argv, **pipes)) for _ in range(among)]
        for one in running:
            if one.stdout.readline() != "ready\n":
                raise RuntimeError(f"{kind}: did not start")
        for one in running:
            one.stdin.write("\n")
            one.stdin.flush()
        told = [json.loads(one.communicate(timeout=120)[0]) for one in running]
    took = max(one["ended"] for one in told) - min(one["begun"] for one in told)
    return {"rate": ops / took, "cpu_us": sum(one["spent"] for one in told) / ops * 1e6}


def main(times: int) -> None:
    """Print medians of the rounds and of their ratios to redis-benchmark."""
    for tool in ("redis-server", "redis-benchmark", "redis-cli"):
        if shutil.which(tool) is None:
            sys.exit(f"throughput: {tool} is not installed")
    kinds = [kind for kind in OPS if "uvloop" not in kind or importlib.util.find_spec("uvloop")]
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)):
        for connections in CONNECTIONS:
            rounds: list[dict[str, Any]] = [
                {kind: measured(kind, connections) for kind in kinds} for _ in range(times)
            ]
            for kind in kinds:
                rate = statistics.median(one[kind]["rate"] for one in rounds)
                cpu = statistics.median(one[kind]["cpu_us"] for one in rounds)
                ratios = [one[kind]["rate"] / one["redis-benchmark"]["rate"] for one in rounds]
                sys.stdout.write(
                    f"{connections:4} connections  {kind:30} {rate:8.0f} ops/s,"
                    f" ratio {statistics.median(ratios):.2f}, {cpu:5.1f} us CPU an op\n"
                )
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.stdout.write(f"{build()}\n")
        main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS)
