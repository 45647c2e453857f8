"""Runs whose lock lies outside them, in one folder: none is accused of what another one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

WITHIN_S = 120
FOLDER = '''
"""A lock by `mkdir`, in a folder that all runs share; nothing but a release frees it."""
import os


class ByFolder:
    bound = "none"
    options = {"folder": "FOLDER"}

    def __init__(self, servers, options):
        self.folder = options["folder"]

    def acquire(self, lock, owner, lease_s):
        try:
            os.mkdir(f"{self.folder}/{lock}")
        except FileExistsError:
            return False
        return True

    def release(self, lock, owner):
        os.rmdir(f"{self.folder}/{lock}")
        return True
'''


def begun(folder: Path, label: str, *words: str) -> subprocess.Popen[str]:
    """A run of its own, in its own run directory."""
    (folder / "byfolder.py").write_text(FOLDER.replace("FOLDER", str(folder / "locks"), 1))
    (folder / "locks").mkdir(exist_ok=True)
    usual = ("run", "--system", "byfolder.py:ByFolder", "--time", "4s", "--clients", "3", "--json")
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *usual, "--seed", "3", "--out", label, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )


def judged(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=WITHIN_S)
    told: dict[str, Any] = json.loads(out)
    return told


def violated(run: dict[str, Any]) -> list[str]:
    return [row["property"] for row in run["verdicts"] if row["verdict"] == "VIOLATED"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "accused"),
    [((), []), (("--set", "lock_names=lock-1"), ["no-false-rejection"])],
    ids=["their own names", "one name"],
)
def test_two_runs_at_once_on_one_folder_meet_only_where_their_plans_name_one_lock(
    tmp_path: Path, words: Sequence[str], accused: Sequence[str]
) -> None:
    """A try is refused where the other run holds, which this one cannot know."""
    both = [begun(tmp_path, label, "--workload", "try-lock", *words) for label in ("a", "b")]
    for run in [judged(one) for one in both]:
        assert violated(run) == accused
        assert run["evidence"]["acquire"]["granted"] > 20
        held = {row["property"] for row in run["verdicts"] if row["verdict"] == "HOLDS"}
        assert held >= {"mutual-exclusion", "deadlock-freedom"}
    assert os.listdir(tmp_path / "locks") == []


@pytest.mark.slow
def test_what_an_earlier_run_left_is_in_no_later_ones_way(tmp_path: Path) -> None:
    stuck = judged(begun(tmp_path, "a", "--set", "dies_pct=100"))
    left = os.listdir(tmp_path / "locks")
    assert len(left) == 1 and left[0].startswith("lock-1-"), "its first owner died with it"
    assert "deadlock-freedom" in violated(stuck), "which it is accused of itself"
    later = judged(begun(tmp_path, "a"))
    assert violated(later) == []
    assert later["evidence"]["acquire"]["granted"] > 20
    assert os.listdir(tmp_path / "locks") == left
