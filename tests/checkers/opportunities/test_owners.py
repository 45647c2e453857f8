"""Rows about former owners: what counts, near which faults, and what is missing without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.checkers.opportunities.places.checked_owners import (
    expired_requests,
    foreign_releases,
    foreign_renewals,
    lost_holds,
    stale_requests,
)
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.properties import (
    loss_notice,
    no_expired_write,
    no_stale_write,
    ownership,
)
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case

PASSED = "0a?@0 0a+7@1 1a?@19 1a+8@20 "
"""The lock passes from client 0 to client 1, by a lease of 10 s."""
RESTARTED = "0a?@0 0a+7@1 0w? 0S+ 0w+ 1a?@19 1a+2@20 "
"""The tokens begin anew: that of the newer owner is the smaller."""
PAUSE = window("pause", "c0", 2, 19)
LATE = window("pause", "c1", 60, 61)


def of(text: str, *windows: Window, **changes: Any) -> Case:
    kinds = tuple(dict.fromkeys(one.do for one in windows))
    options = {"resource": "fenced", "servers": "3"}
    return case(text, windows=windows, kinds=kinds, options=options, **changes)


@pytest.mark.parametrize(
    ("find", "text", "counts"),
    [
        (foreign_releases, PASSED + "0r? 0r!", 1),
        (foreign_releases, PASSED + "0r? 0r+", 1),
        (foreign_releases, PASSED + "0r? 0r~", 0),  # no answer shows nothing
        (foreign_releases, PASSED + "0n? 0n!", 0),  # a renewal is not meant
        (foreign_releases, "0a?@0 0a+7@1 1a?@5 0r?@6 1a+8@7 0r+@8", 0),  # sent before
        (foreign_releases, "0a?@0 0a+7@1 0r? 0r+", 0),  # its own
        (foreign_releases, "0a? 0a- 0r? 0r!", 1),  # it never held
        (foreign_releases, "0a? 0a+7 0r? 0r+ 0r? 0r!", 1),  # it had given up
        (foreign_renewals, PASSED + "0n? 0n!", 1),
        (foreign_renewals, PASSED + "0n? 0n! 0r? 0r!", 1),
        (stale_requests, PASSED + "1w? 1S+ 1w+ 0w? 0S- 0w-", 1),
        (stale_requests, PASSED + "1w? 1S+ 1w+ 0w? 0S+ 0w+", 1),  # a resource that admits it
        (stale_requests, PASSED + "0w? 0S+ 0w+ 1w? 1S+ 1w+", 0),
        (stale_requests, RESTARTED + "1w? 1S- 1w-", 0),  # the rightful owner
        (stale_requests, RESTARTED + "1w? 1S- 1w- 0w? 0S- 0w-", 0),  # nobody newer was admitted
        (expired_requests, "0a?@0 0a+7@1 0r?@2 0r+@3 0w?@4 0S+@4.1 0w+@5", 1),
        (expired_requests, "0a?@0 0a+7@1 0w?@2 0S+@2.1 0w+@2.2 0r?@3 0r+@4", 0),
        (lost_holds, "0a?@0 0a+7@1 0L@12", 1),
        (lost_holds, "0a?@0 0a+7@1 0n?@12 0n!@13", 1),
        (lost_holds, PASSED + "0w?@40 0w-@41", 1),  # nobody told it within 3 s
        (lost_holds, PASSED + "0r?@21 0r!@22", 0),  # it gave up in time
    ],
)
def test_what_is_a_place(find: Callable[[Case], Places], text: str, counts: int) -> None:
    assert len(find(of(text)).t_ns) == counts


OWNED = PASSED + "0r?@21 0r!@22 1r?@23 1r+@24 2a?@25 2a+9@26"


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [(PAUSE, Verdict.HOLDS), (LATE, Verdict.UNKNOWN)],
)
def test_only_places_near_a_fault_count(fault: Window, verdict: Verdict) -> None:
    made = of(OWNED + " 2r?@58 2r+@58.5 0a?@59 0a+10@59.5 1a?@60.2 1a-@60.5 1a?@64 1a+11@70", fault)
    under = ownership.check(made).under["pause"]
    assert under.verdict is verdict
    row = under.seen["ownership/foreign-release/any"]
    assert row.staged and row.count == (verdict is Verdict.HOLDS)
    assert row.count or row.nearest == (
        "no former owner's release was answered near a pause: 0 of 1 in the run"
    )


def test_a_row_of_renewals_requires_nothing_where_none_came_late() -> None:
    seen = ownership.check(of(OWNED, PAUSE)).under["pause"].seen
    assert not seen["ownership/foreign-renewal/any"].staged
    renewed = OWNED.replace("0r?@21 0r!@22", "0n?@21 0n!@22")
    seen = ownership.check(of(renewed, PAUSE)).under["pause"].seen
    assert seen["ownership/foreign-renewal/any"].count == 1


def test_a_release_that_says_nothing_about_owners_is_no_row() -> None:
    says_little = {"release_once": False, "release_proves": False}
    seen = ownership.check(of(OWNED, PAUSE, promises=says_little)).under["pause"].seen
    assert not any(one.count for one in seen.values())


@pytest.mark.parametrize(
    ("check", "text", "row"),
    [
        (ownership.check, PASSED + "0r? 0r+", "ownership/foreign-release/any"),
        (ownership.check, PASSED + "0n? 0n+", "ownership/foreign-renewal/any"),
        (
            no_stale_write.check,
            PASSED + "1w? 1S+ 1w+ 0w? 0S+ 0w+",
            "no-stale-write/unchecked-token/any",
        ),
        (
            no_expired_write.check,
            "0a?@0 0a+7@1 0r?@2 0r+@3 0w?@4 0S+@4.1 0w+@5",
            "no-expired-write/unchecked-end/any",
        ),
        (loss_notice.check, PASSED + "0w?@40 0w-@41", "loss-notice/no-notice/any"),
    ],
)
def test_a_finding_lies_at_an_opportunity(check: Any, text: str, row: str) -> None:
    verdict = check(of(text, window("pause", "c0", 0.5, 0.6)))
    assert verdict.verdict is Verdict.VIOLATED
    assert verdict.under["pause"].seen[row].count == 1


def test_the_change_also_stops_owners() -> None:
    seen = ownership.check(of(OWNED, LATE)).under["pause"].seen["ownership/foreign-release/any"]
    assert [change.target for change in seen.also] == ["holder"]
