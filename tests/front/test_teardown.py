"""Whoever asks for an end while a run is torn down, or kills a part of it, leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.backends import memory_groups, processes
from holdfast.clusters.backends.docker import engine
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from tests import needs
from tests.front import aborted

pytestmark = pytest.mark.slow

GONE_WITHIN_S = 10.0
END_WITHIN_S = 60.0


def containers_of(run_dir: Path) -> list[str]:
    """Containers and networks of a run, as the engine tells."""
    if engine.precheck() is not None:
        return []
    found = engine.labelled(engine.ContainerEngine(), {engine.NODES_LABEL: run_dir.name})
    return [str(thing["Id"]) for things in found for thing in things]


def left_of(run_dir: Path) -> list[Any]:
    return [*aborted.processes_of(run_dir), *containers_of(run_dir)]


def agent_of(run_dir: Path) -> int:
    """The pid of the fault agent of a run."""
    for pid in aborted.processes_of(run_dir):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"holdfast.nemesis.agent" in words and b"python" in words[0]:
            return pid
    raise AssertionError("the run has no fault agent")


def started(folder: Path, backend: str, seed: int, faults: str = aborted.FAULTS) -> aborted.Started:
    needs.engine() if backend == "docker" else needs.namespaces()
    return aborted.start(folder, backend, seed, faults=faults)


def all_gone(run: aborted.Started) -> None:
    aborted.wait_for(
        lambda: not left_of(run.run_dir), GONE_WITHIN_S, f"left: {left_of(run.run_dir)}"
    )


def said(folder: Path) -> str:
    return (folder / "said").read_text()


SWEEPS = [pytest.param(n, marks=pytest.mark.power if n else ()) for n in range(20)]
BACKENDS = ["local", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_signals_that_come_again_and_again_break_no_teardown(
    tmp_path: Path, backend: str, number: signal.Signals
) -> None:
    """One asks for the end, and then all that can be signalled is, until the driver is gone."""
    run = started(tmp_path, backend, 11)
    try:
        run.process.send_signal(number)

        def again() -> bool:
            run.process.send_signal(number)
            try:
                os.kill(run.driver, number)
            except ProcessLookupError:
                return True
            return run.process.poll() is not None

        aborted.wait_for(again, END_WITHIN_S, "the driver does not leave")
        assert run.process.wait(END_WITHIN_S) == 130
        all_gone(run)
        assert f"holdfast check {run.run_dir}" in said(tmp_path)
    finally:
        run.process.kill()
        run.process.wait()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_command_that_dies_in_the_teardown_leaves_it_to_the_driver(
    tmp_path: Path, backend: str
) -> None:
    run = started(tmp_path, backend, 12)
    run.process.send_signal(signal.SIGINT)
    run.process.kill()
    run.process.wait()
    aborted.wait_for(lambda: not left_of(run.run_dir), END_WITHIN_S, "something is left")


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_the_driver_was_killed_the_command_cleans_its_own_run(
    tmp_path: Path, backend: str
) -> None:
    run = started(tmp_path, backend, 13)
    os.kill(run.driver, signal.SIGKILL)
    assert run.process.wait(END_WITHIN_S) in (1, 4)
    all_gone(run)
    assert aborted.leftovers(run) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dead_fault_agent_ends_the_run_at_once_and_nothing_stays_stopped(
    tmp_path: Path, backend: str
) -> None:
    """In the middle of a pause: it is healed by a second agent, and the reason is on record."""
    run = started(tmp_path, backend, 14, "pause:target=client,every=3s,for=2s")
    paused = aborted.wait_for(
        lambda: aborted.stopped(aborted.processes_of(run.run_dir)), END_WITHIN_S, "no pause"
    )
    os.kill(agent_of(run.run_dir), signal.SIGKILL)
    assert run.process.wait(END_WITHIN_S) == 4
    assert paused
    assert "fault agent: it exited with code -9" in said(tmp_path)
    all_gone(run)
    marks = {row.mark: row for row in journal.marks(RunDir(run.run_dir))}
    assert "stop" not in marks
    assert "fault agent" in str(marks["failed"].reason)
    judged = json.loads((run.run_dir / "verdicts.json").read_text())
    assert any("fault agent" in problem for problem in judged["problems"])


@pytest.mark.power
@pytest.mark.parametrize("seed", range(200, 220))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["^C", "driver", "agent", "command"])
def test_twenty_ends_at_random_moments(tmp_path: Path, backend: str, seed: int, what: str) -> None:
    run = started(tmp_path, backend, seed)
    aborted.end_at_random(run, seed, what, lambda: agent_of(run.run_dir))
    all_gone(run)


def test_an_interrupt_at_the_start_is_an_interrupt(tmp_path: Path) -> None:
    """Before the driver can hear of it, it ends the driver; that is no failed environment."""
    needs.namespaces()
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "run", "--backend", "local", "--time", "30s"],
        cwd=tmp_path,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        # As at a terminal: whoever runs the tests in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("seed")
    aborted.wait_for(lambda: driver_of(process.pid), END_WITHIN_S, "no driver")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=END_WITHIN_S)
    assert process.returncode == 130, told


def driver_of(pid: int) -> list[bytes]:
    """The command line of a child that is, or is about to become, the driver of a run."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = []
    for child in found:
        with suppress(OSError):
            lines.append(Path(f"/proc/{child}/cmdline").read_bytes())
    return [line for line in lines if b"holdfast.harness.driver.process" in line]


