"""What a release says of its owner's entries, held against those that it can and must have."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from holdfast.checkers.properties import truthful_queries
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Terms
from holdfast.harness.core.verdict import Finding, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case, history, on
from tests.draws import Draws

TWICE = "0a? 0a+7 0a? 0a+7 "


def findings(given: Case) -> list[Finding]:
    """Those about entries, each of which the verifier has to accept. Owners ask to re-enter."""
    given = replace(given, history=on(given.history, Terms(reenter=True)))
    verdict = truthful_queries.check(given)
    outcome = verified(given, told(given, verdict))
    assert not outcome.refused
    found = [finding for finding in verdict.findings if finding.kind == "false-entries"]
    assert outcome.accepted == len(found)
    return found


@pytest.mark.parametrize("left", [0, 1, 2])
def test_the_inner_release_leaves_one_entry_and_the_outer_none(left: int) -> None:
    assert len(findings(case(f"{TWICE}0r? 0r+={left} 0.1n? 0.1n+"))) == (left != 1)
    last = f"{TWICE}0r? 0r+=1 0.1r? 0.1r+={left}"
    assert len(findings(case(last))) == (left != 0)


def test_the_sentence_says_what_was_answered_and_why_it_cannot_be() -> None:
    (few,) = findings(case(TWICE + "0r? 0r+=0 0.1n? 0.1n+"))
    assert few.sentence == (
        "c0's release of 'db', sent at 4.000 s, returned that it fully releases it; but its"
        " entry granted by 1.000 s was still in force"
    )
    assert few.witnesses == (0, 1, 2)
    (many,) = findings(case("0a? 0a+7 0r? 0r+=1"))
    assert many.sentence.endswith("leaves it 1 more; but at most 0 can have been left")


@pytest.mark.parametrize(
    "text",
    [
        TWICE + "0r? 0r+",
        TWICE + "0r?@50 0r+=0",
        TWICE + "0r?@50 0r+=1",
        TWICE + "0r? 0r~=0",
        TWICE + "0.1r? 0.1r~ 0r? 0r+=1",
        TWICE + "0.1r? 0.1r~ 0r? 0r+=0",
        "0a? 0a+7 0a? 0a~ 0.1r? 0.1r+=1",
        "0a? 0Q 0a~ 0r? 0r! 0a? 0a+7 0r? 0r+=1",
        "0a? 0a+7 0a? 0a~ 0.1r? 0.1r+=0",
        "0a?:x 0a+7 0a?:y 0a+8 0r?:y 0r+=0",
        "0a? 0a+7 1a? 1Q 0r? 0r+=0 1a+8",
        TWICE + "9f? 9f+ 0r? 0r+=0",
    ],
)
def test_what_can_be_right_is_let_pass(text: str) -> None:
    assert findings(case(text)) == []


def test_an_entry_that_ended_before_is_not_left() -> None:
    assert findings(case(TWICE + "0.1n? 0.1n! 0r? 0r+=1"))
    assert findings(case("0a? 0a+7 0a? 0a- 0.1r? 0.1r+=1"))


def test_the_error_of_clocks_between_hosts_excuses() -> None:
    late = TWICE + "0r? 0r+=0 0.1n?@9.5 0.1n+"
    assert findings(case(late)) and not findings(case(late, error_ns=8 * SECOND))


def test_releases_that_never_left_an_entry_show_nothing() -> None:
    contended = "1a? 1Q 0r? 0r+={} 0.1r? 0.1r+=0 1a+8 1r? 1r+=0"
    verdict = truthful_queries.check(case(TWICE + contended.format(1)))
    assert (verdict.verdict, verdict.exercised["releases with entries left"]) == (Verdict.HOLDS, 1)
    single = truthful_queries.check(case("0a? 0a+7 1a? 1Q 0r? 0r+=0 1a+8 1r? 1r+=0"))
    assert single.verdict is Verdict.UNKNOWN
    assert "no release reported entries left, or none reported that none are" in single.reason


def test_the_true_count_is_never_reported_and_each_other_one_is(draws: Draws) -> None:
    """One owner goes in and out at random; its true depth is known, and so is every answer."""
    rng = random.Random(3)
    for _ in range(draws(200)):
        now, depth, entered, words, lies = itertools.count(), list[int](), 0, list[str](), 0
        for _ in range(10):
            if depth and (len(depth) == 4 or rng.random() < 0.5):
                out = depth.pop(rng.randrange(len(depth)))
                said = max(0, len(depth) + rng.choice((0, 0, 0, 1, -1)))
                lies += said != len(depth)
                words += [f"0.{out}r?@{next(now) / 8}", f"0.{out}r+={said}@{next(now) / 8}"]
            else:
                entered += 1
                depth.append(entered)
                words += [f"0a?@{next(now) / 8}", f"0a+7@{next(now) / 8}"]
        # So that what is still open is known to have lasted: its lease of 10 s does.
        assert len(findings(case(history(" ".join(words))))) == lies, words
