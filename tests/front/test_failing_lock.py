"""A lock of the user's own whose every call raises is told as that, before a run and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import needs
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
    assert "every acquire ended in an error:" in said.out and WHY in said.out
    assert "unavailable" not in said.out
    assert "Errors of calls" in said.out
    assert "no_such_module" in Path(".holdfast/runs/latest/report.html").read_text()
