"""The shrunk plans in examples/findings: each can be carried out, and is of a finding."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.catalogue.findings import FINDINGS
from holdfast.harness.plans.plan import Plan, parse
from holdfast.planning import prepare

ROOT = Path(__file__).resolve().parents[2]
PLANS = sorted((ROOT / "examples" / "findings").glob("*.toml"))
PAGE = (ROOT / "docs" / "findings" / "shrunk.md").read_text()


def plan_of(path: Path) -> Plan:
    """A plan with all names and options known. That a machine has what it needs is not asked."""
    return parse(tomllib.loads(path.read_text()), prepare.KNOWN, path.name)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_shrunk_plan_is_one_of_a_finding(path: Path) -> None:
    plan, finding = plan_of(path), FINDINGS[path.stem]
    assert plan.workload and plan.time_ns and plan.seed
    assert f"--system {plan.system}" in finding.command
    library = re.search(r"--library (\S+)", finding.command)
    assert plan.options.get("library") == (library[1] if library else None)
    text = path.read_text()
    assert "/" not in "".join(line for line in text.splitlines() if line.startswith("#"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_page_says_how_large_it_is(path: Path) -> None:
    plan = plan_of(path)
    (row,) = re.findall(rf"^\| \[{path.stem}\].*$", PAGE, re.M)
    faults = len(plan.faults)
    cell = row.split("|")[3].strip()
    assert cell.startswith(f"{faults} fault{'s' * (faults != 1)}")
    assert f"{plan.clients} client{'s' * (plan.clients != 1)}" in cell
    assert f"{plan.nodes} server{'s' * (plan.nodes != 1)}" in cell


def test_no_plan_is_left_out() -> None:
    assert len(PLANS) >= 10
    assert len(re.findall(r"^\| \[", PAGE, re.M)) == len(PLANS)
