"""Histories that others recorded, with the verdict that others found. They stay where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.checkers.linearizability import locks
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.read import read_history
from tests import needs

FIXTURES = Path(__file__).resolve().parents[3].parent / "shared" / "histories"


def index() -> list[dict[str, Any]]:
    """What the fixtures' index says; nothing where there are none."""
    path = FIXTURES / "INDEX.json"
    return list(json.loads(path.read_text())) if path.is_file() else []


@pytest.mark.parametrize("row", index(), ids=lambda row: f"{row['file']}-{row['model']}")
def test_a_recorded_history_gets_the_verdict_that_others_found(row: dict[str, Any]) -> None:
    history = read_history(FIXTURES / row["file"])
    judged = load(catalogue.MODELS[row["model"]].entry)(history.ops)
    expected = Verdict.HOLDS if row["linearizable"] else Verdict.VIOLATED
    if not any(op.status is Status.OK for op in history.ops):
        expected = Verdict.UNKNOWN
    assert judged.verdict is expected, judged.reason


def test_a_lease_that_ended_before_its_release_accuses_nobody() -> None:
    path = needs.file(FIXTURES / "knossos" / "mutex" / "bad" / "etcd.edn")
    ops = read_history(path).ops
    assert locks.mutex(ops).verdict is Verdict.VIOLATED
    judged = locks.lease_mutex(ops)
    assert judged.verdict is Verdict.HOLDS and not judged.findings
    assert judged.exercised["grants"] == 132
