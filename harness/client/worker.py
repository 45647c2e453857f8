"""A client process on its own node: one or a few logical clients, and their recorder.

`python -S -m holdfast.harness.client.worker CONFIG.json`. It reads the phase file, runs one
workload coroutine per client, and exits when its time is over, even without the driver. Standard
library only: it is shipped as source into containers and libraries' own environments.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.harness.client.context import Context, Dependencies
from holdfast.harness.client.resource_replies import Resource, WritesItself
from holdfast.harness.client.self_faults import OrderReceiver
from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed, no_space
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.waiting import cancel_until_done, until
from holdfast.harness.recording import segments, starvation
from holdfast.harness.recording.clock_sync import KernelStamps, kernel_stamps
from holdfast.harness.recording.marking import MarkingRecorder
from holdfast.harness.recording.phase import END, PREPARE, STOP, Phase
from holdfast.harness.recording.recorder import Rows, Stamps

Config = Mapping[str, Any]
AGAIN_S = 0.2
LOOK_NS = 50 * MILLISECOND
"""Interval between two readings of the phase; hundreds of clients may wait on one core."""
HOLDING_THE_LOCK = "ctypes:PyDLL"
"""Functions of the C library, during whose calls no other Python thread runs. Not every interpreter
has them, and importing them takes 5 ms: only a process that pauses itself does."""
OURS = (ImportError, NameError, AttributeError, TypeError, SyntaxError, AssertionError)
"""Errors in code, which a recovered server does not fix."""


def main(argv: list[str]) -> int:
    """Exit code 0: closed cleanly; 1: a workload or adapter raised, see the log."""
    config: Config = json.loads(Path(argv[1]).read_text())
    try:
        return _recorded(config)
    except EnvironmentFailed as error:
        _say(str(error))
        return 1
    except OSError as error:
        if no_space(error) is None:
            raise
        _say(f"cannot record: {error.strerror}: {error.filename or config['history']}")
        return 1


def _say(line: str) -> None:
    """A line of the log, which may lie on the disk that is full."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")


def _recorded(config: Config) -> int:
    # At the end: no package of the user's environment hides one of the standard library.
    sys.path.extend(config.get("site", ()))
    phase = Phase(Path(config["phase"]), writable=False)
    made = MarkingRecorder if config.get("marked") else segments.Recorder
    recorder = made(
        Path(config["history"]),
        config["writer"],
        {
            "node": config["node"],
            "processes": config["processes"],
            "pid": os.getpid(),
            "role": config["role"],
        },
    )
    stopped = starvation.begin(Path(config["history"]).parent, config["node"])
    gc.freeze()
    gc.disable()
    stamps = kernel_stamps(recorder, alone=len(config["processes"]) == 1)
    asyncio.run(_work(config, phase, recorder, stamps, partial(stall, stopped)))
    if stamps is not None:
        stamps.close()
    recorder.close()
    return 0


async def _work(
    config: Config,
    phase: Phase,
    recorder: segments.Recorder,
    stamps: KernelStamps | None,
    stall_process: Callable[[int], None],
) -> None:
    connect, address = load(config["resource"]["connect"]), config["resource"]["address"]

    def die() -> None:
        recorder.tell(segments.DIED_ON_PURPOSE)
        os.kill(os.getpid(), signal.SIGKILL)

    def client(process: int) -> Context:
        return context(
            config,
            process,
            recorder=recorder,
            resource=connect(address),
            phase=phase.get,
            die=die,
            stamps=stamps,
            stall_process=stall_process,
        )

    again = bool(config.get("again"))
    opening = [opened(partial(client, n), phase.get, again=again) for n in config["processes"]]
    contexts = [ctx for ctx in await asyncio.gather(*opening) if ctx is not None]
    if len(contexts) > 1 and any(ctx.thread is not None for ctx in contexts):
        _keep_to_one_core(config["processes"][0])
    if config.get("orders"):
        OrderReceiver(Path(config["orders"]), contexts)
    recorder.tell(segments.READY)
    over = config["over_ns"]
    await until(lambda: phase.get() != PREPARE, within_ns=over, every_ns=LOOK_NS)
    workload: Callable[[Context], Awaitable[None]] = load(config["workload"])
    if phase.get() != END:
        await all_within([workload(ctx) for ctx in contexts], over / SECOND)
    recorder.tell(segments.IDLE)
    await until(lambda: phase.get() == END, within_ns=over, every_ns=LOOK_NS)
    await asyncio.gather(*(ctx.close() for ctx in contexts))
    recorder.tell(segments.DONE)


