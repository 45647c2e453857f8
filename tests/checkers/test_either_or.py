"""What is proved as "one of two", and no property may drop because it may be the other's fault.

A lock that sets its key and draws its token in two requests: a client that is stopped between the
two draws a larger token than the rightful owner's, and writes with it.
"""

from __future__ import annotations

import pytest

from holdfast.checkers.properties import (
    mutual_exclusion,
    no_false_rejection,
    no_stale_write,
    ownership,
    token_order,
    truthful_queries,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Verdict
from tests.checkers.certified import told, verified
from tests.checkers.faults import window
from tests.checkers.shorthand import case

TWO_REQUESTS = (
    "2a?/{lease}@0 0a?/{lease}@1 0a+18/{lease}@1.5 0n?/{lease}@2 0n+/{lease}@2.1 0w?@2.2"
    " 0S+@2.3 0w+@2.4 2a+19/{lease}@3 2w?@3.02 2S+@3.04 2w+@3.06 0w?@3.1 0S-@3.2 0w-@3.3"
    " 0r?@4 0r+@4.1"
    " 1a?/{lease}@9 1a+20/{lease}@9.5 1r?@10 1r+@10.1"
)
BOTH = "out of order, or"


def made(proves: bool, *kept: str) -> Case:
    """The report in few words. Proved by its ok release, or promised by its lease."""
    said = dict.fromkeys(("renew_proves", "release_proves", "release_once"), proves)
    lease = 1.0 if proves else 1.4
    keeps = dict.fromkeys(kept, ("any",))
    return case(TWO_REQUESTS.replace("{lease}", f"{lease}"), promises={**said, "keeps": keeps})


@pytest.mark.parametrize("proves", [True, False])
def test_where_both_are_promised_it_is_a_violation_that_names_both(proves: bool) -> None:
    verdict = token_order.check(made(proves, "token-order", "mutual-exclusion"))
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert finding.sentence.endswith(": its token is out of order, or both held at once")


@pytest.mark.parametrize("proves", [True, False])
@pytest.mark.parametrize("kept", ["token-order", "mutual-exclusion", ""])
def test_where_one_is_promised_neither_holds(kept: str, proves: bool) -> None:
    """And each says so in one sentence, whichever is promised."""
    for check in (token_order.check, mutual_exclusion.check):
        verdict = check(made(proves, *filter(None, [kept])))
        assert verdict.verdict is not Verdict.HOLDS, kept
        if verdict.verdict is Verdict.UNKNOWN:
            assert BOTH in verdict.reason, verdict.reason


@pytest.mark.parametrize(
    "kept", [("token-order",), ("mutual-exclusion",), ("token-order", "mutual-exclusion")]
)
def test_tokens_that_are_out_of_order_for_certain_excuse_no_two_owners(
    kept: tuple[str, ...],
) -> None:
    """That other tokens are in disorder is no reason why these two may not have held at once."""
    before = "3a?@0 3a+25@0.1 3r?@0.2 3r+@0.3 1a?@0.4 1a+5@0.5 1r?@0.6 1r+@0.7 "
    words = before + TWO_REQUESTS.replace("{lease}", "1.0").replace("+20", "+30")
    given = case(words, promises={"keeps": dict.fromkeys(kept, ("any",))})
    verdict = token_order.check(given)
    assert verdict.verdict is Verdict.VIOLATED
    (one,) = [
        f.sentence for f in verdict.findings if "token 18" in f.sentence and "19" in f.sentence
    ]
    assert one.endswith(": its token is out of order, or both held at once")
    outcome = verified(given, told(given, verdict))
    assert not outcome.refused and outcome.accepted == len(verdict.findings)
    verdict = mutual_exclusion.check(given)
    assert verdict.verdict is Verdict.UNKNOWN and BOTH in verdict.reason, verdict.reason


def test_tokens_that_are_only_out_of_order_cast_no_doubt_on_the_owners() -> None:
    """One came after the other by their calls."""
    keeps = dict.fromkeys(("token-order", "mutual-exclusion"), ("any",))
    words = "3a? 3a+25 3r? 3r+ 1a? 1a+5 1n? 1n+ 1r? 1r+ 0a? 0a+30 0r? 0r+"
    given = case(words, promises={"keeps": keeps})
    assert token_order.check(given).verdict is Verdict.VIOLATED
    assert BOTH not in mutual_exclusion.check(given).reason


@pytest.mark.parametrize("down_s", [0.5, 3.5, None])
def test_a_counter_that_a_crash_may_reset_explains_only_what_follows_the_crash(
    down_s: float | None,
) -> None:
    keeps = {"mutual-exclusion": ("any",), "token-order": ("pause",)}
    windows = () if down_s is None else (window("kill", "n1", down_s, down_s + 0.1),)
    given = case(TWO_REQUESTS.replace("{lease}", "1.4"), promises={"keeps": keeps}, windows=windows)
    reason = mutual_exclusion.check(given).reason
    assert (BOTH in reason) == (down_s != 0.5), reason


def test_a_write_with_the_larger_token_may_be_the_stale_one() -> None:
    verdict = no_stale_write.check(made(True, "token-order", "mutual-exclusion"))
    assert verdict.verdict is Verdict.UNKNOWN and "it is stale, or two held" in verdict.reason


@pytest.mark.parametrize("proves", [True, False])
def test_a_resource_that_refuses_the_owner_inside_its_hold_is_told(proves: bool) -> None:
    verdict = no_false_rejection.check(made(proves))
    assert [finding.kind for finding in verdict.findings] == ["false-rejection"]


def test_locks_whose_tokens_mean_nothing_are_not_disputed() -> None:
    given = case(TWO_REQUESTS.replace("{lease}", "1.0"), promises={"tokens": "unordered"})
    assert BOTH not in mutual_exclusion.check(given).reason


BESIDE = "0a?@0 0a+5@0.1 1a?@0.2 {}2q?@2 2q+6=0@2.1 0n?@3 0n+@3.1 0r?@4 0r+@4.1"
EXCLUDES = {"mutual-exclusion": ("any",)}


@pytest.mark.parametrize("tokens", ["ordered", "unordered"])
@pytest.mark.parametrize("named", ["1a~@0.3 ", ""])
def test_a_response_that_names_another_during_a_hold_is_false_or_two_held(
    named: str, tokens: str
) -> None:
    """The attempt that it names may have been granted: its acquire has no response."""
    given = case(BESIDE.format(named), promises={"keeps": EXCLUDES, "tokens": tokens})
    verdict = truthful_queries.check(given)
    (finding,) = verdict.findings
    assert finding.sentence.endswith(
        "c0 held it throughout, with token 5: the response is false, or two held at once"
    )
    outcome = verified(given, told(given, verdict))
    assert (outcome.accepted, outcome.refused) == (1, [])


def test_where_two_may_hold_at_once_the_response_may_be_true() -> None:
    assert not truthful_queries.check(case(BESIDE.format(""), promises={"keeps": {}})).findings


@pytest.mark.parametrize(
    "words",
    [
        BESIDE.format("").replace("0n?@3 0n+@3.1 0r?@4 0r+@4.1", "0r?@1.9 0r+@2.2"),
        BESIDE.format("").replace("1a?@0.2", "0.2a?@0.2 0.2a~@0.3 1a?@0.4"),
    ],
    ids=["released meanwhile", "entered twice"],
)
def test_a_response_that_may_be_true_is_let_pass(words: str) -> None:
    found = truthful_queries.check(case(words, promises={"keeps": EXCLUDES})).findings
    assert not found, [finding.sentence for finding in found]


NOT_OWNER = "0a?@0 0a+1@0.1 0n?@1 0n!@1.1 {} 1a?@4 1a+2@4.1 1r?@5 1r+@5.1"


@pytest.mark.parametrize("again", ["0n?@2 0n+@2.1 0r?@3 0r+@3.1", "0r?@3 0r+@3.1"])
def test_an_attempt_that_is_called_over_and_then_confirmed_is_told(again: str) -> None:
    """One of two responses is false: the first, or that of an attempt that did not hold."""
    verdict = ownership.check(case(NOT_OWNER.format(again)))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "c0 was answered at 1.100 s that its hold of 'db' was over" in verdict.reason
    assert verdict.reason.count("or an attempt that did not hold was confirmed") == 1


@pytest.mark.parametrize(
    ("words", "promises"),
    [
        (NOT_OWNER.format("0n?@2 0n!@2.1"), {}),
        (NOT_OWNER.format("0n?@2 0n+@2.1"), {"renew_proves": False}),
        ("0a?@0 0r?@1 0r!@1.1 0a~@2 0n?@2.5 0n+@3 1a?@19 1a+2@20", {}),
    ],
    ids=["twice not the owner", "a renewal that may take it again", "granted after the response"],
)
def test_responses_that_can_all_be_true_are_not_told(words: str, promises: dict[str, bool]) -> None:
    assert "confirmed" not in ownership.check(case(words, promises=promises)).reason


def test_an_ok_within_a_lease_that_was_cut_short_is_another_s_or_the_lease_is_broken() -> None:
    """That the owner finds its hold gone is what such a release leaves behind."""
    words = "0a?/1@0 0a+1/1@0.1 1a?@1.5 1a+2@1.6 0r?@2 0r+@2.1"
    given = case(words, promises={"renew_proves": False})
    assert ownership.check(given).verdict is Verdict.VIOLATED
    given = case(words + " 1n?@3 1n!@3.1", promises={"renew_proves": False})
    verdict = ownership.check(given)
    assert verdict.verdict is Verdict.UNKNOWN and "c0's release of 'db'" in verdict.reason
    assert "or a lease was over before its time" in verdict.reason
