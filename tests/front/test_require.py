"""`--require`: a property that counts like a promise, whatever the system declares."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from holdfast.harness.plans.plan import SCHEMA, parse, to_toml
from holdfast.planning import prepare
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
STALE = [
    "run",
    *("--backend", "sim"),
    *("--nemesis", "pause:target=holder,every=6s,for=4s"),
    *("--resource", "unfenced"),
    *("--time", "8s"),
    *("--seed", "7"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_documented_limit_names_the_option_that_makes_it_fail(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A narrow terminal has ten lines for other words first (decision 0090).
    monkeypatch.setenv("COLUMNS", "120")
    said = holdfast(capsys, *STALE)
    assert said.code == 0
    assert "; to fail: --require no-stale-write" in " ".join(said.out.split())
    long = " ".join(holdfast(capsys, "check", ".holdfast/runs/latest", "-v").out.split())
    assert "To make this fail: --require no-stale-write,no-expired-write." in long
    assert "To make this fail" in Path(".holdfast/runs/latest/report.html").read_text()


def test_a_required_property_that_is_violated_fails_the_run_and_is_no_promise(
    capsys: Capture,
) -> None:
    said = holdfast(capsys, *STALE, "--require", "no-stale-write")
    assert said.code == 1
    text = " ".join(said.out.split())
    assert "violated no-stale-write, which this run requires." in text
    assert "promise of no stale write" not in said.out
    assert "(not allowed in this run)" in text and "(a broken promise)" not in text
    assert "To make this fail" not in said.out
    verdicts = json.loads(Path(".holdfast/runs/latest/verdicts.json").read_text())
    required = [one["property"] for one in verdicts["verdicts"] if one.get("required")]
    assert required == ["no-stale-write"]
    assert holdfast(capsys, "check", ".holdfast/runs/latest").code == 1
    # The plan and the shown command have it too.
    assert holdfast(capsys, "run", ".holdfast/runs/latest/plan.toml").code == 1
    assert "--require no-stale-write" in verdicts["command"]


def test_a_required_property_that_holds_passes(capsys: Capture) -> None:
    fenced = ["fenced" if word == "unfenced" else word for word in STALE]
    assert holdfast(capsys, *fenced, "--require", "no-stale-write").code == 0


def test_a_required_property_that_was_not_tested_is_inconclusive(capsys: Capture) -> None:
    calm = [*STALE[:3], *STALE[5:]]
    said = holdfast(capsys, *calm, "--require", "no-stale-write")
    assert said.code == 3


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--require no-stale-wrte", "did you mean 'no-stale-write'?"),
        ("--system redlock --require token-order", "redlock issues no fencing tokens"),
    ],
)
def test_what_cannot_be_required_is_refused(capsys: Capture, words: str, error: str) -> None:
    said = holdfast(capsys, "run", "--backend", "sim", "--time", "2s", *words.split())
    assert said.code == 2
    assert error in said.err


def test_a_plan_keeps_what_it_requires() -> None:
    table = {
        "schema": SCHEMA,
        "system": "reference",
        "resource": "fenced",
        "require": ["ownership"],
    }
    plan = parse(table, prepare.KNOWN, "plan")
    assert plan.require == ("ownership",)
    assert parse(tomllib.loads(to_toml(plan, exact=False)), prepare.KNOWN, "plan") == plan
