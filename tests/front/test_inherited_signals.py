"""Started by nohup, by `&` in a script or by a runner of CI: nothing that Holdfast starts inherits
which signals those ignore or block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.front import aborted
from tests.front.campaigns import children_of, lines

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
CARELESS = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
os.execvp(sys.argv[1], sys.argv[1:])
"""
# These must outlive what may end all others, and set it themselves.
OUTLIVE = ("lift_at_exit", "thaw_at_exit")


def carelessly(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """`holdfast` with these words, started by a process that ignores and blocks what ends others,
    in a session of its own."""
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-c", CARELESS, sys.executable, "-m", "holdfast", *words],
            cwd=folder, stdout=said, stderr=said, start_new_session=True,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"},
        )  # fmt: skip


def words_of(pid: int) -> str:
    """The command line of a process, "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def below(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have. One that has the words
    of its parent is before its exec, where it blocks signals for a moment."""
    try:
        children = children_of(pid)
    except OSError:
        return []
    started = [child for child in children if words_of(child) not in ("", words_of(pid))]
    return [found for child in started for found in (child, *below(child))]


def wrong_signals(pid: int) -> list[str] | None:
    """What a process ignores or blocks of the signals now; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    wrong = []
    for field, numbers in (("SigIgn", ENDING), ("SigBlk", (*ENDING, signal.SIGTERM))):
        mask = int(re.findall(rf"{field}:\s*([0-9a-f]+)", status)[0], 16)
        wrong += [f"{field} {number.name}" for number in numbers if mask >> (number - 1) & 1]
    return wrong


def inherited(pid: int, looks: int = 50) -> tuple[str, list[str]] | None:
    """Words of a process, and what it ignores or blocks of the signals; None if it has ended.

    Only what lasts: one that starts another blocks all of them until that one's exec.
    """
    wrong = wrong_signals(pid)
    while wrong and looks:
        time.sleep(0.01)
        wrong, looks = wrong_signals(pid), looks - 1
    return None if wrong is None else (words_of(pid), wrong)


def seen_below(process: subprocess.Popen[bytes]) -> dict[int, tuple[str, list[str]]]:
    """The processes below this one until its end, as each was when it was last seen."""
    seen: dict[int, tuple[str, list[str]]] = {}

    def over() -> bool:
        for pid in below(process.pid):
            found = inherited(pid)
            if found is not None and found[0]:
                seen[pid] = found
        return process.poll() is not None

    aborted.wait_for(over, 120, "the command does not end")
    return seen


def of(seen: dict[int, tuple[str, list[str]]], words: str) -> Sequence[str]:
    return [argv for argv, _ in seen.values() if words in argv]


@pytest.mark.parametrize(
    ("then", "looks", "wrong"), [("SIG_UNBLOCK", 2000, []), ("SIG_BLOCK", 20, ["SigBlk SIGINT"])]
)
def test_only_signals_that_stay_blocked_count(then: str, looks: int, wrong: list[str]) -> None:
    """As every process does that starts another."""
    text = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print(flush=True)
sys.stdin.readline()
signal.pthread_sigmask(signal.{then}, [signal.SIGINT])
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe) as process:
        assert process.stdin and process.stdout and process.stdout.readline()
        assert wrong_signals(process.pid) == ["SigBlk SIGINT"]
        process.stdin.write(b"\n")
        process.stdin.flush()
        seen = inherited(process.pid, looks)
        assert seen and seen[1] == wrong


def test_no_process_of_a_run_ignores_or_blocks_what_ends_others(tmp_path: Path) -> None:
    """Of the kernel: driver, servers, clients, resource, fault agent and its helpers."""
    needs.namespaces()
    words = ["--nemesis", "kill:every=2s,for=1s", "--time", "6s", "--seed", "3", "--out", "runs"]
    process = carelessly(tmp_path, "run", "--backend", "local", *words)
    seen = seen_below(process)
    assert process.returncode in (0, 3), (tmp_path / "said").read_text()
    for part in ("driver.process", "reference.service.server", "client.worker", "nemesis.agent"):
        assert of(seen, part), f"no process of {part} was seen"
    assert [
        (argv, wrong)
        for argv, wrong in seen.values()
        if wrong and not any(name in argv for name in OUTLIVE)
    ] == []


def test_a_campaign_under_nohup_outlives_its_terminal_with_its_processes(tmp_path: Path) -> None:
    """The processes of its pool share its group, which a closed terminal ends."""
    (tmp_path / "plan.toml").write_text(
        'name = "n"\nsystems = ["reference"]\nbackend = "sim"\nseeds = 16\ntime = "20s"\n'
        'nemeses = ["pause:target=holder"]\n'
    )
    process = carelessly(tmp_path, "campaign", "plan.toml", "-j", "2")

    def judged() -> list[dict[str, Any]]:
        return lines(tmp_path / ".holdfast" / "campaigns" / "n" / "journal.jsonl")

    def said() -> str:
        return (tmp_path / "said").read_text()

    aborted.wait_for(lambda: judged() or process.poll() is not None, 60, "no run was judged")
    assert process.poll() is None, f"over before its terminal: {said()}"
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(120) == 0, said()
    assert len(judged()) == 16
    assert "Warning" not in said() and "Traceback" not in said()


def test_what_is_ignored_ends_here_and_children_begin_with_the_defaults() -> None:
    """Also SIGCHLD: who starts with it ignored learns no exit code of a child."""
    code = f"""
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for number in {[int(number) for number in ENDING]}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [2])
from holdfast.harness.runs import signals
signals.end_here()
import os, subprocess, sys
assert all(map(signals.disregarded, (1, 2, 3)))
for number in (1, 2, 3):
    os.kill(os.getpid(), number)  # ignored still, by us
child = "import os, signal; signal.signal(2, 0); os.kill(os.getpid(), %d); os._exit(7)"
done = [subprocess.run([sys.executable, "-c", child % number]).returncode for number in (1, 2, 3)]
assert done == [-1, -2, -3], done
assert subprocess.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode == 7
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
