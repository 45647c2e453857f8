"""The tour shows one fault at a time, and says plainly how it came out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from holdfast.commands import demo_command
from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare

Capture = pytest.CaptureFixture[str]


def test_its_faults_come_one_after_the_other_and_outlast_the_lease() -> None:
    faults = demo_command.FAULTS
    for fault, after in pairwise(faults):
        assert fault.at_ns + fault.for_ns + SECOND <= after.at_ns
    assert all(fault.for_ns > SECOND for fault in faults)
    assert faults[-1].at_ns + faults[-1].for_ns + SECOND <= demo_command.SPAN_NS
    assert {fault.do for fault in faults} == {"partition", "kill", "pause"}


@pytest.mark.parametrize("system", ["reference", "majority"])
def test_its_plans_are_complete(system: str) -> None:
    plan = prepare.complete(Plan(system=system, nodes=0, faults=demo_command.FAULTS))
    assert plan.faults == demo_command.FAULTS
    assert plan.resource == "fenced"


def judged(verdict: str, *rows: tuple[str, str]) -> dict[str, Any]:
    listed = [{"property": prop, "verdict": word, "findings": []} for prop, word in rows]
    return {"verdict": verdict, "verdicts": listed}


def test_it_succeeds_only_if_one_lock_held_and_the_other_did_not(capsys: Capture) -> None:
    held = judged("HOLDS", *((prop, "HOLDS") for prop in demo_command.MUST_HOLD))
    voted = judged("VIOLATED", ("token-order", "VIOLATED"))
    assert demo_command.judged(held, voted) == 0
    assert "token-order" in capsys.readouterr().out
    unknown = judged("UNKNOWN", *((prop, "UNKNOWN") for prop in demo_command.MUST_HOLD))
    assert demo_command.judged(unknown, voted) == 1
    assert demo_command.judged(held, judged("HOLDS", ("token-order", "HOLDS"))) == 1
