"""The table that textbooks print: what was measured over all faults, beside what is claimed."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.catalogue.design_sheet import with_kinds
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.loading import load
from holdfast.harness.properties import PROPERTIES
from holdfast.reports.many import textbook
from holdfast.reports.many.cell_claims import CELLS, TEXTBOOK, cell_claim
from holdfast.reports.many.claims import CLAIMED, NOT_CLAIMED
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.matrix_pages import markdown, page
from tests.reports.test_matrix import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "textbook.toml"


def judged(prop: str, verdict: str, *effective: str, system: str = "redis") -> Result:
    one = run(verdict, *effective, system=system)
    (outcome,) = one.properties.values()
    return replace(one, properties={prop: outcome})


def test_one_violation_is_told_with_its_fault_and_what_held_beside_it() -> None:
    results = [judged("mutual-exclusion", "+"), judged("mutual-exclusion", "x", "kill")]
    cell = textbook.entry(matrix(results), "redis", "mutual-exclusion")
    assert cell.measured() == "violated under kill; open under none"
    assert cell.claimed().startswith("claimed, but not under kill, clock: one server decides")


def test_what_is_violated_where_it_is_claimed_is_against_the_claim() -> None:
    found = matrix([judged("mutual-exclusion", "x", "partition")])
    cell = textbook.entry(found, "redis", "mutual-exclusion")
    assert cell.against == ("partition",)
    assert cell.measured() == "violated under partition (against the claim)"
    found = matrix([judged("mutual-exclusion", "x", "partition"), judged("mutual-exclusion", "+")])
    told = textbook.entry(found, "redis", "mutual-exclusion").measured()
    assert told == "violated under partition (against the claim); open under none"
    limit = matrix([judged("mutual-exclusion", "x", "kill")])
    assert textbook.entry(limit, "redis", "mutual-exclusion").against == ()
    unfair = matrix([judged("starvation-freedom", "x", "kill")])
    assert textbook.entry(unfair, "redis", "starvation-freedom").against == ()


def test_what_was_not_exercised_or_not_judged_is_not_said_to_hold() -> None:
    found = matrix([judged("bounded-wait", "?", system="reference")])
    assert textbook.entry(found, "reference", "bounded-wait").measured() == "not exercised"
    assert textbook.entry(found, "reference", "starvation-freedom").measured() == "not judged"
    row = textbook.table(found)["reference"]["bounded-wait"]
    assert (row["state"], row["held"], row["not_exercised"]) == ("not exercised", [], ["none"])


@pytest.mark.parametrize("system", list(CELLS))
def test_every_claim_of_a_cell_has_its_reason(system: str) -> None:
    for prop in TEXTBOOK:
        claim = cell_claim(system, prop)
        assert claim is not None and len(claim.says) > 15, (system, prop)


def test_every_system_has_its_cells() -> None:
    assert set(CELLS) == set(catalogue.SYSTEMS)
    assert set(TEXTBOOK) <= set(PROPERTIES)
    assert cell_claim("mylock@12345678", "mutual-exclusion") is None


@pytest.mark.parametrize(
    ("label", "prop", "fault", "claim"),
    [
        ("redis", "mutual-exclusion", "kill", NOT_CLAIMED),
        ("redis persistence=always", "mutual-exclusion", "kill", CLAIMED),
        ("redis persistence=always", "mutual-exclusion", "clock", NOT_CLAIMED),
        ("reference", "bounded-wait", "kill", CLAIMED),
        ("reference queue=racing", "bounded-wait", "none", NOT_CLAIMED),
        ("single leases=none", "deadlock-freedom", "none", NOT_CLAIMED),
        ("etcd", "no-stale-write", "pause", CLAIMED),
        ("etcd unfenced", "no-stale-write", "pause", NOT_CLAIMED),
        ("single", "no-stale-write", "pause", CLAIMED),
        ("single", "no-stale-write", "kill", NOT_CLAIMED),
        ("majority", "no-stale-write", "none", NOT_CLAIMED),
        ("etcd", "mutual-exclusion", "several", ""),
        ("etcd", "mutual-exclusion", "scenario owner-pause", ""),
    ],
)
def test_a_claim_goes_by_options_and_faults(label: str, prop: str, fault: str, claim: str) -> None:
    told = cell_claim(label, prop)
    assert told is not None and told.under(fault) == claim


def test_what_our_own_systems_promise_is_what_is_claimed_of_them() -> None:
    """A promise under every fault is claimed under every fault."""
    for system in ("reference", "single"):
        promises = with_kinds(load(catalogue.SYSTEMS[system].entry).promises({}))
        for prop in TEXTBOOK:
            claim, kept = cell_claim(system, prop), promises.keeps.get(prop, ())
            assert claim is not None and claim.claimed == bool(kept), (system, prop)
            for fault in ("pause", "partition", "kill", "clock"):
                promised = promises.promised(prop, [fault])
                assert (claim.under(fault) == CLAIMED) == promised, (system, prop, fault)


def test_the_table_comes_first_and_each_cell_has_its_claim(tmp_path: Path) -> None:
    results = [judged("mutual-exclusion", "x", "kill"), judged("mutual-exclusion", "+", "pause")]
    found = matrix(results)
    text = markdown(found)
    assert text.index("## The textbook table") < text.index("## redis")
    assert f"| lock | {' | '.join(TEXTBOOK)} |" in text
    assert "0 of 1: below 95%; claimed |" in text
    assert "5% to 100%; not claimed" in text
    html = page(found, tmp_path)
    assert "The textbook table" in html and "; not claimed" in html
    assert "not judged" in html


def test_the_campaign_has_rows_of_ours_and_judges_the_columns() -> None:
    entries = tomllib.loads(EXAMPLE.read_text())
    systems = {name for entry in entries["entry"] for name in entry["systems"]}
    assert {"reference", "single", "majority", "redis", "etcd"} <= systems
    for workload in entries["workloads"]:
        asks = load(f"{catalogue.WORKLOADS[workload].entry}:ASKS")
        assert set(TEXTBOOK) <= set(asks)
