"""A lock class of the user in the simulator: judged like any, refused where it uses the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.front.said import holdfast

LOCK = (Path(__file__).resolve().parents[1] / "third_party/holdfast_example/lock.py").read_text()
FAULTS = ("pause", "kill", "clock", "partition", "cancel")
CLASS = """
import os, random, socket, subprocess, threading, time, uuid
class Mine:
    def __init__(self, servers, options):
        self.count = 0
    def acquire(self, lock, owner, lease, timeout=None):
        self.count += 1
        {acquire}
        return True
    def release(self, lock, owner):
        return True
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def judged(capsys: Capture, name: str, seed: int, *words: str) -> dict[str, dict[str, object]]:
    """The verdict rows of a simulated run, by property."""
    run = ("run", "--backend", "sim", "--system", name, "--time", "10s", "--lease", "1s", "--json")
    told = holdfast(capsys, *run, "--seed", str(seed), *words)
    assert told.code in (0, 1, 3), told.err
    return {row["property"]: row for row in json.loads(told.out)["verdicts"]}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_correct_class_is_never_reported(capsys: Capture, folder: Path, fault: str) -> None:
    (folder / "lock.py").write_text(LOCK)
    for seed in range(4):
        rows = judged(capsys, "lock.py:InMemory", seed, "--nemesis", fault)
        wrong = [prop for prop, row in rows.items() if row["verdict"] == "VIOLATED"]
        # A write of an expired owner, before any newer one, is promised by no lock.
        assert set(wrong) <= {"no-expired-write"}, (fault, seed, rows)


@pytest.mark.parametrize(
    ("old", "new", "prop"),
    [
        ("if self._owner(lock) not in", 'if "" not in', "mutual-exclusion"),
        ("+ lease)\n        return", "+ lease / 4)\n        return", "mutual-exclusion"),
        ("self.last.get(lock, 0) + 1", "1", "token-order"),
    ],
)  # fmt: skip
def test_a_broken_class_is_found(
    capsys: Capture, folder: Path, old: str, new: str, prop: str
) -> None:
    assert LOCK.count(old) == 1
    (folder / "lock.py").write_text(LOCK.replace(old, new))
    rows = judged(capsys, "lock.py:InMemory", 1, "--nemesis", "pause")
    assert rows[prop]["verdict"] == "VIOLATED" and rows[prop]["promised"]


def test_each_run_begins_with_a_new_service(capsys: Capture, folder: Path) -> None:
    (folder / "lock.py").write_text(LOCK)
    first = judged(capsys, "lock.py:InMemory", 3, "--nemesis", "pause")
    assert judged(capsys, "lock.py:InMemory", 3, "--nemesis", "pause") == first
    again = holdfast(capsys, "replay", ".holdfast/runs/latest", "--times", "3")
    assert "the same history each time" in again.out


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("time.time()", "time.time()"),
        ("time.sleep(0.1)", "time.sleep()"),
        ("random.random()", "random.random()"),
        ("uuid.uuid4()", "uuid.uuid4()"),
        ("socket.create_connection(('127.0.0.1', 9))", "socket.socket.__init__()"),
        ("open('lock.txt', 'w')", "builtins.open()"),
        ("threading.Thread(target=print).start()", "threading.Thread.start()"),
        ("subprocess.run(['true'])", "subprocess.Popen.__init__()"),
    ],
)
def test_a_class_that_uses_the_host_is_refused_and_the_call_does_not_happen(
    capsys: Capture, folder: Path, line: str, call: str
) -> None:
    caught = f"try:\n            {line}\n        except Exception:\n            pass"
    for acquire in (line, caught):
        (folder / "mine.py").write_text(CLASS.format(acquire=acquire))
        told = holdfast(capsys, "run", "--backend", "sim", "--system", "mine.py:Mine")
        assert told.code == 2
        assert f"mine.py:Mine does not run in the simulator: it calls {call} by" in told.err
    assert not (folder / "lock.txt").exists()


@pytest.mark.parametrize("caught", [False, True])
def test_a_call_that_only_the_run_reaches_is_an_unknown_outcome_with_its_reason(
    capsys: Capture, folder: Path, caught: bool
) -> None:
    line = "self.count > 1 and open('lock.txt', 'w')"
    acquire = f"try:\n            {line}\n        except Exception: pass" if caught else line
    (folder / "mine.py").write_text(CLASS.format(acquire=acquire))
    judged(capsys, "mine.py:Mine", 1)
    shown = " ".join(holdfast(capsys, "check", ".holdfast/runs/latest").out.split())
    assert "ForbiddenCall: builtins.open() by" in shown
    assert not (folder / "lock.txt").exists()


@pytest.mark.parametrize(
    ("line", "why"), [("waits = True", "waits by itself"), ("nodes = 1", "it starts servers")]
)
def test_a_class_that_waits_or_starts_servers_is_refused(
    capsys: Capture, folder: Path, line: str, why: str
) -> None:
    text = CLASS.format(acquire="pass").replace("class Mine:\n", f"class Mine:\n    {line}\n")
    text += "    ports = (7400,)\n    def server(name, servers, data, options): return []\n"
    text = text if "nodes" in line else text.replace("def server", "def unused")
    (folder / "mine.py").write_text(text)
    told = holdfast(capsys, "run", "--backend", "sim", "--system", "mine.py:Mine")
    assert told.code == 2 and why in told.err


EARLY = """
class Early:
    tokens = "none"
    held: dict = {}
    def __init__(self, servers, options, now):
        self.now = now
    def acquire(self, lock, owner, lease, timeout=None):
        holder, until = self.held.get(lock, ("", 0.0))
        if holder not in ("", owner) and until > self.now():
            return False
        self.held[lock] = (owner, self.now() + lease / 10)
        return True
    def renew(self, lock, owner, lease):
        return {told} or self.held.get(lock, ("", 0.0))[0] == owner
    def release(self, lock, owner):
        if self.held.get(lock, ("", 0.0))[0] != owner:
            return {told}
        del self.held[lock]
        return True
class Unproven(Early):
    proves = False
"""


@pytest.mark.parametrize("name", ["Early", "Unproven"])
@pytest.mark.parametrize("told", ["True", "False"])
def test_a_lock_that_is_given_away_after_a_tenth_of_its_lease_is_reported(
    capsys: Capture, folder: Path, name: str, told: str
) -> None:
    """Its owner is notified at its next renewal, or by nothing; its oks prove something, or not."""
    (folder / "early.py").write_text(EARLY.replace("{told}", told))
    rows = judged(capsys, f"early.py:{name}", 3, "--workload", "renewal")
    assert rows["mutual-exclusion"]["verdict"] == "VIOLATED"
