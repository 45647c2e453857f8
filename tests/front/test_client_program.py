"""A client program under test from the command line: faults reach it, and its faults are named."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tests import needs
from tests.front.said import Said, holdfast

Capture = pytest.CaptureFixture[str]
HONEST = """import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    print(json.dumps({"id": ask["id"], "outcome": "ok"}), flush=True)
"""
"""Grants whatever is asked for: no lock at all."""


def run(capsys: Capture, folder: Path, text: str, *more: str) -> Said:
    (folder / "client.py").write_text(text)
    words = ("run", "--system", "program", "--client", "{python} client.py {node}", *more)
    return holdfast(capsys, *words, "--clients", "2", "--time", "2s", "--seed", "7")


def left(folder: Path) -> list[str]:
    """Processes that still run a program of the folder."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_text()
        except OSError:
            continue
        found += [words] if f"{folder}/.holdfast" in words and "client.py" in words else []
    return found


def test_a_program_that_grants_everything_is_found_and_a_pause_reaches_it(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    monkeypatch.chdir(tmp_path)
    beat = HONEST.replace(
        "for line in",
        "import threading, time\n"
        "def beat():\n"
        "    while True:\n"
        "        sys.stderr.write(f'beat {time.monotonic_ns()}\\n')\n"
        "        sys.stderr.flush()\n"
        "        time.sleep(0.02)\n"
        "threading.Thread(target=beat, daemon=True).start()\n"
        "for line in",
    )
    fault = "pause:target=c1,every=1s,for=700ms"
    said = run(capsys, tmp_path, beat, "--nemesis", fault, "-v")
    assert said.code == 1, said.out + said.err
    assert "double-grant" in said.out or "broken-lease" in said.out, said.out
    log = tmp_path / ".holdfast/runs/latest/logs/c1/worker.log"
    beats = [int(line.split()[1]) for line in log.read_text().splitlines() if "beat" in line]
    # The program itself stood still, not only the worker that feeds it.
    longest = max(after - before for before, after in itertools.pairwise(beats))
    assert longest > 600_000_000
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("print('ready')\n" + HONEST, "not JSON (print nothing else; logs go to stderr): ready"),
        (
            "import sys\nsys.stdin.readline()\nsys.exit('boom, no server')\n",
            "exited unexpectedly with code 1; its last lines on stderr: boom, no server",
        ),
        (
            "import sys\nsys.stdin.readline()\n"
            "sys.exit('  throw err;\\n\\nError: no such module\\n {\\n}\\n\\nNode.js v20.19.2')\n",
            "exited unexpectedly with code 1; its first error on stderr: Error: no such module (",
        ),
    ],
)
def test_a_program_that_prints_garbage_or_dies_is_named_once(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, part: str
) -> None:
    needs.namespaces()
    monkeypatch.chdir(tmp_path)
    said = run(capsys, tmp_path, text)
    assert said.code == 4, said.out + said.err
    assert part in said.err and "the client program" in said.err
    assert (tmp_path / ".holdfast/runs/latest/logs/c1/worker.log").exists()
    assert left(tmp_path) == []


def test_a_missing_program_or_option_is_told_before_anything_starts(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = holdfast(capsys, "run", "--system", "program", "--time", "1s")
    assert said.code == 2 and "missing command of the client" in said.err
    said = holdfast(capsys, "run", "--system", "program", "--client", "./gone", "--time", "1s")
    assert said.code == 2 and "no such file: gone" in said.err
