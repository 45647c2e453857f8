"""Fencing tokens: larger with every grant, and never twice."""

from __future__ import annotations

from typing import Any

from holdfast.checkers.properties import token_order
from holdfast.harness.core.case import History
from holdfast.harness.core.operations import Terms
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.shorthand import case, history, on


def judged(text: History | str, **changes: Any) -> PropertyVerdict:
    """The verdict on a history."""
    return token_order.check(case(text, **changes))


def kinds(verdict: PropertyVerdict) -> list[str]:
    """The kinds of its findings, in order."""
    return [finding.kind for finding in verdict.findings]


def test_growing_tokens_hold() -> None:
    assert judged("0a? 0a+7 1a? 0r? 0r+ 1a+8 1r? 1r+").verdict is Verdict.HOLDS


def test_a_smaller_token_for_a_later_grant_convicts() -> None:
    verdict = judged("0a? 0a+8 0r? 0r+ 1a? 1a+7 1r? 1r+")
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert (finding.kind, finding.witnesses) == ("token-inversion", (0, 2))
    assert finding.sentence == (
        "c1's grant of 'db' carries token 7 although it was requested at 4.000 s, after c0 had been"
        " granted it with the larger token 8 by 1.000 s"
    )


def test_one_process_must_see_its_own_tokens_grow() -> None:
    assert kinds(judged("0a? 0a+8 0r? 0r+ 0a? 0a+7 0r? 0r+")) == ["token-inversion"]


def test_grants_whose_calls_overlap_may_come_in_any_order() -> None:
    assert kinds(judged("0a? 1a? 0a+8 1a+7")) == []


def test_a_hold_that_reached_beyond_the_other_grant_tells_their_order() -> None:
    verdict = judged("0a? 1a? 1a+8 1r? 1r+ 0a+7@9 0n? 0n+")
    assert kinds(verdict) == ["token-inversion"]
    assert "still held at 10.000 s, when c1 had been granted it" in verdict.findings[0].sentence


def test_proofs_do_not_speak_of_order_where_the_lock_was_held_twice() -> None:
    assert kinds(judged("0a? 0a+7 1a? 1a+8 0n? 0n+")) == []


def test_one_token_for_two_owners_convicts_where_they_are_declared_unique() -> None:
    text = "0a? 1a? 0a+7 0r? 0r+ 1a+7 1r? 1r+"
    assert kinds(judged(text)) == ["token-repeated"]
    assert kinds(judged(text, promises={"tokens_unique": False})) == []


def test_the_same_token_for_a_later_owner_convicts_in_any_case() -> None:
    text = "0a? 0a+7 0r? 0r+ 1a? 1a+7"
    assert kinds(judged(text, promises={"tokens_unique": False})) == ["token-repeated"]


def test_an_owner_may_be_let_in_again_with_its_token_if_it_asks_for_that() -> None:
    twice = history("0a? 0a+7 0a? 0a+7")
    assert kinds(judged(on(twice, Terms(reenter=True)))) == []
    assert kinds(judged("0a? 0a+7 0a? 0a+7")) == ["token-repeated"]


def test_a_token_is_not_granted_to_its_owner_again_after_its_release() -> None:
    released = "0a? 0a+3 0r? 0r+ 0a? 0a+3 0r? 0r+ 1a? 1a+4"
    assert kinds(judged(released)) == ["token-repeated"], "terms exclude re-entry"
    for words, expected in (
        (released, ["token-repeated"]),
        (released.replace("0r+", "0r~", 1), []),
        (f"0a? 0a~ {released}".replace("0.1", "0.2"), []),
        ("0a? 0a+3 0a? 0a+3 0.1r? 0.1r+ 0a? 0a+3", []),
        ("0a? 0a+3 0a? 0a+3 0.1r? 0.1r+ 0.2r? 0.2r+ 0a? 0a+3", ["token-repeated"]),
        ("0a? 0a+3 0a? 0a+3 0.2r? 0.2r+ 0.1r? 0.1r! 0a? 0a+3", ["token-repeated"]),
        ("0a? 0a+3 0r?@30 0r+ 0a?@40 0a+3", ["token-repeated"]),
        ("0a? 0a+3 0a?@40 0a+3", []),
    ):
        told = on(history(words), Terms(reenter=True))
        assert kinds(judged(told)) == expected, words
        loose = {"tokens_unique": False, "keeps": {}}
        assert kinds(judged(told, promises=loose)) == expected, words


def test_locks_have_tokens_of_their_own() -> None:
    assert kinds(judged("0a? 0a+8 1a?:x 1a+7")) == []


def test_readers_need_no_order_among_themselves() -> None:
    told = case("0a? 0a+8 1a? 1a+7")
    told.history.rows["mode"] = 1
    assert token_order.check(told).findings == ()


def test_clock_error_between_writers_excuses_an_order() -> None:
    text = "0a? 0a+8 0r? 0r+ 1a? 1a+7"
    assert kinds(judged(text, error_ns=2 * 10**9)) == []


def test_without_tokens_nothing_is_said() -> None:
    none = judged("0a? 0a+ 1a? 0r? 0r+ 1a+", promises={"tokens": "none"})
    assert none.verdict is Verdict.UNKNOWN
    assert none.reason.startswith("this system has no fencing tokens")
    assert judged("0a? 0a+ 1a? 0r? 0r+ 1a+").reason == "no grant carried a token: 0 of 2"
