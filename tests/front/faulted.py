"""Whole runs with one fault: what holds of every such run, however short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests import needs


def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written to an empty folder; skips where nodes have no networks of their own."""
    needs.namespaces()
    monkeypatch.chdir(tmp_path)


def the_fault(run: hf.Run) -> Any:
    """The only fault, which took effect, left no problem of the run and broke no promise."""
    (fault,) = run.faults().itertuples()
    assert fault.effective
    assert list(run.judgement["problems"]) == []
    # Whether so short a run exercised it is left to chance, and so is whether a replica that takes
    # over by force lacks a grant, where nothing is promised.
    (row,) = (v for v in run.judgement["verdicts"] if v["property"] == "mutual-exclusion")
    assert row["verdict"] != hf.Verdict.VIOLATED or not row["promised"]
    return fault
