"""The state of a run and of each of its properties in one word, as data has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.core import verdict
from holdfast.harness.runs import directory
from holdfast.harness.verdicts.judged import Judged, read, to_table
from tests.reports import specimens


def tables(run: dict[str, Any]) -> dict[str, Any]:
    """What is written of a judged run, as JSON has it."""
    written: dict[str, Any] = json.loads(json.dumps(to_table(read(run))))
    return written


@pytest.mark.parametrize(
    ("name", "state", "of_properties"),
    [
        ("clean", "HOLDS", {"HOLDS"}),
        ("broken", "VIOLATED", {"VIOLATED", "HOLDS", "UNKNOWN"}),
        ("limit", "LIMIT", {"LIMIT", "HOLDS"}),
        ("unknown", "UNKNOWN", {"UNKNOWN", "HOLDS"}),
    ],
)
def test_verdicts_json_has_one_word_for_the_run_and_each_property(
    name: str, state: str, of_properties: set[str]
) -> None:
    table = tables(getattr(specimens, name)())
    assert table["state"] == state
    assert {row["state"] for row in table["verdicts"]} == of_properties
    for row in table["verdicts"]:
        limit = row["verdict"] == "VIOLATED" and not row["promised"]
        assert row["state"] == ("LIMIT" if limit else row["verdict"])


def test_a_table_with_states_is_read_as_the_run_that_it_was_written_of() -> None:
    run: Judged = read(specimens.broken())
    assert read(to_table(run)) == run


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_without_states_are_still_read(version: int, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps(specimens.limit() | {"schema": f"holdfast-verdict/{version}"}))
    run = read(directory.read_json(path, *verdict.READABLE))
    assert [row.outcome().value for row in run.verdicts] == ["HOLDS", "LIMIT", "HOLDS", "HOLDS"]
    assert verdict.SCHEMA == "holdfast-verdict/4"
