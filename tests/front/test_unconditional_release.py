"""A lock class whose release deletes whatever is there is told as that, in verdict and report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import needs
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
UNCONDITIONAL = """
import fcntl, json, time

class Lock:
    options = {"path": ""}
    def __init__(self, servers, options):
        self.path = options["path"]
    def changed(self, change):
        with open(self.path, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            held = json.loads(file.read() or "{}")
            done = change(held)
            file.seek(0)
            file.truncate()
            file.write(json.dumps(held))
            return done
    def acquire(self, lock, owner, lease_s):
        def take(held):
            if held.get(lock, ["", 0])[1] > time.time():
                return False
            held[lock] = [owner, time.time() + lease_s]
            return True
        return self.changed(take)
    def release(self, lock, owner):
        return bool(self.changed(lambda held: held.pop(lock, None)))
"""


@pytest.mark.slow
def test_the_release_is_named_as_the_cause_of_the_grants_that_it_let_in(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(UNCONDITIONAL)
    words = ("--clients", "4", "--time", "3s", "--lease", "200ms", "--seed", "1")
    pause = ("--nemesis", "pause:target=holder,every=800ms,for=500ms")
    held = ("--set", f"path={tmp_path / 'held.json'}")
    said = holdfast(capsys, "run", "--system", "mine.py:Lock", *words, *pause, *held)
    assert said.code == 1, said.out + said.err
    flat = " ".join(said.out.split())
    assert "VIOLATED Foreign release cause c" in flat
    assert "freed a hold that was not its own" in flat and "was stopped (pause) at" in flat
    assert "Double grant" not in flat
    latest = Path(".holdfast/runs/latest")
    (exclusion,) = (
        one
        for one in json.loads((latest / "verdicts.json").read_text())["verdicts"]
        if one["property"] == "mutual-exclusion"
    )
    assert "foreign-release" in {one["cause"] for one in exclusion["findings"]}
    assert "freed a hold that was not its own" in (latest / "report.html").read_text()
