"""Stale accepted writes: who is newer, and what the resource's own log says."""

from __future__ import annotations

from holdfast.checkers.properties.no_stale_write import check
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history

REFUSED = "0a? 0a+1 1a? 0w? 0S+ 0w+ 0n? 0n! 1a+2 1w? 1S+ 1w+ 0w? 0S- 0w- 1r? 1r+"
ACCEPTED = "0a? 0a+1 1a? 0w? 0S+ 0w+ 0n? 0n! 1a+2 1w? 1S+ 1w+ 0w? 0S+ 0w+ 1r? 1r+"


def test_a_resource_that_refuses_the_older_owner_keeps_its_promise() -> None:
    verdict = check(case(REFUSED))
    assert verdict.verdict is Verdict.HOLDS, verdict
    assert verdict.exercised["stale requests refused"] == 1


def test_an_older_owners_write_after_a_newer_owners_is_stale() -> None:
    verdict = check(case(ACCEPTED))
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert finding.kind == "stale-accepted-write"
    assert "from c0 (token 1) at 13.000 s" in finding.sentence
    assert "c1 (token 2) at 10.000 s" in finding.sentence
    kinds = [int(case(ACCEPTED).history.rows["f"][row]) for row in finding.witnesses]
    assert kinds == [1, 1, 13, 11, 13]


def test_without_a_stale_request_nothing_was_tried() -> None:
    verdict = check(case("0a? 0a+1 1a? 0w? 0S+ 0w+ 0r? 0r+ 1a+2 1w? 1S+ 1w+ 1r? 1r+"))
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "the resource had no stale request to refuse: 0 of 2"


def test_a_read_of_the_newer_owner_is_an_admission_too() -> None:
    text = "0a? 0a+1 1a? 0n? 0n! 1a+2 1d? 1D+ 1d+ 0w? 0S+ 0w+ 1r? 1r+"
    assert check(case(text)).verdict is Verdict.VIOLATED


def test_a_stale_read_changes_nothing_and_is_not_accused() -> None:
    text = "0a? 0a+1 1a? 0n? 0n! 1a+2 1w? 1S+ 1w+ 0d? 0D+ 0d+ 1r? 1r+"
    assert not check(case(text)).findings


def test_the_forced_order_of_grants_decides_before_the_token() -> None:
    text = "0a? 0a+9 0n? 0n! 1a? 1a+2 1w? 1S+ 1w+ 0w? 0S+ 0w+ 1r? 1r+"
    assert len(check(case(text)).findings) == 1


def test_overlapping_acquires_without_ordered_tokens_have_no_order() -> None:
    text = "0a? 1a? 0a+ 1a+ 1w? 1S+ 1w+ 0w? 0S+ 0w+ 1r? 1r+ 0r? 0r+"
    assert not check(case(text, promises={"tokens": "none"})).findings


def test_overlapping_acquires_are_ordered_by_their_tokens() -> None:
    text = "0a? 1a? 0a+1 1a+2 1w? 1S+ 1w+ 0w? 0S+ 0w+ 1r? 1r+ 0r? 0r+"
    assert len(check(case(text)).findings) == 1


def test_tokens_that_the_run_contradicts_say_nothing_of_who_is_newer() -> None:
    """Token 9 came before 1 and 2: so the order of those two is not known either."""
    text = (
        "2a?@0 2a+9@1 2w?@2 2S+@3 2w+@4 2r?@5 2r+@6"
        " 0a?@7 1a?@7.1 0a+1@8 1a+2@9 1w?@10 1S+@11 1w+@12 0w?@13 0S+@14 0w+@15"
    )
    assert not check(case(text)).findings
    (finding,) = check(case(text.replace("2a+9@1", "2a+0@1"))).findings
    assert "c1 (token 2)" in finding.sentence


def test_the_late_write_of_a_clients_own_earlier_attempt_is_no_conflict() -> None:
    text = "0a? 0a+1 0r? 0r+ 0a? 0a+2 0w? 0S+ 0w+ 0.1w? 0S+ 0.1w+ 0r? 0r+"
    assert not check(case(text)).findings


def test_what_a_client_believes_of_its_write_does_not_count() -> None:
    text = "0a? 0a+1 1a? 0n? 0n! 1a+2 1w? 1S+ 1w+ 0w? 0S- 0w~ 1r? 1r+"
    assert check(case(text)).verdict is Verdict.HOLDS


def test_a_write_told_accepted_that_the_log_does_not_have_is_a_fault_of_the_resource() -> None:
    text = REFUSED + " 1a? 1a+3 1w? 1w+ 1r? 1r+"
    verdict = check(case(text))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "log lacks 1 request" in verdict.reason


def test_missing_rows_do_not_take_a_stale_write_back() -> None:
    told = history(ACCEPTED, problems=["writer c0: rows 4 to 9 are missing"])
    assert check(case(told)).verdict is Verdict.VIOLATED
    told = history(REFUSED, problems=["writer c0: rows 4 to 9 are missing"])
    assert check(case(told)).verdict is Verdict.UNKNOWN


def test_an_unfenced_resource_that_no_older_owner_wrote_to_shows_nothing() -> None:
    text = "0a? 0a+1 1a? 0w? 0S+ 0w+ 0r? 0r+ 1a+2 1w? 1S+ 1w+ 1r? 1r+"
    verdict = check(case(text, options={"resource": "unfenced"}))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "no older owner's write came after a newer owner's: 0 of 2" in verdict.reason
