"""Writes of owners whose hold is over, whether or not a newer owner has come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast.checkers.evidence.summary import evidence
from holdfast.checkers.properties.no_expired_write import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, Terms
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on

STALE = " 1a?@40 2a?@40.1 1a+8@41 1n?@42 1n!@43 2a+9@44 2w?@45 2S+@46 2w+@47 1w?@48 1S-@49 1w-@50"


ENDS = {
    "release": ("0a? 0a+1 0r? 0r+ 0w? 0S+ 0w+", "had been released by 3.000 s"),
    "not the owner": ("0a? 0a+1 0n? 0n! 0w? 0S+ 0w+", "had ended, as the service reported"),
    "notice": ("0a? 0a+1 0L 0w? 0S+ 0w+", "was lost, as the client had been notified by 2.000 s"),
    "operator": ("0a? 0a+1 9f?:db 9f+ 0w? 0S+ 0w+", "had been ended by an operator by 3.000 s"),
    "operator, by its token": (
        "0a? 9f? 0a+1 9f+1 0w? 0S+ 0w+",
        "had been ended by an operator by 3.000 s",
    ),
    "lease": (
        "0a?@0 0a+1@1 0w?@14 0S+@15 0w+@16",
        "had expired with its lease, with 3.000 s of tolerance, by 14.000 s",
    ),
    "successor": (
        "0a?@0 0a+1/1@1 1a?@1.5 1a+2@3 0w?@4 0S+@5 0w+@6",
        "had passed on to the next owner by 3.000 s",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_write_after_a_certain_end_is_accused(end: str) -> None:
    text, words = ENDS[end]
    verdict = check(case(text))
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert finding.kind == "expired-owner-write"
    assert words in finding.sentence
    assert 2 <= len(finding.witnesses) <= 6


NO_END = {
    "an unanswered release": "0a? 0a+1 0r? 0r~ 0w? 0S+ 0w+",
    "a write on its way": "0a? 0a+1 0w? 0r? 0S+ 0r+ 0w+",
    "a renewal in time": "0a?@0 0a+1@1 0n?@9 0n+@9.5 0w?@11 0S+@12 0w+@13",
    "a renewal that may have come": "0a?@0 0a+1@1 0n?@9 0n~@9.5 0w?@11 0S+@12 0w+@13",
    "an unlock that may have come before the grant": "0a? 9f? 0a+1 9f+ 0w? 0S+ 0w+",
    "an unlock of another hold": "0a? 0a+1 9f? 9f+3 0w? 0S+ 0w+",
    "an unlock that was refused": "0a? 0a+1 9f? 9f- 0w? 0S+ 0w+",
    "a lease that the service noticed late": "0a?@0 0a+1@1 0w?@13 0S+@13.9 0w+@14.5",
    "no lease": "0a?@0 0a+1/0@1 0w?@99 0S+@100 0w+@101",
}


@pytest.mark.parametrize("why", NO_END)
def test_without_a_certain_end_nobody_is_accused(why: str) -> None:
    assert not check(case(NO_END[why])).findings


@pytest.mark.parametrize(("sent", "found"), [("2.9", 0), ("3.1", 0), ("4.1", 1)])
def test_a_notice_counts_from_the_latest_moment_that_it_can_have_come(
    sent: str, found: int
) -> None:
    """Stamps of several hosts are widened: the notice of 2 s came between 1 s and 3 s."""
    told = case(f"0a?@0 0a+1@0.5 0L@2 0w?@2.5 0S+@{sent} 0w+@9", error_ns=SECOND)
    rows = told.history.rows
    lost = rows["f"] == Op.LOST
    rows["t_inv"][lost], rows["t_ret"][lost] = SECOND, 3 * SECOND
    assert len(check(told).findings) == found


def test_a_write_after_a_newer_owners_is_expired_as_well_as_stale() -> None:
    text = "0a? 0a+1 0r? 0r+ 1a? 1a+2 1w? 1S+ 1w+ 0w? 0S+ 0w+"
    (finding,) = check(case(text, options={"resource": "unfenced"})).findings
    assert "from c0 (token 1) at 10.000 s, although its hold had been released" in finding.sentence


def test_the_next_owners_grant_ends_a_hold_that_was_not_promised_so_long() -> None:
    text = "0a?@0 0a+1/9@1 0n?@2 0n~@3 1a?@14 1a+2@15 0w?@16 0S+@17 0w+@18"
    (finding,) = check(case(text)).findings
    assert "had passed on to the next owner by 15.000 s" in finding.sentence


def test_a_grant_inside_a_promised_hold_ends_nothing() -> None:
    text = "0a?@0 0a+1@1 1a?@2 1a+2@3 0w?@4 0S+@5 0w+@6"
    assert not check(case(text)).findings


def test_a_lease_that_a_faulty_server_may_have_counted_anew_proves_no_end() -> None:
    text = ENDS["lease"][0]
    changes = {"options": {"resource": "fenced", "servers": "3"}}
    assert not check(case(text, windows=(window("pause", "n1", 2, 3),), **changes)).findings
    assert check(case(text, windows=(window("pause", "c0", 2, 12),), **changes)).findings


def test_a_revived_lease_ended_nowhere_before() -> None:
    text = "0a?@0 0a+1/1@1 0n?@5 0n+/9@6 0w?@7 0S+@8 0w+@9"
    assert not check(case(text, promises={"renew_proves": False})).findings


def test_it_holds_when_a_late_owner_was_refused() -> None:
    verdict = check(case("0a?@0 0a+1@1 0w?@2 0S+@3 0w+@4 0r?@5 0r+@6" + STALE))
    assert verdict.verdict is Verdict.HOLDS, verdict
    assert verdict.exercised["of them refused"] == 1


def test_it_is_unknown_when_every_owner_was_in_time() -> None:
    verdict = check(case("0a? 0a+1 1a? 0w? 0S+ 0w+ 0r? 0r+ 1a+2 1w? 1S+ 1w+ 1r? 1r+"))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "no write came from an owner whose hold had certainly ended: 0 of 2" in verdict.reason


MAY_GO_ON: dict[str, tuple[str, dict[str, Any]]] = {
    "an unlock that came while the grant was on its way": (
        "0a?@0 9f?:db@1 0a+1@2 9f+@3 0w?@4 0S+@5 0w+@6",
        {},
    ),
    "an unlock of another token": ("0a? 0a+1 9f?5 9f+5 0w? 0S+ 0w+", {}),
    "an unlock of unknown outcome": ("0a? 0a+1 9f? 9f~ 0w? 0S+ 0w+", {}),
    "a renewal of unknown outcome that may bring it back": (
        "0a?@0 0a+1/1@1 0n?@1.5 0n~@2 0n?@5 0n!@6 0w?@7 0S+@8 0w+@9",
        {"renew_proves": False},
    ),
    "a lease that the service's clock may count longer": (
        "0a?@0 0a+1@1 0w?@11.2 0S+@11.4 0w+@13",
        {"drift_ppm": 50_000},
    ),
    "a lease with a declared slip": (
        "0a?@0 0a+1@1 0w?@11.2 0S+@11.4 0w+@13",
        {"slip_ns": 500_000_000},
    ),
}


@pytest.mark.parametrize("why", MAY_GO_ON)
def test_a_hold_that_may_have_gone_on_is_not_reported(why: str) -> None:
    text, promises = MAY_GO_ON[why]
    assert not check(case(text, promises=promises)).findings


def test_a_write_under_the_outer_of_two_holds_of_one_owner_is_not_reported() -> None:
    told = history("0a? 0a+1 0a? 0a+1 0r? 0r+ 0.1w? 0S+ 0.1w+")
    inside = case(on(told, Terms(reenter=True)))
    assert not check(inside).findings
    assert not check(case("0a? 0a+1 0a? 0a+1 0r? 0r+ 0.1w? 0S+ 0.1w+")).findings
    told = history("0a? 0a+1 0a? 0a+1 0.1r? 0.1r+ 0.1w? 0S+ 0.1w+")
    assert not check(case(on(told, Terms(reenter=True)))).findings
    assert len(check(case("0a? 0a+1 0a? 0a+1 0.1r? 0.1r+ 0.1w? 0S+ 0.1w+")).findings) == 1


@pytest.mark.parametrize("offset_s", [-2, -1, 0, 1, 2])
def test_clock_error_never_turns_a_write_before_the_notice_into_one_after_it(offset_s: int) -> None:
    """c0 writes at 20 s and learns of the loss at 20.5 s; both clocks are wrong by up to the
    proven error, and every interval is widened by that, as the merge of a run does."""
    error_ns = 2 * SECOND
    told = history("0a?@0 0a+1/60@1 0w?@19 0S+@20 0L@20.5 0w+@21")
    off_ns = np.where(told.rows["f"] == Op.SERVED_WRITE, offset_s, -offset_s) * SECOND
    told.rows["t_inv"] += off_ns - error_ns
    told.rows["t_ret"] += off_ns + error_ns
    assert not check(case(told, error_ns=error_ns)).findings


def test_every_write_that_the_evidence_counts_as_accepted_is_a_finding() -> None:
    judged = case("0a? 0a+1 0r? 0r+ 0w? 0S+ 0w+ 1a? 1a+2 1w? 1S+ 1w+ 0w? 0S+ 0w+")
    told = plain(evidence(judged))["expired_owner"]
    assert isinstance(told, dict) and told["accepted"] == 2
    assert len(check(judged).findings) == 2


def test_of_two_force_unlocks_the_one_after_the_last_renewal_ended_the_hold() -> None:
    given = case("0a? 0a+1 9f? 9f+ 0n? 0n+ 0w? 9f? 9f+ 0S+ 0w+")
    (finding,) = check(given).findings
    assert "had been ended by an operator" in finding.sentence


def test_a_client_that_was_refused_had_no_hold_that_could_end() -> None:
    assert not check(case("0a? 0a- 0r? 0r+ 0w? 0S+ 0w+")).findings
    assert not check(case("0a? 0a! 0n? 0n! 0w? 0S+ 0w+")).findings
