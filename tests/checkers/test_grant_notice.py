"""When a client that waited has to have heard of its grant, and what excuses a late notice."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.checkers.properties import grant_notice
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import DELAY, PRESSURE, Starved, Terms
from holdfast.harness.core.verdict import Finding, Verdict
from tests.checkers.certified import told, verified
from tests.checkers.examples import Examples
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on

LATE = "0a? 0a+7 1a? 1Q 0r? 0r+ 2q? 2q+8=0@7 1a+8@{}"
"""The limit is 3 s: 1 holds by 7 s, as 2 is told."""


EXAMPLES = Examples(
    prop="grant-notice",
    not_exercised={
        "nobody waited": ("0a? 0a+1 1q? 1q+1=0 0r? 0r+", {}, "no response named a holder that had"),
        "nobody asked who holds": (
            "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2",
            {},
            "no response named a holder that had waited: 0 of 1 grants to waiting clients",
        ),
        "another was named": (
            "0a? 0a+1 1a? 1Q 2q? 2q+1=0 0r? 0r+ 1a+2",
            {},
            "no response named a holder that had waited",
        ),
        "no time": (
            "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 2q? 2q+2=0",
            {"promises": {"notice_ns": 0}},
            "no time for a notice is promised",
        ),
    },
    holds=("0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 2q? 2q+2=0", {}, ""),
    found={"a late notice of a grant": (LATE.format(11), {})},
    plans={"grant-notice/late-word/any": "--nemesis kill --time 20s --workload queries"},
)


def starved(node: str, kind: str) -> Starved:
    return Starved(node=node, kind=kind, from_ns=8 * SECOND, to_ns=9 * SECOND)


def findings(text: str | History, **changes: Any) -> tuple[Finding, ...]:
    """The findings, each of which the verifier has to accept."""
    given = case(text, **changes)
    verdict = grant_notice.check(given)
    outcome = verified(given, told(given, verdict))
    assert not outcome.refused and outcome.accepted == len(verdict.findings)
    return verdict.findings


def test_the_clock_error_is_added_to_the_limit() -> None:
    for at_s, late in ((10.9, False), (11, False), (11.000000001, True)):
        assert bool(findings(LATE.format(at_s), error_ns=SECOND // 2)) == late, at_s


def test_a_grant_that_others_were_told_of_long_before_is_late() -> None:
    (finding,) = findings(LATE.format(10.5))
    assert finding.sentence == (
        "c1, which waited for 'db', was notified of its grant only at 10.500 s: a query of"
        " c2 had named it as holder by 7.000 s, and the limit is 3.000 s"
    )
    assert finding.witnesses == (1, 2, 4)
    assert findings(LATE.format(10)) == ()
    unknown = LATE.format(10.5).replace("1a+8", "1a~8")
    assert [one.kind for one in findings(unknown)] == ["late-grant-notice"]


def test_a_response_may_have_named_an_entry_whose_acquire_had_no_answer() -> None:
    """It has the token of all entries of its owner."""
    text = "1t?@0 1t~@0.1 0a?@0.2 " + LATE.format(10.5).removeprefix("0a? ")
    for terms, late in ((Terms(reenter=True), 0), (Terms(), 1)):
        assert len(findings(on(history(text), Terms(), terms))) == late


@pytest.mark.parametrize(
    "text",
    [
        LATE.format(20).replace("1Q ", ""),
        LATE.format(20).replace("2q+8=0@7", "2q+9=0@7"),
        LATE.format(20).replace("2q+8=0@7", "2q~@7"),
        LATE.format(20).replace("1a+8", "1a-"),
        LATE.format(20).replace("1a+8", "1a~"),
        LATE.format(20) + " 1a? 1a+8",
    ],
)
def test_who_did_not_wait_or_was_not_named_alone_is_not_judged(text: str) -> None:
    assert findings(text) == ()


EXCUSES: tuple[tuple[dict[str, Any], bool], ...] = (
    ({"windows": (window("pause", "c1", 8, 9),)}, False),
    ({"windows": (window("pause", "c2", 8, 9),)}, True),
    ({"windows": (window("partition", "n1", 1, 3),)}, False),
    ({"windows": (window("partition", "n1", 0.5, 1),)}, True),
    ({"windows": (window("pause", "c1", 1, 3),)}, True),
    ({"starved": (starved("c1", DELAY),)}, False),
    ({"starved": (starved("host", PRESSURE),)}, False),
    ({"error_ns": SECOND}, False),
)
"""What differs, and whether a late notice is then found."""


@pytest.mark.parametrize(("changes", "judged"), EXCUSES)
def test_what_kept_a_client_from_being_reached_excuses(
    changes: dict[str, Any], judged: bool
) -> None:
    assert bool(findings(LATE.format(10.5), **changes)) is judged
    verdict = grant_notice.check(case(LATE.format(10.5), **changes)).verdict
    known = Verdict.VIOLATED if judged else Verdict.UNKNOWN
    # Within the error of the clocks a notice that is a little late may be in time.
    assert verdict is (Verdict.HOLDS if "error_ns" in changes else known)


def test_one_notice_that_nothing_excuses_is_enough() -> None:
    more = " 3a? 3Q 1r?@11 1r+@11 3a+13@12 2q?@12 2q+13=3@13"
    late = LATE.format(10.5)
    changes: dict[str, Any] = {"starved": (starved("c1", DELAY),)}
    assert grant_notice.check(case(late, **changes)).reason == (
        "every client that was named was out of reach meanwhile: 1 of 1"
    )
    assert grant_notice.check(case(late + more, **changes)).verdict is Verdict.HOLDS


@pytest.mark.parametrize("changes", [one for one, judged in EXCUSES if not judged])
def test_the_verifier_accepts_no_late_notice_that_the_checker_does_not_find(
    changes: dict[str, Any],
) -> None:
    found = grant_notice.check(case(LATE.format(10.5)))
    given = case(LATE.format(10.5), **changes)
    assert len(verified(given, told(given, found)).refused) == len(found.findings) == 1


def test_a_notice_in_time_holds_and_the_slowest_is_counted() -> None:
    verdict = grant_notice.check(case(LATE.format(9)))
    assert verdict.verdict is Verdict.HOLDS
    assert verdict.exercised["slowest grant notice ms"] == 2000
    assert verdict.exercised["of them named by a response"] == 1
