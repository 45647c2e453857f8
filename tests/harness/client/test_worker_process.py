"""A client process from its configuration to its exit: what it loads, records, and ends with."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import signal
import socket
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client import worker
from holdfast.harness.client.context import Context
from holdfast.harness.client.resource_replies import Reply
from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.core.seeds import stream
from holdfast.harness.history import reader
from holdfast.harness.recording import segments, starvation
from holdfast.harness.recording.clock_sync import KernelStamps, kernel_stamps
from holdfast.harness.recording.phase import END, GO, PREPARE, STOP, Phase
from tests.harness.test_client import GRANTED, BlockingLock, Lock, Register, granted

PLENTY_NS = 20 * SECOND


@dataclass
class World:
    """What the worker's configuration names: `act` is its workload."""

    folder: Path
    act: Callable[[Context], Any] = lambda ctx: None
    blocking: bool = False
    refused: list[Exception] = field(default_factory=list)
    setups: list[ClientSetup] = field(default_factory=list)
    worked: list[Context] = field(default_factory=list)
    closed: int = 0
    addresses: list[str] = field(default_factory=list)
    over_ns: int = PLENTY_NS
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "history").mkdir()
        self.phase = Phase.create(self.folder / "phase")
        self.phase.set(GO)

    def config(self, *processes: int) -> Path:
        told = {
            "writer": "c2",
            "node": "c2n",
            "role": "client",
            "history": str(self.folder / "history"),
            "phase": str(self.folder / "phase"),
            "over_ns": self.over_ns,
            "processes": list(processes),
            "servers": [["n1", "10.0.0.1"], ["n2", "10.0.0.2"]],
            "client": f"{__name__}:lock_client",
            "workload": f"{__name__}:workload",
            "resource": {"connect": f"{__name__}:connect", "address": "10.0.0.3"},
            "options": {"flavour": "plain"},
            "workload_options": {"depth": "3"},
            "lease_ns": SECOND,
            "seed": 5,
            "folder": str(self.folder),
            "locks": ["a", "b"],
            **self.more,
        }
        path = self.folder / "c2.json"
        path.write_text(json.dumps(told))
        return path

    def main(self, *processes: int) -> int:
        return worker.main(["worker", str(self.config(*processes))])

    def state(self) -> int:
        """The state that the worker told last."""
        return reader.read_header(self.folder / "history" / "c2.seg").state


WORLDS: list[World] = []
"""The one of the present test."""
WATCHED: list[tuple[Path, str]] = []
STOPPED: starvation.Stopped = []


class Known(Lock):
    """A lock client of the world."""

    async def open(self) -> None:
        if WORLDS[0].refused:
            raise WORLDS[0].refused.pop(0)

    async def close(self) -> None:
        WORLDS[0].closed += 1


def lock_client(setup: ClientSetup) -> Any:
    WORLDS[0].setups.append(setup)
    return BlockingLock(lambda: GRANTED) if WORLDS[0].blocking else Known(granted)


def connect(address: str) -> Register:
    WORLDS[0].addresses.append(address)
    return Register(Reply(outcome=Status.OK, version=1))


