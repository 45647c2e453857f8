"""Holders and tries that are turned away without a reason, and what is reason enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.properties.no_false_rejection import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Verdict
from tests.checkers.certified import told, verified
from tests.checkers.faults import window
from tests.checkers.shorthand import case

TURNS = "0a? 0a+1 1a? 1Q {work} 0r? 0r+ 1a+2 1r? 1r+"
FREE = "0a?@0 0a+1@1 1t?@2 1t-@3 0r?@4 0r+@5 {tried}"


def judged(text: str, **changes: Any) -> tuple[Verdict, list[str]]:
    verdict = check(case(text, **changes))
    return verdict.verdict, [finding.kind for finding in verdict.findings]


def test_a_holder_that_is_served_and_a_try_that_met_it_hold() -> None:
    assert judged(TURNS.format(work="0w? 0S 0w+")) == (Verdict.HOLDS, [])
    assert judged(FREE.format(tried="")) == (Verdict.HOLDS, [])


def test_where_no_holder_asked_and_nobody_was_refused_nothing_is_known() -> None:
    assert judged(TURNS.format(work="")) == (Verdict.UNKNOWN, [])
    unfenced = {"options": {"resource": "unfenced"}}
    assert judged(TURNS.format(work="0w? 0S 0w+"), **unfenced) == (Verdict.UNKNOWN, [])


def test_the_refusal_of_a_holder_with_its_own_token_is_false() -> None:
    refused = judged(TURNS.format(work="0n? 0n+ 0w? 0S- 0w- 0n? 0n+"))
    assert refused == (Verdict.VIOLATED, ["false-rejection"])


def test_a_late_owner_is_refused_with_reason() -> None:
    text = "0a? 0a+1 1a?@30 1a+2 1w? 1S 1w+ 0w? 0S- 0w- 1r? 1r+"
    assert judged(text) == (Verdict.HOLDS, [])


def test_a_strict_resource_may_refuse_an_equal_token() -> None:
    text = TURNS.format(work="0w? 0S 0w+ 0w? 0S- 0w-")
    assert judged(text, options={"resource": "strict"}) == (Verdict.HOLDS, [])
    assert judged(text) == (Verdict.VIOLATED, ["false-rejection"])


def test_a_try_on_a_free_lock_that_is_told_it_is_held_is_a_spurious_refusal() -> None:
    free = FREE.format(tried="1t?@6 1t-@7")
    assert judged(free) == (Verdict.VIOLATED, ["spurious-refusal"])


@pytest.mark.parametrize(
    ("tried", "judged_too"),
    [
        ("1t?@6 1C@6.5 1t-@7", False),
        ("1t?@6 1t-@7 1C@7.5", False),
        ("1t?@6 1C@6 1t-@7", False),
        ("1t?@6 1t-@7 1C@50", True),
        ("1C@5.5 1t?@6 1t-@7", True),
        ("2C@6.5 1t?@6 1t-@7", True),
        ("1C@5.5 2C@6.5 1t?@6 1t-@7 1C@50", True),
    ],
)
def test_a_try_whose_session_may_have_ended_meanwhile_is_not_judged(
    tried: str, judged_too: bool
) -> None:
    text = FREE.format(tried=tried)
    free = FREE.format(tried="1t?@6 1t-@7")
    assert judged(text)[1] == ["spurious-refusal"] * judged_too
    # The verifier derives it from the rows by itself, whatever the checker says.
    found, given = check(case(free)), case(text)
    row = int(
        next(n for n in given.history.of(Op.TRY) if given.history.rows["t_inv"][n] == 6 * SECOND)
    )
    (finding,) = found.findings
    assert finding.proof is not None
    proof = replace(finding.proof, roles={"refused": row})
    forged = replace(found, findings=(replace(finding, witnesses=(row,), proof=proof),))
    refused = verified(given, told(given, forged)).refused
    assert len(refused) == (0 if judged_too else 1)


@pytest.mark.parametrize(
    "tried",
    [
        "1t?@4.5 1t-@7",
        "2a?@5.5 2a~@5.8 1t?@6 1t-@7",
        "2a?@5.5 1t?@6 1t-@7 2a+2@8 2r?@9 2r+@10",
        "2a?@5.5 1t?@6 1t-@7 2a-@8",
        "1t?@6 1t~@7",
        "1t?@6 1t-@7 2t?@20 2t+2@21",
    ],
)
def test_what_may_have_kept_a_try_out_excuses_its_refusal(tried: str) -> None:
    verdict, kinds = judged(FREE.format(tried=tried))
    # The last one is excused by nothing; it shows that the others are.
    assert kinds == (["spurious-refusal"] if "2t+" in tried else []), verdict


def test_a_fault_excuses_refusals_until_the_service_has_recovered() -> None:
    free = FREE.format(tried="1t?@6 1t-@7 2t?@90 2t-@91")
    (finding,) = check(case(free, windows=(window("kill", "leader", 5.5, 5.7),))).findings
    assert finding.t_ns == 90 * 10**9


def test_refusals_amid_faults_alone_say_nothing() -> None:
    words = FREE.format(tried="1t?@6 1t-@7")
    unfenced = {"options": {"resource": "unfenced"}}
    told = check(case(words, windows=(window("kill", "leader", 0, 20),), **unfenced))
    assert told.verdict is Verdict.UNKNOWN and "apart from faults" in told.reason
    assert (told.exercised["refused tries"], told.exercised["of them apart from faults"]) == (2, 0)


def test_a_lease_may_be_ended_a_little_late() -> None:
    dead = "0a?@0 0a+1@1 1t?@2 1t-@3 0C@4 {tried}"
    assert judged(dead.format(tried="1t?@11.5 1t-@12"))[1] == []
    assert judged(dead.format(tried="1t?@60 1t-@61"))[1] == ["spurious-refusal"]
