"""Under HOLDFAST_REQUIRE=all no test may be skipped unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SKIPS = """
import pytest
from tests import needs

def test_by_a_need():
    needs.binary("no-such-command")

@pytest.mark.skipif(True, reason="by a mark")
def test_by_a_mark():
    pass

@pytest.mark.xfail(strict=True)
def test_known_to_fail():
    assert False
"""


@pytest.mark.parametrize(
    ("required", "ends"),
    [("", "2 skipped, 1 xfailed"), ("all", "1 failed, 1 xfailed, 1 error")],
)
def test_a_skip_is_a_failure_where_all_is_required(
    tmp_path: Path, required: str, ends: str
) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-rA", str(tmp_path)],
        env={
            **os.environ,
            "HOLDFAST_REQUIRE": required,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ends in done.stdout.splitlines()[-1], done.stdout
    assert "needs the command no-such-command" in done.stdout
