"""Run directories with the keys of an older version are read and judged as those of today."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from benchmarks.run_directory import Shape, write

from holdfast.engine.judging import judge_run
from holdfast.harness.campaigns import results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core import verdict
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import current
from holdfast.harness.judging.stored import stored
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir

SHAPE = Shape(ops=200, clients=3, writes=1, lapse=20)
S = 10**9
STRUCK: list[dict[str, Any]] = [
    {"id": "f1", "event": "planned", "do": "pause", "target": "n1", "at_ns": 1, "for_ns": 2,
     "params": {}},
    {"id": "f1", "event": "injected", "do": "pause", "target": "n1", "t_ns": S, "before_ns": S,
     "nodes": ["n1"], "holder": "", "evidence": {"bit": True, "states": {"n1": "T"}}},
    {"id": "f1", "event": "healed", "do": "pause", "target": "n1", "t_ns": 2 * S,
     "evidence": {"states": {"n1": "T"}}, "bit": True},
    {"id": "f2", "event": "injected", "do": "kill", "target": "n1", "t_ns": 3 * S,
     "before_ns": 3 * S, "nodes": ["n1"], "holder": "", "evidence": {}},
    {"id": "f2", "event": "healed", "do": "kill", "target": "n1", "t_ns": 4 * S, "evidence": {},
     "bit": False},
]  # fmt: skip
"""faults.jsonl as holdfast-run/1 wrote it."""


def run_with(folder: Path, schema: str, rows: list[dict[str, Any]]) -> RunDir:
    run = RunDir(write(SHAPE, folder).path)
    run.manifest.write_text(json.dumps({**json.loads(run.manifest.read_text()), "schema": schema}))
    run.faults.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return run


def todays(row: dict[str, Any]) -> dict[str, Any]:
    """The same row by text, independent of the code under test."""
    found: dict[str, Any] = json.loads(json.dumps(row).replace('"bit"', '"effective"'))
    return found


@pytest.fixture
def old(tmp_path: Path) -> RunDir:
    return run_with(tmp_path / "old", "holdfast-run/1", STRUCK)


def test_the_rows_of_an_old_run_have_todays_keys(old: RunDir) -> None:
    healed = {row.id: row.effective for row in journal.faults(old) if row.event == "healed"}
    assert healed == {"f1": True, "f2": False}
    injected = next(row for row in journal.faults(old) if row.event == "injected")
    assert injected.evidence == {"effective": True, "states": {"n1": "T"}}


def test_an_old_run_is_judged_like_one_of_today(old: RunDir, tmp_path: Path) -> None:
    new = run_with(tmp_path / "new", "holdfast-run/2", [todays(row) for row in STRUCK])
    first, second = (judge_run(run) for run in (old, new))
    assert [fault.effective for fault in first.faults] == [True, False]
    assert first.faults == second.faults
    assert first.verdicts == second.verdicts and len(first.verdicts) > 3


def test_old_verdicts_are_read(old: RunDir) -> None:
    judge_run(old)
    told = json.loads(old.verdicts.read_text())
    assert told["faults"][0]["effective"] is True
    text = old.verdicts.read_text().replace('"effective"', '"bit"')
    old.verdicts.write_text(text.replace(verdict.SCHEMA, "holdfast-verdict/2"))
    assert [fault.effective for fault in stored(old).faults] == [True, False]


def test_a_result_of_an_old_campaign_is_read() -> None:
    row = asdict(
        Result(
            key="k", system="redis", backend="sim", workload="try-lock", nemesis="pause", seed=1,
            verdict="HOLDS", exit_code=0, command="holdfast run", effective=("pause",),
        )
    )  # fmt: skip
    row["bit"] = row.pop("effective")
    assert results.read(row, "campaign.jsonl").effective == ("pause",)


def test_a_wrong_type_under_a_former_key_is_refused(old: RunDir) -> None:
    old.faults.write_text(json.dumps({**STRUCK[2], "bit": 1}) + "\n")
    with pytest.raises(UsageError, match="effective is '1'"):
        list(journal.faults(old))


def test_other_keys_and_values_stay() -> None:
    row: dict[str, Any] = {
        "a": [1],
        "evidence": {"effective": False, "x": {"bit": 1}},
        "faults": ["bit", 2],
    }
    assert current(row) == row
