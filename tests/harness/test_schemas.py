"""Run directories that an older Holdfast wrote stay readable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import READABLE, SCHEMA
from holdfast.harness.runs.directory import read_json
from tests.reports import specimens
from tests.reports.rendered import terminal as render


@pytest.mark.parametrize("schema", READABLE)
def test_verdicts_of_every_known_schema_are_read_and_shown(schema: str, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({**specimens.clean(), "schema": schema}))
    told = read_json(path, *READABLE)
    assert told["schema"] == schema
    assert "Properties" in render(told, width=100, colour=False)


def test_verdicts_of_a_newer_holdfast_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    path.write_text(json.dumps({"schema": "holdfast-verdict/5"}))
    with pytest.raises(
        UsageError, match=f"this version reads {SCHEMA}; the file is from a newer version"
    ):
        read_json(path, *READABLE)
