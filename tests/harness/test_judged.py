"""The judged run: what is written is read again, whatever its numbers are; nothing else is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.engine import seed_search
from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.evidence import Evidence
from holdfast.harness.verdicts.judged import Judged, Verified, read
from holdfast.planning import prepare


@pytest.fixture(scope="module")
def judged() -> Judged:
    plan = Plan(system="majority", backend="sim", seed=1, nemeses=[("pause", {}), ("clock", {})])
    return seed_search.in_memory(prepare.manifest(prepare.prepared(plan), "made", "")).verdicts


def table(value: Judged) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plain(value)))
    return found


def test_what_is_written_is_read_again(judged: Judged) -> None:
    assert judged.faults and any(row.findings or row.under for row in judged.verdicts)
    clocks = {"h1": ClockSummary(offset_ns=1, drift_ppm=0.5, error_ns=2)}
    made = replace(judged, clocks=clocks, verified=Verified(accepted=3), report="r.html")
    assert read(table(made)) == made
    assert table(read(table(made))) == table(made)


def test_what_a_run_does_not_have_is_no_key(judged: Judged) -> None:
    assert not {"clocks", "evidence", "verified", "report"} & table(judged).keys()
    assert not {"checker", "says", "required"} & table(judged)["verdicts"][0].keys()
    first = replace(judged.verdicts[0], required=True)
    assert table(replace(judged, verdicts=(first,)))["verdicts"][0]["required"] is True


def test_a_measurement_that_is_equal_to_the_default_is_written(judged: Judged) -> None:
    """A run in which nothing was accepted was still verified."""
    assert table(replace(judged, verified=replace(Verified())))["verified"]["accepted"] == 0
    assert "acquire" in table(replace(judged, evidence=replace(Evidence())))["evidence"]


def test_a_whole_number_stays_whole(judged: Judged) -> None:
    numbers = table(replace(judged, evidence=replace(Evidence(), retry_rate=2)))
    assert json.dumps(plain(read(numbers).evidence.retry_rate)) == "2"


def test_a_wrong_value_is_named(judged: Judged) -> None:
    wrong = table(judged)
    wrong["verdicts"][0]["promised"] = "perhaps"
    with pytest.raises(UsageError, match=r"verdicts\.json: .*promised"):
        read(wrong)
