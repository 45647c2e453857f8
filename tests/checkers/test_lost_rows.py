"""A correct service of whose log one row was lost is not reported: UNKNOWN, whichever row it was.

What other findings prove, they prove by the rows that they name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.coverage import lost_rows
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verification.rules import RULES
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.world import Faults
from tests.checkers.examples import Specimen
from tests.checkers.shorthand import case
from tests.harness.verification.specimens import SPECIMENS
from tests.harness.verification.test_forged import INNOCENT, calm

LOST = ("row 7 was lost",)


def without(given: Case, at: int) -> Case:
    """The case as it is read if one row of its log was lost."""
    rows = given.history.rows[np.arange(len(given.history.rows)) != at]
    return replace(given, history=replace(given.history, rows=rows, problems=LOST), memo={})


def explained(given: Case) -> Counter[str]:
    """Kinds of findings that are there only because one row is missing; none is a violation."""
    kinds = Counter[str]()
    for at in range(len(given.history.rows)):
        for prop, entry in catalogue.CHECKERS.items():
            verdict = load(entry)(without(given, at))
            found = [(f.kind, f.proof.rule if f.proof else "") for f in verdict.findings]
            assert verdict.verdict is not Verdict.VIOLATED, (prop, at, found)
            kinds.update(kind for kind, _ in found)
    return kinds


@pytest.mark.parametrize("innocent", INNOCENT, ids=lambda one: one[0][:60])
def test_no_row_that_is_lost_of_a_correct_history_makes_a_violation(innocent: Any) -> None:
    explained(calm(*innocent))


def test_findings_that_a_lost_row_explains_are_made_and_are_unknown() -> None:
    kinds = sum((explained(calm(*one)) for one in (INNOCENT[1], INNOCENT[10])), Counter[str]())
    assert kinds["false-answer"] and kinds["broken-lease"]


@pytest.mark.power
@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_no_row_that_is_lost_of_a_correct_service_makes_a_violation(service: Any) -> None:
    for seed in range(10):
        explained(case_of(service, [tell(service, f"lost {seed}", Faults(), 0)], Faults()))


@pytest.mark.parametrize(
    ("prop", "words", "promises"),
    [
        # In each the release of 0, or its renewal, is what was lost.
        ("mutual-exclusion", "0a? 0a+1 1a? 1a+2", {}),
        (
            "mutual-exclusion",
            "0h?@0 0h+/5@0.1 0a?@0.2 0a+1@0.3 1h?@0.4 1h+/5@0.5 1a?@6 1a+2@8.8",
            {"bound": "session", "delay_ns": 4_000_000_000},
        ),
        ("truthful-queries", "0a? 0a+7 1q? 1q+ 0n? 0n~", {}),
        ("truthful-queries", "0a? 0a+7 1q? 1q+7=3 0r? 0r+", {}),
        ("truthful-queries", "1q? 1q+7=0", {}),
        ("truthful-queries", "0a? 0a+7 0l? 0l+=2", {}),
        ("ownership", "0a?/1 0a+1/1 1a?@9 1a+2 0n? 0n+", {"renew_proves": False}),
        ("loss-notice", "0a? 0a+1 0L 0w? 0S- 0w- 0w? 0S- 0w-", {}),
    ],
)
def test_what_a_lost_row_could_explain_is_unknown_only_if_rows_were_lost(
    prop: str, words: str, promises: dict[str, Any]
) -> None:
    given = case(words, promises=promises, asked=(prop,))
    assert load(catalogue.CHECKERS[prop])(given).verdict is Verdict.VIOLATED
    torn = replace(given, history=replace(given.history, problems=LOST), memo={})
    verdict = load(catalogue.CHECKERS[prop])(torn)
    assert verdict.verdict is Verdict.UNKNOWN
    assert "that a lost row could explain" in verdict.reason


def test_every_excused_kind_and_rule_is_one_that_is_reported() -> None:
    assert set(RULES) >= lost_rows.RULES
    assert {kind for rule in RULES.values() for kind in rule.kinds} >= lost_rows.KINDS


@pytest.mark.parametrize("one", SPECIMENS, ids=lambda one: one.rule)
def test_a_violation_proved_by_its_own_rows_stays_one_whatever_was_lost(one: Specimen) -> None:
    given = one.case()
    torn = replace(given, history=replace(given.history, problems=LOST), memo={})
    verdict = load(catalogue.CHECKERS[one.prop])(torn)
    rules = {f.proof.rule for f in verdict.findings if f.proof}
    kinds = {f.kind for f in verdict.findings}
    excused = rules <= lost_rows.RULES or kinds <= lost_rows.KINDS
    assert verdict.verdict is (Verdict.UNKNOWN if excused else Verdict.VIOLATED)
