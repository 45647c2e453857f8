"""Drives cluster_driver.py as a process of its own, so that a test may kill it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.clusters.backends import processes
from holdfast.harness.runs import registry

HERE = Path(__file__).parent
ANSWER_S = 30


class Cluster:
    """An open cluster, and the process that drives it; as a context it closes in the end."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        label: str,
        count: int = 3,
        before: Sequence[str] = (),
        python: Sequence[str] = (sys.executable,),
        environ: Mapping[str, str] | None = None,
        programs: Path = HERE,
    ) -> None:
        self.folder = folder
        self._talk = str(programs / "talk.py")
        program = [*before, *python, str(programs / "cluster_driver.py")]
        self._process = subprocess.Popen(
            [*program, kind, str(folder), label, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                **(environ or {}),
            },
            cwd=folder,
        )
        self.opened = self._answer()

    def start(self, node: str, *words: str) -> dict[str, Any]:
        """What the driver answers to a start of talk.py on a node."""
        return self.execute(node, self.opened["pythons"][node], self._talk, *words)

    def execute(self, node: str, *argv: str) -> dict[str, Any]:
        """What the driver answers to a start of any command on a node."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(["start", node, *argv, "\n"]).encode())
        self._process.stdin.flush()
        return self._answer()

    def log(self, node: str) -> str:
        """What the processes of a node said up to now."""
        return processes.last_output(self.folder / "logs" / node / "process.log", lines=100)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._process.poll() is None:
            self.close()

    def close(self) -> None:
        """Has the driver close its cluster, and waits for its end."""
        self._process.communicate(timeout=ANSWER_S)
        assert self._process.returncode == 0

    def kill(self) -> None:
        """Ends the driver like a crash."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(ANSWER_S)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        assert readable, "the driver does not answer"
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def eventually(condition: Callable[[], object], *, within_s: float = 10) -> None:
    """Returns once the condition holds; fails the test if it does not within the bound."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {within_s} s"
        time.sleep(0.005)


def gone(pid: int) -> bool:
    """Whether no process of this pid runs any more; a zombie does not."""
    return registry.started(pid) < 0


def family(pid: int) -> list[int]:
    """A process and its descendants, as they are now."""
    found = [pid]
    for known in found:
        children = Path(f"/proc/{known}/task/{known}/children").read_text()
        found += [int(child) for child in children.split()]
    return found


def status(pid: int) -> dict[str, str]:
    """/proc/PID/status by field."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
