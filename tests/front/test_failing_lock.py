"""A lock of the user's own whose every call raises is told as that, before a run and after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import needs
from tests.front.author import file_of
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
RAISES = """
class Lock:
    def __init__(self, servers, options):
        pass
    def acquire(self, lock, owner, lease_s):
        import no_such_module
    def release(self, lock, owner):
        return True
"""
WHY = "ModuleNotFoundError: No module named 'no_such_module'"


def test_the_verdict_names_the_first_error_and_how_many_there_were(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAISES)
    words = ("--clients", "2", "--time", "1s", "--lease", "200ms", "--seed", "1")
    said = holdfast(capsys, "run", "--system", "mine.py:Lock", *words)
    assert said.code == 3, said.out + said.err
    flat = " ".join(said.out.split())
    assert "Every acquire failed with an error:" in flat and WHY in flat
    assert "unavailable" not in said.out
    assert "Call errors" in said.out
    assert "no_such_module" in Path(".holdfast/runs/latest/report.html").read_text()


def faults(capsys: Capture, *words: str) -> tuple[int, list[str]]:
    said = holdfast(capsys, "doctor", *words, "--json")
    return said.code, json.loads(said.out)["faults"]


def test_doctor_tries_a_class_before_a_run_and_tells_the_first_error(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAISES)
    code, wrong = faults(capsys, "--system", "mine.py:Lock")
    assert code == 2 and wrong[0] == (
        f"1 of 1 calls failed with an error, the first (acquire): {WHY}"
    ), wrong
    # A module that this process has, and that the clients of a run do not have.
    Path("mine.py").write_text(RAISES.replace("no_such_module", "click"))
    code, wrong = faults(capsys, "--system", "mine.py:Lock")
    assert code == 2 and "No module named 'click'" in wrong[0]
    Path("mine.py").write_text(RAISES.replace("pass", "raise ValueError('no servers')"))
    code, wrong = faults(capsys, "--system", "mine.py:Lock")
    assert code == 2 and "ValueError: no servers" in wrong[0], wrong


def test_doctor_starts_the_servers_of_a_lock_and_finds_nothing_wrong_with_a_right_one(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mylock.py").write_text(file_of("own-lock.md", "mylock.py"))
    assert faults(capsys, "--system", "mylock.py:MyLock") == (0, [])
    code, wrong = faults(capsys, "--system", "mylock.py:MyLock", "--servers", "127.0.0.9")
    assert code == 2 and "Connection refused" in wrong[0], wrong
    text = Path("mylock.py").read_text().replace("import json\n", "import json\nimport nowhere\n")
    Path("broken.py").write_text(text.replace("import nowhere", "assert __name__ != '__main__'"))
    said = holdfast(capsys, "doctor", "--system", "broken.py:MyLock")
    assert said.code == 4 and "server n1 was not ready" in said.err and "AssertionError" in said.err


def test_doctor_tries_a_described_lock_and_refuses_what_is_none_of_the_users(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("client.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    ask = json.loads(line)\n"
        "    row = {'id': ask['id'], 'outcome': 'info', 'error': 'no route to the lock'}\n"
        "    print(json.dumps(row), flush=True)\n"
    )
    Path("mine.toml").write_text('[system]\nclient = "{python} client.py"\nfiles = ["client.py"]\n')
    code, wrong = faults(capsys, "--system", "mine.toml")
    assert code == 2 and wrong[0].endswith("the first (acquire): no route to the lock")
    said = holdfast(capsys, "doctor", "--system", "redis")
    assert said.code == 2 and "FILE.py:CLASS or FILE.toml" in said.err
