"""A run whose driver is killed midway, and what must be true afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.clusters.backends import frozen_disks, processes
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.history import reader

START_WITHIN_S = 60.0
HEAL_WITHIN_S = 5.0
FAULTS = "partition,pause:target=holder,kill,clock"


@dataclass(slots=True)
class Started:
    """A `holdfast run` in a process of its own, with its run directory and its driver's pid."""

    process: subprocess.Popen[str]
    run_dir: Path
    driver: int
    env: dict[str, str]


def wait_for(condition: Callable[[], Any], within_s: float, what: str | Callable[[], str]) -> Any:
    """The first true answer of a condition; AssertionError with `what` after the bound."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.02)


def start(
    folder: Path,
    backend: str,
    seed: int,
    more: Sequence[str] = (),
    *,
    system: str = "reference",
    faults: str = FAULTS,
) -> Started:
    """Start a run in `folder` and wait until its workload goes."""
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"}
    words = ["run", "--system", system, "--backend", backend, "--nemesis", faults, "--time", "30s"]
    words += more
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words, "--seed", str(seed), "--out", "runs"],
            cwd=folder,
            env=env,
            stdout=said,
            stderr=said,
            text=True,
        )
    registry = folder / "state" / "holdfast" / "registry"

    def noted() -> Path | None:
        return next(iter(registry.glob("[!.]*.json")), None)

    note = json.loads(wait_for(noted, START_WITHIN_S, "no run was noted").read_text())
    run_dir = Path(note["run_dir"])
    times = run_dir / "times.jsonl"
    wait_for(
        lambda: times.exists() and '"start"' in times.read_text(),
        START_WITHIN_S,
        f"the workload did not start: {(folder / 'said').read_text()}",
    )
    return Started(process=process, run_dir=run_dir, driver=int(note["pid"]), env=env)


def until(seconds: float) -> Callable[[], bool]:
    """A condition that becomes true when so much time has passed."""
    deadline = now_ns() + int(seconds * SECOND)
    return lambda: now_ns() >= deadline


def end_at_random(started: Started, seed: int, what: str, agent: Callable[[], int]) -> None:
    """End a run at a random moment; "^C": once, and again at a random moment of the teardown.

    `what`: "^C", or "driver", "agent" or "command", which is killed with SIGKILL.
    """
    moments = stream(seed, "moments of the end")
    wait_for(until(moments.uniform(0.0, 3.0)), 8, "time does not pass")
    if what == "^C":
        started.process.send_signal(signal.SIGINT)
        wait_for(until(moments.uniform(0.0, 1.5)), 8, "time does not pass")
        started.process.send_signal(signal.SIGINT)
    elif what == "command":
        started.process.kill()
    else:
        os.kill(started.driver if what == "driver" else agent(), signal.SIGKILL)
    started.process.wait(60)


def kill(started: Started, who: str) -> None:
    """SIGKILL the driver, the command in front of it, or both."""
    if who in ("front", "both"):
        started.process.send_signal(signal.SIGKILL)
    if who in ("driver", "both"):
        os.kill(started.driver, signal.SIGKILL)


def processes_of(run_dir: Path) -> list[int]:
    """Processes that say in their environment that they belong to the run."""
    mark = f"HOLDFAST_RUN={run_dir.name}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def left_of(run_dir: Path) -> str:
    """A line for each process of the run: its pid, state, parent, where it waits, its command."""
    lines = []
    for pid in processes_of(run_dir):
        state, parent = "?", "?"
        with suppress(OSError):
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        waits, command = processes.sleeps_in(pid), processes.shown_line(pid)
        lines.append(f"{pid} {state} of {parent} {waits} {command[-120:]}")
    return "\n".join(lines) or "no process"


def disks_of(run_dir: Path) -> list[str]:
    """The loop devices with disks of the run: every run has an n1, so they are told by its name."""
    return [one.path for one in frozen_disks.devices() if one.label == run_dir.name]


def stopped(pids: list[int]) -> list[int]:
    """Those of these processes that SIGSTOP still holds."""
    found = []
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[0] == "T":
            found.append(pid)
    return found


@contextmanager
def nothing_cleaned() -> Iterator[None]:
    """Meanwhile no other test calls `holdfast doctor --clean`, which removes what any run left."""
    lock = Path(tempfile.gettempdir(), f"holdfast-tests-{os.getuid()}.cleaning")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def doctor(started: Started, *words: str) -> dict[str, Any]:
    """What `holdfast doctor` says, as an object."""
    with nothing_cleaned() if "--clean" in words else nullcontext():
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "doctor", "--json", *words],
            env=started.env,
            capture_output=True,
            text=True,
            timeout=120,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def leftovers(started: Started) -> list[str]:
    """What `holdfast doctor` finds of this run; another one beside it may just be cleaned up."""
    return [one for one in doctor(started)["leftovers"] if started.run_dir.name in one]


def nothing_acknowledged_is_missing(run_dir: Path) -> int:
    """Each side's record of a write is on the other side's too; the number of writes.

    The resource answered only what it had recorded, and decided only what a client had recorded as
    sent, so a missing row on either side would be a lost acknowledged event.
    """
    rows = reader.load(run_dir / "history").history.rows
    sent = rows[rows["f"] == Op.WRITE]
    served = rows[rows["f"] == Op.SERVED_WRITE]
    names = sent["process"].astype(np.int64) << 32 | sent["row"]
    answered = np.isin(sent["status"], (Status.OK, Status.FAIL)) & (sent["res"] >= 0)
    assert np.isin(names[answered], served["op"]).all()
    assert np.isin(served["op"], names).all()
    return len(served)
