"""The journals of a run: what is written is read again, and a damaged row names its field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.runs import directory, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.journal import FaultRow, Mark

ROWS = (
    FaultRow(id="f1", event="planned", do="pause", target="n1", at_ns=1, for_ns=2, params={}),
    FaultRow(
        id="f1", event="injected", do="pause", target="n1", t_ns=5, before_ns=4, nodes=["n1"],
        holder="", evidence={"state": "T"},
    ),
    FaultRow(
        id="f1", event="healed", do="pause", target="n1", t_ns=9, evidence={}, effective=False
    ),
    FaultRow(id="f2", event="skipped", do="kill", target="n9", t_ns=9, reason="no such node"),
)  # fmt: skip


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    marks = (Mark(mark="start", t_ns=1), Mark(mark="end", t_ns=9, problems=[]))
    for path, rows in ((run.faults, ROWS), (run.times, marks)):
        for row in rows:
            directory.append(path, plain(row))
    assert tuple(journal.faults(run)) == ROWS
    assert tuple(journal.marks(run)) == marks


def test_a_row_has_the_keys_of_its_event_only() -> None:
    assert list(plain(ROWS[2])) == ["id", "event", "do", "target", "t_ns", "evidence", "effective"]
    assert list(plain(Mark(mark="start", t_ns=1))) == ["mark", "t_ns"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"event": "planned"}, "id is missing"),
        ({"id": "f1"}, "event is missing"),
        ({"id": 7, "event": "planned"}, "id is '7'"),
        ({"id": "f1", "event": "healed", "effective": 1}, "effective is '1'"),
        ({"id": "f1", "event": "healed", "t_ns": 10**30}, "t_ns is"),
    ],
)
def test_a_damaged_row_names_its_field_and_its_line(
    tmp_path: Path, line: dict[str, object], said: str
) -> None:
    whole = {"id": "f0", "event": "planned", "of_a_newer_version": 1}
    (tmp_path / "faults.jsonl").write_text(f"{json.dumps(whole)}\n{json.dumps(line)}\n")
    with pytest.raises(UsageError, match=f"line 2: damaged: {said}"):
        list(journal.faults(RunDir(tmp_path)))


def test_an_event_without_its_time_is_damage() -> None:
    with pytest.raises(ValueError, match="t_ns is missing"):
        FaultRow(id="f1", event="healed").time_ns()
