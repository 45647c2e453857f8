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
    """The only fault, which took effect and left no problem of the run."""
    (fault,) = run.faults().itertuples()
    assert fault.effective
    assert list(run.judgement["problems"]) == []
    # Whether so short a run exercised it is left to chance.
    assert run.verdicts["mutual-exclusion"] != hf.Verdict.VIOLATED
    return fault
