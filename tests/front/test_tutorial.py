"""The tutorials do what they say, command by command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.front.said import Said, holdfast
from tests.front.test_docs import commands

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
FROZEN = "docs/tutorial/frozen-holder.md"


def verdicts(folder: Path) -> dict[str, str]:
    rows = json.loads((folder / ".holdfast/runs/latest/verdicts.json").read_text())["verdicts"]
    return {row["property"]: row["verdict"] for row in rows}


def test_the_frozen_holder_comes_out_as_it_is_told(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [shlex.split(line)[1:] for line in commands(FROZEN)]
    assert [words[0] for words in lines] == ["run", "run", "shrink", "replay", "run", "check"]

    def do(number: int) -> Said:
        return holdfast(capsys, *lines[number])

    assert do(0).code == 0
    found = verdicts(tmp_path)
    assert {prop for prop in found if found[prop] == "UNKNOWN"} == {"no-stale-write"}
    assert set(found.values()) == {"HOLDS", "UNKNOWN"}

    do(1)
    found = verdicts(tmp_path)
    assert (found["no-lost-update"], found["no-stale-write"]) == ("VIOLATED", "VIOLATED")
    assert found["mutual-exclusion"] == "HOLDS"

    small = do(2).out
    assert "\nto   1 fault in " in small and "2 clients, 1 lock" in small
    assert "\n  freeze holder at " in small
    again = do(3).out
    assert "fails 3 of 3" in again and "no-lost-update: lost-update, 3 of 3" in again

    assert do(4).code == 0
    assert set(verdicts(tmp_path).values()) == {"HOLDS"}
    assert json.loads(do(5).out)["evidence"]["rejected"]["stale"] >= 2
