"""Whole runs by the command line, and what they came to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.harness.runs import files
from holdfast.harness.runs.directory import read_lines

WITHIN_S = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How `holdfast run` ended."""

    code: int
    err: str
    runs: Path

    def faults(self) -> list[dict[str, Any]]:
        return list(read_lines(self.runs / "latest" / "faults.jsonl", files.row))

    def verdicts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.runs / "latest" / "verdicts.json").read_text())
        return found

    def rows(self) -> dict[str, dict[str, Any]]:
        """Every verdict by its property."""
        return {row["property"]: row for row in self.verdicts()["verdicts"]}


def run(folder: Path, words: Sequence[str], **env: str) -> Ran:
    """One run to its end."""
    argv = [sys.executable, "-m", "holdfast", "run", "--out", str(folder / "runs"), *words]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, **env, "XDG_STATE_HOME": str(folder / "state"), "NO_COLOR": "1"},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(code=done.returncode, err=done.stderr, runs=folder / "runs")