@pytest.mark.parametrize("seed", SWEEPS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_next_run_removes_what_a_killed_command_and_driver_left(
    tmp_path: Path, backend: str, seed: int
) -> None:
    """And a control group of it that nothing is in, and its note; of a living run nothing."""
    (tmp_path / "living").mkdir()
    needs.engine() if backend == "docker" else needs.namespaces()
    # Longer than all that follows: it must not be at its own end by then.
    living = aborted.start(tmp_path / "living", backend, 31, ["--time", "300s"])
    run = started(tmp_path, backend, seed)
    group = group_of(run.run_dir.name, run.driver)
    notes = tmp_path / "state" / "holdfast" / "registry"
    try:
        # The state of both is the same user's.
        shutil.copy(note_of(living), notes)
        aborted.wait_for(aborted.until(seed / 10), 5, "time does not pass")
        with aborted.nothing_cleaned():
            aborted.kill(run, "both")
            run.process.wait(10)
            kept = {thing for thing in left_of(living.run_dir) if isinstance(thing, str)}
            words = ["run", "--backend", backend, "--time", "1s", "--out", "runs", "--seed", "1"]
            done = subprocess.run(
                [sys.executable, "-m", "holdfast", *words],
                cwd=tmp_path,
                env=run.env,
                capture_output=True,
                text=True,
                timeout=120,
            )
        assert done.returncode in (0, 3), done.stderr
        assert left_of(run.run_dir) == []
        assert not group.is_dir()
        assert [note.stem for note in notes.glob("*.json")] == [living.run_dir.name]
        assert f"of killed runs: {run.run_dir.name}" in done.stderr
        assert living.process.poll() is None
        assert {*left_of(living.run_dir)} >= kept
    finally:
        for one in (living, run):
            one.process.send_signal(signal.SIGINT)
            one.process.wait(60)
        if group.is_dir():
            group.rmdir()


def note_of(run: aborted.Started) -> Path:
    (path,) = Path(run.env["XDG_STATE_HOME"]).glob(f"holdfast/registry/{run.run_dir.name}.json")
    return path


def group_of(label: str, pid: int) -> Path:
    """A control group as a fault agent makes it for a limit of memory, left without a process."""
    needs.root()
    root = next((root for root in memory_groups.ROOTS if (root / "cgroup.procs").is_file()), None)
    needs.unless(None if root else "needs control groups of memory")
    assert root is not None
    path = root / f"{memory_groups.PREFIX}{label}-{pid}-1"
    path.mkdir()
    return path


PROXY = """
import asyncio, sys
async def pipe(source, sink):
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.write_eof()
    except OSError:
        pass
async def serve(reader, writer):
    there, here = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(pipe(reader, here), pipe(there, writer))
    writer.close()
async def main():
    async with await asyncio.start_unix_server(serve, sys.argv[1]) as server:
        print("ready", flush=True)
        await server.serve_forever()
asyncio.run(main())
"""
"""Stands before the engine, so that it can be killed: the engine of this host is everybody's."""


@pytest.mark.docker
@pytest.mark.parametrize("seed", SWEEPS)
def test_an_engine_that_dies_ends_the_run_at_once_and_no_node_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With it die the processes in its containers, as with the service that it is."""
    needs.engine()
    path = tmp_path / "engine.sock"
    words = [sys.executable, "-c", PROXY, str(path), engine.url().removeprefix("unix://")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None and proxy.stdout.readline() == "ready\n"
        with monkeypatch.context() as context:
            context.setenv("DOCKER_HOST", f"unix://{path}")
            run = aborted.start(tmp_path, "docker", seed, faults="pause:target=client")
        try:
            aborted.wait_for(aborted.until(seed / 10), 5, "time does not pass")
            proxy.kill()
            proxy.wait(10)
            processes.kill({*aborted.processes_of(run.run_dir)} - {agent_of(run.run_dir)})
            begun = time.monotonic()
            assert run.process.wait(END_WITHIN_S) == 4
            assert time.monotonic() - begun < 20, "without the rest of the run"
            text = " ".join(said(tmp_path).split())
            assert "container engine" in text and "holdfast doctor --clean" in text
            assert "exited unexpectedly" not in text
        finally:
            run.process.kill()
            run.process.wait()
            del run.env["DOCKER_HOST"]
            aborted.doctor(run, "--clean")
        # The engine may miscount containers that end at once, and then keeps their network until it
        # starts anew. One that really died has to; this one only seemed to have died.
        for kept in left_of(run.run_dir):
            with pytest.raises(engine.Miscounted, match="restart dockerd"):
                engine.remove_network(engine.ContainerEngine(), {"Id": kept})
