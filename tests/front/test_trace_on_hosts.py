"""Runs on real processes whose servers record their steps: `--set trace=yes`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.front.said import Said, holdfast

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, folder: Path, *words: str) -> Said:
    usual = ("--set", "trace=yes", "--time", "3s", "--seed", "4", "--out", folder)
    return holdfast(capsys, "run", *words, *usual)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "words",
    [
        ("--system", "reference", "--nemesis", "kill:target=all", "--set", "snapshot_every=5"),
        ("--system", "chubby", "--nemesis", "pause,partition"),
        ("--system", "single", "--nemesis", "kill"),
        ("--system", "majority", "--nemesis", "pause"),
    ],
    ids=lambda words: words[1],
)
def test_a_correct_service_departs_in_no_step(
    words: tuple[str, ...], capsys: Capture, tmp_path: Path
) -> None:
    said = run(capsys, tmp_path, *words)
    found = re.search(r"([0-9,]+) steps of the servers validated", flat(said.out))
    assert found is not None, said.out + said.err
    assert int(found[1].replace(",", "")) > 50
    assert "all are allowed" in flat(said.out)


def test_a_departure_is_shown_and_is_no_violation(capsys: Capture, tmp_path: Path) -> None:
    said = run(capsys, tmp_path, "--system", "reference", "--set", "mutant=late-disk")
    assert said.code == 3
    assert "departs from its specification" in flat(said.out)
    assert "an acknowledged entry is on the disk" in flat(said.out)
    again = holdfast(capsys, "check", tmp_path / "latest", "--json")
    assert again.code == 3
    told = json.loads(again.out)
    assert told["traced"]["departure"]["rule"] == "an acknowledged entry is on the disk"
    assert all(row["verdict"] != "VIOLATED" for row in told["verdicts"])
    assert "an acknowledged entry is on the disk" in (tmp_path / "latest/report.html").read_text()
