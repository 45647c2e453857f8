"""`holdfast sim`: many seeds, counted, and every alarm with the command that shows it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


def test_seeds_are_counted_and_add_up(capsys: Capture) -> None:
    said = json.loads(holdfast(capsys, "sim", "--seeds", "4", "-j", "1", "--json").out)
    assert said["schema"] == "holdfast-sim/1"
    assert said["seeds"] == 4
    assert sum(said["verdicts"]["mutual-exclusion"].values()) == 4
    assert said["alarms"] == []
    assert said["rows"] > 100 and said["virtual_ns"] > 4 * 4_000_000_000


def test_the_answer_does_not_depend_on_how_many_processes_gave_it(capsys: Capture) -> None:
    words = ("sim", "--system", "majority", "--seeds", "3", "--json")
    one, two = (json.loads(holdfast(capsys, *words, "-j", n).out) for n in ("1", "2"))
    assert [row["digest"] for row in one["alarms"]] == [row["digest"] for row in two["alarms"]]
    assert one["verdicts"] == two["verdicts"]


def test_a_planted_bug_is_found_and_its_command_shows_it_again(
    capsys: Capture, tmp_path: Path
) -> None:
    said = holdfast(capsys, "sim", "--mutant", "early-expiry", "--seeds", "40", "-j", "1", "--json")
    assert said.code == 1
    (alarm,) = json.loads(said.out)["alarms"]
    prop = alarm["alarms"][0]["property"]
    assert prop in ("mutual-exclusion", "loss-notice")
    words = shlex.split(alarm["command"])[1:]
    again = holdfast(capsys, *words, "--out", str(tmp_path), "--json")
    assert again.code == 1
    found = {row["property"]: row for row in json.loads(again.out)["verdicts"]}
    sentences = [finding["sentence"] for finding in found[prop]["findings"]]
    assert alarm["alarms"][0]["sentence"] in sentences


def test_what_cannot_be_simulated_or_planted_is_refused_with_a_suggestion(capsys: Capture) -> None:
    said = holdfast(capsys, "sim", "--system", "redis")
    assert said.code == 2 and "majority, redlock, reference, single" in said.err
    said = holdfast(capsys, "sim", "--workload", "read-rite")
    assert said.code == 2 and "did you mean 'read-write'?" in said.err
    said = holdfast(capsys, "sim", "--mutant", "erly-expiry")
    assert said.code == 2 and "did you mean 'early-expiry'?" in said.err
