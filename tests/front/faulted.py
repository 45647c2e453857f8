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


def the_fault(run: hf.Run, *, may_lose: bool = False) -> Any:
    """The only fault, which took effect and left no problem of the run. may_lose: whether the lock
    may lose grants by it, if it promises nothing then."""
    (fault,) = run.faults().itertuples()
    assert fault.effective
    assert list(run.judgement["problems"]) == []
    # Whether so short a run exercised it is left to chance.
    (row,) = (v for v in run.judgement["verdicts"] if v["property"] == "mutual-exclusion")
    assert row["verdict"] != hf.Verdict.VIOLATED or (may_lose and not row["promised"])
    return fault
