"""Campaigns as a test drives them: started as a process of their own, killed, looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WITHIN_S = 1200


def argv(*words: object) -> list[str]:
    return [sys.executable, "-m", "holdfast", *map(str, words)]


def carry_out(folder: Path, *words: object) -> tuple[int, dict[str, Any]]:
    """A whole campaign: its exit code and its summary."""
    done = subprocess.run(
        argv("campaign", *words, "--json"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def lines(journal: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1]]


def wait_for(condition: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    over = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < over, "it did not come about"
        time.sleep(0.02)


def kill_after(folder: Path, journal: Path, enough: int, *words: object) -> int:
    """Start a campaign and SIGKILL it when its journal has so many lines; how many it had."""
    said = folder / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            argv("campaign", *words), cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: len(lines(journal)) >= enough or process.poll() is not None)
        assert process.poll() is None, f"over before it could be killed: {said.read_text()[-2000:]}"
        children = children_of(process.pid)
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not any(alive(child) for child in children))
    return len(lines(journal))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@contextmanager
def dask(folder: Path, workers: int) -> Iterator[str]:
    """The address of a scheduler on loopback with so many workers, as processes."""
    place = folder / "scheduler.json"
    started = [_dask("scheduler", folder, "--port", 0, "--scheduler-file", place)]
    try:
        wait_for(place.exists)
        address = json.loads(place.read_text())["address"]
        for n in range(workers):
            words = (address, "--nthreads", 1, "--no-nanny", "--local-directory", folder / f"w{n}")
            started.append(_dask("worker", folder, *words))
        yield address
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _dask(role: str, folder: Path, *words: object) -> subprocess.Popen[bytes]:
    with (folder / "dask.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + f"dask_{role}", "--host", "127.0.0.1",
             "--no-dashboard", *map(str, words)],
            stdout=log,
            stderr=log,
            env={**os.environ, "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False"},
        )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
