"""What a run contradicts is relied on by nobody, and only for the lock that contradicts it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.checkers.holds.contradictions import (
    LOOKS,
    against,
    asked_and_contradicted,
    fallen,
    stands,
    told,
)
from holdfast.checkers.holds.derive import attempts
from holdfast.checkers.holds.statements import (
    ENDING,
    FIFO,
    LASTING,
    RELEASES,
    RENEWALS,
    TOKENS,
    UNIQUE,
    believed,
)
from holdfast.checkers.properties import (
    bounded_bypass,
    mutual_exclusion,
    no_multi_lock_deadlock,
    no_stale_write,
    ownership,
    token_order,
    truthful_queries,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case

CONTRADICTED: dict[str, tuple[str, tuple[int, int]]] = {
    "0a? 0a+8 0r? 0r+ 1a? 1a+7": (TOKENS, (0, 2)),
    "0a? 0a+7 0r? 0r+ 1a? 1a+7": (TOKENS, (0, 2)),
    "0a? 1a? 1a+8 1r? 1r+ 0a+7 0r? 0r+": (TOKENS, (1, 0)),
    "0a? 1a? 1a+8/1 0a+7/60": (TOKENS, (1, 0)),
    "0a? 1a? 0a+7 1a+7": (UNIQUE, (0, 1)),
    "0a? 0a+7 0r? 0r+ 0n? 0n+": (RENEWALS, (1, 2)),
    "0a? 0a+7 0n? 0n! 0n? 0n+": (RENEWALS, (1, 2)),
    "0a? 0a- 0n? 0n+": (RENEWALS, (0, 1)),
    "0a? 0a+7 0r? 0r+ 0r? 0r+": (RELEASES, (1, 2)),
    "0a? 0a+7 0n? 0n! 0r? 0r+": (RELEASES, (1, 2)),
    "2a? 2a+1 0a? 0Q 1a? 2r? 2r+ 1a+2 1r? 1r+ 0a+3": (FIFO, (1, 3)),
    "0a? 0a+7/60 0n?/60@5 0n!@6": (LASTING, (0, 1)),
    "0a? 0a+7/60 1a?@5 1a+8@6": (LASTING, (0, 1)),
    "0a? 0a+7/10 0n?/10@30 0n+@31": (ENDING, (0, 1)),
}


@pytest.mark.parametrize("text", CONTRADICTED)
def test_two_rows_speak_against_an_assumption(text: str) -> None:
    assumption, rows = CONTRADICTED[text]
    found = against(case(text), assumption)
    assert [each.rows for each in found.values()] == [rows]
    assert assumption in told(case(text), assumption)


def test_every_assumption_is_contradicted_by_one_of_these() -> None:
    assert {assumption for assumption, _ in CONTRADICTED.values()} == set(LOOKS)


@pytest.mark.parametrize(
    "text",
    [
        "0a? 0a+7 0n? 0n+ 0r? 0r+ 1a? 1a+8 1n? 1n+ 1r? 1r+",
        "0a? 0a+7/10 0n?/10@9 0n~@9.5 0n?/10@18 0n+@19",
        "0a? 0a+7/10 0n?/10@14 0n+@15",
        "0a? 1a? 1a+8 1r? 1r+ 0a+9 0r? 0r+",
        "0a? 0a+7 0n? 0r? 0r+ 0n+",
        "0a? 0a+7/60 0L@5 0n?/60@5.5 0n!@6",
        "0a? 0a+7/60 9f?@3 9f+@4 0n?/60@5 0n!@6",
    ],
)
def test_a_run_that_is_as_declared_contradicts_nothing(text: str) -> None:
    assert fallen(case(text)) == {}


def test_only_the_lock_that_contradicts_an_assumption_goes_without_it() -> None:
    run = case("0a?:x 0a+8:x 0r?:x 0r+:x 1a?:x 1a+7:x 2a?:y 2a+1:y 2r?:y 2r+:y 3a?:y 3a+2:y")
    x, y = (run.history.strings.index(name) for name in "xy")
    assert (stands(run, x, TOKENS), stands(run, y, TOKENS)) == (False, True)


def test_what_is_not_declared_cannot_be_contradicted() -> None:
    nothing = {
        "tokens": "none",
        "tokens_unique": False,
        "order": "racing",
        "renew_proves": False,
        "release_proves": False,
        "release_once": False,
        "bound": "none",
    }
    for text in CONTRADICTED:
        assert fallen(case(text, promises=nothing)) == {}, text


def test_answers_that_are_contradicted_prove_no_hold() -> None:
    """An ok renewal after the attempt's own release: so c0's renewal amid c1's hold says nothing,
    and it is ownership that was broken."""
    text = "0a? 0a+1/2 1a?@9 1a+2@10 0n?/2@11 0n+@12 1n?@13 1n+@14 1r?@15 1r+@16 1n?@17 1n+@18"
    run = case(text)
    assert not believed(run, attempts(run)[0].key).renew_proves
    verdict = mutual_exclusion.check(run)
    assert verdict.findings == () and verdict.verdict is not Verdict.VIOLATED
    assert ownership.check(run).verdict is Verdict.VIOLATED
    kept = case(text.partition(" 1n?@17")[0])
    assert [f.kind for f in mutual_exclusion.check(kept).findings] == ["double-grant"]


VOTE: dict[str, Any] = {"order": "racing", "notice_ns": 2 * SECOND}
LATE = (
    "9a?@0 9a+4@0.1 3a?@5 1a?@5.01 9r?@6.1 9r+@6.11 1a+69@6.14 1r?@6.15 1r+@6.16"
    " 2a?@4.9 2a+73@6.23 2r?@6.232 2r+@6.24 3a+11@6.25 3r?@6.251 3r+@6.26"
)
"""A vote of separate counters: c3's token is smaller than those granted before it. Its holds are
disjoint: 9's until 6.11, c1's until 6.16, c2's until 6.24, and then c3's."""


def vote() -> Case:
    return case(LATE, promises=VOTE | {"bound": "lease"})


def test_a_vote_whose_holds_are_disjoint_is_convicted_of_its_tokens_only() -> None:
    verdict = mutual_exclusion.check(vote())
    assert (verdict.verdict, verdict.findings) == (Verdict.UNKNOWN, ())
    assert "out of order" in verdict.reason
    assert ownership.check(vote()).findings == ()
    assert no_stale_write.check(vote()).findings == ()
    assert no_multi_lock_deadlock.check(vote()).findings == ()
    assert {f.kind for f in token_order.check(vote()).findings} == {"token-inversion"}


def test_tokens_that_are_surely_wrong_decide_nothing_and_leave_the_doubt() -> None:
    text = "0a? 1a? 1a+8 1r? 1r+ 0a+7 0r? 0r+ 2a? 3a? 2a+1 2r? 2r+ 3a+2 3r? 3r+"
    given = case(text)
    verdict = mutual_exclusion.check(given)
    assert verdict.verdict is Verdict.UNKNOWN and not verdict.findings
    assert not stands(given, attempts(given)[0].key, "ordered tokens")
    assert "out of order, or two held it at once" in verdict.reason


def test_an_order_that_was_broken_excuses_places_that_grow() -> None:
    broken = "2a? 2a+1 0a? 0Q 1a? 0k? 0k+=0 0k? 0k+=1 2r? 2r+ 1a+2 1r? 1r+ 0a+3"
    assert bounded_bypass.check(case(broken)).verdict is Verdict.VIOLATED
    assert truthful_queries.check(case(broken)).findings == ()
    kept = "2a? 2a+1 0a? 0Q 1a? 0k? 0k+=0 0k? 0k+=1 2r? 2r+ 0a+2 0r? 0r+ 1a+3"
    assert truthful_queries.check(case(kept)).verdict is Verdict.VIOLATED


def test_a_lease_that_was_cut_short_lets_an_answer_say_that_nobody_holds() -> None:
    asked = "0a?@0 0a+7/60@1 1q?@2 1q+@3 "
    assert truthful_queries.check(case(asked)).verdict is Verdict.VIOLATED
    cut = asked + "0n?/60@4 0n!@5 2a?@6 2a+8/60@7 1q?@8 1q+@9"
    assert truthful_queries.check(case(cut)).findings == ()


@pytest.mark.parametrize("text", CONTRADICTED)
def test_what_another_part_of_the_run_contradicts_is_not_relied_on_either(text: str) -> None:
    assumption, _ = CONTRADICTED[text]
    fine = case("0a? 0a+7 0r? 0r+ 1a? 1a+8 1r? 1r+")
    lock = attempts(fine)[0].key
    assert stands(fine, lock, assumption)
    (contradiction,) = against(case(text), assumption).values()
    found = {lock: contradiction}
    part = replace(fine, contradicted={assumption: found}, memo={})
    assert not stands(part, lock, assumption)
    assert asked_and_contradicted(part) == {assumption: found}