async def workload(ctx: Context) -> None:
    WORLDS[0].worked.append(ctx)
    made = WORLDS[0].act(ctx)
    if made is not None:
        await made


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world in which what a worker changes in its process is undone."""
    monkeypatch.setattr(socket, "socket", socket.socket)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def begin(run_dir: Path, node: str) -> starvation.Stopped:
        WATCHED.append((run_dir, node))
        return STOPPED

    STOPPED.clear()
    monkeypatch.setattr(starvation, "begin", begin)
    monkeypatch.setattr(worker, "AGAIN_S", 0)
    kept: list[KernelStamps] = []

    def stamps(recorder: segments.Recorder, *, alone: bool) -> KernelStamps | None:
        found = kernel_stamps(recorder, alone=alone)
        kept.extend([found] if found else [])
        return found

    monkeypatch.setattr(worker, "kernel_stamps", stamps)
    made = World(tmp_path)
    WORLDS[:], WATCHED[:] = [made], []
    yield made
    gc.enable()
    gc.unfreeze()
    for one in kept:
        if not one._steady._over.is_set():
            one.close()  # a worker that raised leaves that to its exit
    made.phase.close()


def test_a_worker_runs_its_workload_once_per_client_and_closes_what_it_recorded(
    world: World,
) -> None:
    states: list[int] = []

    async def act(ctx: Context) -> None:
        states.append(world.state())
        grant = await ctx.try_acquire("a")
        assert grant is not None and await ctx.read(grant) == 1
        world.phase.set(END)

    world.act, world.more = act, {"site": ["/of/the/user"]}
    assert world.main(7, 9) == 0
    assert [ctx.process for ctx in world.worked] == [7, 9]
    assert states == [segments.READY] * 2 and world.state() == segments.DONE
    assert world.closed == 2 and world.addresses == ["10.0.0.3"] * 2
    assert sys.path[-1] == "/of/the/user" and not gc.isenabled() and gc.get_freeze_count() > 0
    assert [(world.folder, "c2n")] == WATCHED
    found = reader.load(world.folder / "history")
    assert found.nodes == {7: "c2n", 9: "c2n"} and found.history.problems == ()
    assert sorted((row["process"], row["f"]) for row in found.history.rows) == [
        (7, Op.TRY), (7, Op.READ), (9, Op.TRY), (9, Op.READ),
    ]  # fmt: skip
    header = reader.read_header(world.folder / "history" / "c2.seg")
    wanted = {"writer": "c2", "node": "c2n", "processes": [7, 9], "role": "client"}
    assert header.meta == {**wanted, "pid": os.getpid()} and header.rows == 4


def test_a_client_is_made_of_the_configuration(world: World) -> None:
    drawn: list[float] = []

    def act(ctx: Context) -> None:
        assert (ctx.locks, ctx.lease_ns, ctx.options) == (("a", "b"), SECOND, {"depth": "3"})
        assert ctx.running
        drawn.append(ctx.rng.random())
        (setup,) = world.setups
        setup.tell(Op.LOST, attempt=4, lock="b", text="expired")
        assert ctx.claims.is_lost(4)
        world.phase.set(END)

    world.act = act
    assert world.main(3) == 0
    (setup,) = world.setups
    assert (setup.process, setup.name, setup.seed, setup.lease_ns) == (3, "c2", 5, SECOND)
    assert setup.servers == (("n1", "10.0.0.1"), ("n2", "10.0.0.2"))
    assert (setup.options, setup.folder) == ({"flavour": "plain"}, str(world.folder))
    assert setup.clock is None and drawn == [stream(5, "client", 3).random()]
    (row,) = reader.load(world.folder / "history").history.rows
    assert (row["f"], row["attempt"], row["process"]) == (Op.LOST, 4, 3)


def test_the_calls_of_a_worker_are_timestamped_by_the_kernel(world: World) -> None:
    plain = socket.socket

    def act(ctx: Context) -> None:
        assert socket.socket is not plain
        world.phase.set(END)

    world.act = act
    world.main(3)
    header = reader.read_header(world.folder / "history" / "c2.seg")
    assert header.stamps_ns > 0, "validated up to the end"


def test_a_run_that_ended_before_it_began_has_no_workload(world: World) -> None:
    world.phase.set(END)
    assert world.main(3) == 0
    assert world.worked == [] and world.closed == 1 and world.state() == segments.DONE


@pytest.mark.parametrize("phase", [PREPARE, GO])
def test_a_worker_whose_driver_is_gone_exits_when_its_time_is_over(
    world: World, phase: int
) -> None:
    world.phase.set(phase)
    world.over_ns = MILLISECOND
    assert world.main(3) == 0
    assert len(world.worked) == 1 and world.state() == segments.DONE


def test_a_workload_that_does_not_end_in_time_ends_the_worker_before_it_is_idle(
    world: World,
) -> None:
    world.over_ns = 10 * MILLISECOND
    world.act = lambda ctx: asyncio.sleep(PLENTY_NS / SECOND)
    with pytest.raises(TimeoutError):
        world.main(3)
    assert world.state() == segments.READY


def test_a_workload_that_loses_its_cancellation_does_not_keep_the_worker(world: World) -> None:
    async def deaf(ctx: Context) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PLENTY_NS / SECOND)
        await asyncio.sleep(PLENTY_NS / SECOND)

    world.over_ns = 10 * MILLISECOND
    world.act = deaf
    with pytest.raises(TimeoutError, match="2 of 2 clients still ran after"):
        world.main(3, 4)


def test_a_full_disk_is_told_in_one_line(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert world.main(3) == 1
    said = capsys.readouterr().err
    assert said.endswith("recording failed: [Errno 28] No space left on device\n")
    assert said.count("\n") == 1
    assert world.worked == []


def test_a_worker_that_cannot_connect_is_never_ready(world: World) -> None:
    world.refused = [ConnectionRefusedError("nobody listens")]
    with pytest.raises(ConnectionRefusedError):
        world.main(3)
    assert world.state() == segments.OPENED and world.worked == []


def test_a_worker_that_is_started_again_connects_when_it_can(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.refused = [ConnectionRefusedError("nobody listens"), TimeoutError()]
    world.more = {"again": True}
    world.act = lambda ctx: world.phase.set(END)
    assert world.main(1003) == 0
    assert len(world.worked) == 1 and len(world.setups) == 3
    assert capsys.readouterr().err.splitlines() == [
        "cannot connect yet: ConnectionRefusedError: nobody listens",
        "cannot connect yet: TimeoutError: ",
    ]


def test_a_client_that_cannot_connect_before_the_end_leaves_the_others_their_work(
    world: World,
) -> None:
    world.refused = [ConnectionRefusedError("nobody listens")]
    world.more = {"again": True}
    world.phase.set(STOP)
    world.act = lambda ctx: world.phase.set(END)
    assert world.main(1003, 1004) == 0
    assert [ctx.process for ctx in world.worked] == [1004]


def test_an_owner_dies_with_all_that_it_recorded(world: World) -> None:
    async def act(ctx: Context) -> None:
        assert await ctx.try_acquire("a") is not None
        ctx.die()

    world.act = act
    child = os.fork()
    if child == 0:
        try:
            world.main(3)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert world.state() == segments.DIED_ON_PURPOSE
    rows = reader.load(world.folder / "history").history.rows
    assert [(row["f"], row["status"]) for row in rows] == [
        (Op.TRY, Status.OK), (Op.CLOSED, Status.OK),
    ]  # fmt: skip


def test_while_a_client_stalls_no_thread_of_its_process_runs(world: World) -> None:
    ran: list[int] = []
    gaps: list[tuple[int, int]] = []

    def runs() -> None:
        while len(gaps) < 2:
            ran.append(now_ns())
            time.sleep(0.001)

    async def act(ctx: Context) -> None:
        thread = threading.Thread(target=runs)
        thread.start()
        for lets in (ctx.sleep, ctx.stall):
            begun_ns = now_ns()
            await lets(200 * MILLISECOND)
            gaps.append((begun_ns, now_ns()))
        thread.join()
        world.phase.set(END)

    world.act = act
    assert world.main(1) == 0
    (begun, over), _ = gaps
    assert any(begun < t < over for t in ran)
    ((stopped, until),) = STOPPED
    assert until - stopped >= 199 * MILLISECOND
    # It may still run while the call is being made.
    assert not any(stopped + 50 * MILLISECOND < t < until for t in ran)


@pytest.mark.parametrize(("given", "listens"), [("c2.order", True), ("", False)])
def test_a_worker_listens_for_orders_if_the_plan_has_such_faults(
    world: World, given: str, listens: bool
) -> None:
    path = world.folder / "c2.order"

    def act(ctx: Context) -> None:
        assert (path.exists() and stat.S_ISFIFO(path.stat().st_mode)) is listens
        world.phase.set(END)

    world.act, world.more = act, {"orders": str(world.folder / given) if given else ""}
    assert world.main(3) == 0


@pytest.mark.parametrize(
    ("blocking", "processes", "pinned"),
    [
        (True, [1, 2], [{3}]),
        (True, [2, 4], [{2}]),
        (True, [4, 5], [{0}]),
        (True, [5, 6], [{3}]),
        (True, [1], []),
        (False, [1, 2], []),
    ],
)
def test_a_worker_of_several_threads_stays_on_one_core(
    world: World,
    blocking: bool,
    processes: Sequence[int],
    pinned: list[set[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 1, 0, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: found.append((pid, cores)))
    world.blocking = blocking
    world.act = lambda ctx: world.phase.set(END)
    assert world.main(*processes) == 0
    assert found == [(0, cores) for cores in pinned]