def stall(stopped: starvation.Stopped, span_ns: int) -> None:
    """Stop all Python threads of this process: the call keeps the interpreter's lock."""
    library = load(HOLDING_THE_LOCK)(None)
    until_ns = now_ns() + span_ns
    stopped.append((now_ns(), until_ns))
    while (left_ns := until_ns - now_ns()) > 0:
        # A signal may end the call early.
        library.usleep(1 + left_ns // 1000)


async def all_within(works: Sequence[Awaitable[None]], within_s: float) -> None:
    """Wait until each is done. Raises the first error, or TimeoutError; then none still runs."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, late = await asyncio.wait(
            tasks, timeout=within_s, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in done:
            task.result()
        if late:
            raise TimeoutError(f"{len(late)} of {len(tasks)} clients still ran after {within_s} s")
    finally:
        await cancel_until_done(*tasks)


async def opened(
    make: Callable[[], Context],
    phase: Callable[[], int],
    *,
    again: bool,
    say: Callable[[str], object] = _say,
) -> Context | None:
    """A connected client. An error of opening ends the worker: nothing can be tested.

    A client that is restarted (`again`) may start while a fault makes its servers unreachable: a
    new one is made and opened until that succeeds, or no new work may begin any more (None).
    """
    while True:
        ctx = make()
        try:
            await ctx.open()
        except OURS:
            raise
        except Exception as error:
            if not again:
                raise
            say(f"cannot connect yet: {type(error).__name__}: {error}")
            await ctx.close()
        else:
            return ctx
        if phase() >= STOP:
            return None
        await asyncio.sleep(AGAIN_S)


def _keep_to_one_core(number: int) -> None:
    """Pin a worker with threads to one core: only one thread runs at a time, and moving the
    interpreter lock to another core costs more than the work."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-number % len(cores)]})


def context(
    config: Config,
    process: int,
    *,
    recorder: Rows,
    resource: Resource,
    phase: Callable[[], int],
    die: Callable[[], None],
    now: Callable[[], int] = now_ns,
    clock: Callable[[], int] | None = None,
    stamps: Stamps | None = None,
    stall_process: Callable[[int], None] | None = None,
) -> Context:
    """One logical client of a worker's config, with its lock client.

    clock: the virtual clock of the simulator, for a lock client that takes one.
    """
    contexts: list[Context] = []
    setup = ClientSetup(
        process=process,
        name=config["writer"],
        servers=tuple((name, address) for name, address in config["servers"]),
        lease_ns=config["lease_ns"],
        options=config["options"],
        tell=lambda *args, **kwargs: contexts[0].tell(*args, **kwargs),
        seed=config["seed"],
        clock=clock,
        folder=config.get("folder", ""),
        clients=tuple((name, address) for name, address in config.get("clients", ())),
    )
    lock_client = load(config["client"])(setup)
    if isinstance(lock_client, WritesItself):
        resource = lock_client.writer(resource, config["resource"]["address"])
    parts = Dependencies(
        lock_client=lock_client,
        resource=resource,
        recorder=recorder,
        process=process,
        lease_ns=config["lease_ns"],
        rng=stream(config["seed"], "client", process),
        options=config["workload_options"],
        phase=phase,
        die=die,
        now=now,
        stamps=stamps,
        stall=stall_process,
    )
    contexts.append(Context(parts, tuple(config["locks"])))
    return contexts[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv))
