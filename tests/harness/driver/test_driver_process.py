"""The driver as a process: exit codes, signals, the end of its input, what it leaves on disk."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.driver import process
from holdfast.harness.driver.host_runtime import HostRuntime
from holdfast.harness.driver.run import END_WORKLOAD, Run
from holdfast.harness.history.live import Live
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.recording import starvation
from holdfast.harness.recording.phase import GO, PREPARE, PROBE
from holdfast.harness.recording.segments import Recorder
from holdfast.harness.runs import journal, registry
from holdfast.harness.runs.directory import RunDir, create, write_json
from holdfast.harness.runs.journal import FaultRow, Mark
from tests.manifests import manifest

WITHIN_S = 10.0


@dataclass
class Refusing:
    """A backend that deploys nothing: `opens` is called instead, and may raise."""

    opens: Callable[[], None] = lambda: None
    place: Any = None
    closed: int = 0
    hang: bool = False

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        self.opens()
        if self.hang:
            await asyncio.wait_for(asyncio.Event().wait(), WITHIN_S)
        raise AssertionError("nothing is deployed")

    async def start(self, node: str, command: Command) -> int:
        raise AssertionError("nothing is started")

    def agent_argv(self) -> Sequence[str]:
        # It answers the greeting, and exits when its input ends.
        return ["sh", "-c", 'read line; echo "{\\"id\\": 1, \\"ok\\": true}"; read line']

    def holder_pid(self, node: str) -> int:
        return 0

    def seen_from(self, node: str) -> Sequence[Node]:
        return []

    async def close(self) -> None:
        self.closed += 1


BACKEND = Refusing()


def made(place: Place) -> Refusing:
    """The backend, as a manifest names its factory."""
    BACKEND.place = place
    return BACKEND


@dataclass
class Driver:
    """The driver of a run directory, called in this process with an input of its own."""

    run: RunDir
    backend: Refusing
    input: int
    watched: list[Any]

    def main(self) -> int:
        return process.main(["process", str(self.run.path)])


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    watched: list[Any] = []
    monkeypatch.setattr(starvation, "begin", lambda *told: watched.append(told))
    backend = Refusing()
    monkeypatch.setattr(sys.modules[__name__], "BACKEND", backend)
    run = create(tmp_path / "runs", "r1")
    usual = manifest()
    entries = replace(usual.entries, backend=f"{__name__}:made", nemeses={})
    wanted = replace(usual, run="r1", label="l1", entries=entries, libraries=["/libraries"])
    write_json(run.manifest, to_table(wanted))
    read, write = os.pipe()
    with os.fdopen(read) as ours:
        monkeypatch.setattr(sys, "stdin", ours)
        yield Driver(run, backend, write, watched)
    with suppress(OSError):
        os.close(write)


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("error", "code"),
    [(EnvironmentFailed("no engine"), 4), (UsageError("no such image", "no such port"), 2)],
)
def test_an_error_is_the_exit_code_and_the_last_line_of_the_progress(
    driver: Driver, error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        assert registry.noted()[0].run_dir == str(driver.run.path), "registered while it runs"
        raise error

    driver.backend.opens = fail
    assert driver.main() == code
    said = capsys.readouterr()
    assert said.err == f"{error}\n"
    assert told(said.out) == [
        {"stage": "deploy"},
        {"stage": "failed", "error": str(error), "exit_code": code},
    ]
    assert driver.watched == [(driver.run.path, "driver")]
    assert driver.backend.closed == 1 and registry.noted() == []
    (mark,) = journal.marks(driver.run)
    assert (mark.mark, mark.reason) == ("failed", str(error))
    place = driver.backend.place
    assert (place.run_id, place.label, place.run_dir) == ("r1", "l1", driver.run.path)
    assert place.shared == (driver.run.code, Path("/libraries"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_run_and_a_second_one_does_not_stop_the_teardown(
    driver: Driver, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    async def close() -> None:
        os.kill(os.getpid(), number)
        heard = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon_threadsafe(heard.set_result, None)
        await heard  # after the signal, which came before it through the same pipe
        driver.backend.closed += 1

    driver.backend.hang = True
    driver.backend.close = close  # type: ignore[method-assign]
    driver.backend.opens = lambda: os.kill(os.getpid(), number)
    assert driver.main() == 130
    assert driver.backend.closed == 1 and registry.noted() == []
    assert told(capsys.readouterr().out) == [{"stage": "deploy"}]


def test_the_end_of_its_input_stops_the_run(driver: Driver) -> None:
    driver.backend.hang = True
    driver.backend.opens = lambda: os.close(driver.input)
    assert driver.main() == 130
    assert driver.backend.closed == 1 and registry.noted() == []


def test_a_line_on_its_input_ends_the_workload_and_not_the_run(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def end_workload(run: Run) -> None:
        ended.append("workload")
        os.close(driver.input)

    monkeypatch.setattr(Run, "end_workload", end_workload)
    driver.backend.hang = True
    lines = f"something else\n{END_WORKLOAD}\n".encode()
    driver.backend.opens = lambda: ended.append(str(os.write(driver.input, lines)))
    assert driver.main() == 130
    assert ended == [str(len(lines)), "workload"]


def test_a_reader_that_left_does_not_hide_why_the_run_failed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    def fail() -> None:
        raise EnvironmentFailed("no engine")

    driver.backend.opens = fail
    monkeypatch.setattr(sys, "stdout", Closed())
    assert driver.main() == 4
    assert capsys.readouterr().err == "no engine\n"


@dataclass
class Away:
    """A backend whose nodes are on other hosts: their clocks are ahead, and they hear phases."""

    phases: list[int] = field(default_factory=list)

    def place_of(self, node: str) -> Place:
        raise AssertionError

    async def put(self, node: str, name: str, text: str) -> None: ...

    def alive(self, node: str) -> bool:
        return False

    def tell_phase(self, phase: int) -> None:
        self.phases.append(phase)

    def shift_ns(self, node: str) -> int:
        return -(10**15)


@pytest.mark.parametrize("away", [False, True])
def test_the_records_of_a_run_on_hosts_are_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = create(tmp_path, "r1")
    place = Place(run_id="r1", run_dir=run.path, shared=(), label="l1")
    backend: Any = Away() if away else Refusing()
    records = HostRuntime(place, backend)
    assert (registry.noted()[0].run_id, registry.noted()[0].label) == ("r1", "l1")
    assert records.environ == registry.environ("l1")
    assert run.phase.read_bytes() == bytes([PREPARE])
    records.set_phase(GO)
    records.set_phase(PROBE)
    assert run.phase.read_bytes() == bytes([PROBE])
    assert not away or backend.phases == [GO, PROBE]
    records.append(Mark(mark="start", t_ns=5))
    records.append(FaultRow(id="f1", event="planned", do="kill", target="c1", at_ns=3))
    records.append(Mark(mark="end", t_ns=9, problems=["late"]))
    assert [row.mark for row in journal.marks(run)] == ["start", "end"]
    assert [(row.id, row.at_ns, row.t_ns) for row in journal.faults(run)] == [("f1", 3, None)]
    with Recorder(run.history, "c1", {"node": "c1", "processes": [1]}) as recorder:
        recorder.complete(recorder.invoke(Op.TRY, 1, 0, attempt=1), Status.OK)
        (hold,) = records.live.holds()
    assert isinstance(records.live, Live) and records.problems() == ()
    assert (hold.since_ns < 0) is away and records.now() <= now_ns()
    records.close()
    assert registry.noted() == []
    with pytest.raises(ValueError, match="closed"):
        records.set_phase(GO)
