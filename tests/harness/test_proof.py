"""The two events of a finding that contradict each other, and the steps that name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.harness.core.clock import MILLISECOND as MS
from holdfast.harness.verdicts.judged import Event, Shown
from holdfast.harness.verdicts.proof import contradicting, decisive_ns
from tests.harness.test_causes import NEW, OLD, call, causes, fault, finding

RENEWAL = call("renew", 2, 1, 1500)
FREED = call("release", 5, 1, 3400, 3450)
GAVE_BACK = call("release", 2, 1, 4000)
CLOCK = fault("clock", "n1", 2900, 6000)


@pytest.mark.parametrize(
    ("witnesses", "pair"),
    [
        # The lease of a renewal: the release of the second owner shows less than its grant.
        ((OLD, RENEWAL, NEW, FREED), (RENEWAL, NEW)),
        # A later response of the first owner.
        ((OLD, RENEWAL, NEW, GAVE_BACK, FREED), (NEW, GAVE_BACK)),
        # One that was refused shows nothing.
        ((OLD, NEW, replace(GAVE_BACK, status="not-owner"), FREED), (OLD, NEW)),
        # A notice of a loss says until when a lease was kept, and shows no hold.
        ((OLD, RENEWAL, NEW, call("lost", 2, 1, 3500)), (RENEWAL, NEW)),
        # A third client's release freed the lock: it held neither hold.
        ((call("release", 3, 1, 2500), OLD, RENEWAL, NEW), (RENEWAL, NEW)),
        ((OLD, NEW), (OLD, NEW)),
    ],
)
@pytest.mark.parametrize("kind", ["double-grant", "broken-lease", "double-holder"])
def test_of_two_holds_the_second_grant_is_half_of_the_proof(
    kind: str, witnesses: tuple[Event, ...], pair: tuple[Event, ...]
) -> None:
    assert contradicting(finding(kind, 3000, *witnesses)) == pair


def test_of_more_holds_than_permits_the_newest_grant_is_half() -> None:
    third = call("acquire", 6, 1, 1000, 2000)
    several = finding("broken-lease", 3000, NEW, OLD, third, FREED)
    assert contradicting(several) == (third, NEW)


def test_of_two_tokens_the_two_grants_are_the_proof() -> None:
    after = call("acquire", 3, 1, 5000, 5100)
    assert contradicting(finding("token-inversion", 5100, NEW, FREED, after)) == (NEW, after)


def test_of_other_findings_the_last_events_of_the_two_attempts_are() -> None:
    write = call("served-write", 2, 1, 5200)
    assert contradicting(finding("stale-accepted-write", 5200, OLD, NEW, write)) == (NEW, write)
    notice = call("lost", 2, 1, 3000)
    sent, logged = call("write", 2, 1, 5190), call("served-write", 2, 1, 5200)
    expired = finding("expired-owner-write", 5200, OLD, notice, sent, logged)
    assert contradicting(expired) == (notice, logged)
    assert contradicting(finding("expired-owner-write", 5200, OLD)) == (OLD,)
    assert contradicting(Shown(kind="foreign-release", sentence="", lock="db", t_ns=0)) == ()


def test_a_wait_that_is_too_long_is_no_contradiction_of_two_events() -> None:
    for kind in ("orphan", "deadlock", "starved", "overtaken"):
        stuck = finding(kind, 5200, OLD, call("try", 5, 1, 4000, status="fail"))
        assert contradicting(stuck) == ()
        (one,) = causes((), liveness=[stuck])
        assert [step.repeats for step in one.steps] == [False]


def test_an_event_is_dated_by_its_response_if_that_says_what_happened() -> None:
    assert decisive_ns(NEW) == 3000 * MS
    assert decisive_ns(FREED) == 3400 * MS
    assert decisive_ns(replace(FREED, status="not-owner")) == 3450 * MS
    assert decisive_ns(replace(NEW, t_ret_ns=0)) == NEW.t_inv_ns


def test_the_steps_of_a_cause_are_in_order_of_time_and_have_both_halves() -> None:
    grant = finding("broken-lease", 3000, OLD, RENEWAL, NEW, FREED)
    (one,) = causes((CLOCK,), mutual_exclusion=[grant])
    assert [step.t_ns for step in one.steps] == [1500 * MS, 2900 * MS, 3000 * MS]
    renewal, clock, second = one.steps
    assert (renewal.row, renewal.repeats) == (RENEWAL.row, True)
    assert renewal.text == "c2's renewal, sent at 1.500 s, returned ok"
    assert (second.row, second.text) == (NEW.row, "the broken-lease at 3000 ms")
    assert clock.fault == "f1"
    # The finding's own words have the renewal, so the sentence does not say it twice.
    assert "returned ok" not in one.sentence


def test_a_renewal_that_is_half_of_the_proof_says_how_long_its_lease_is() -> None:
    for kind, res, said in (
        ("broken-lease", 1_978_000_000, "returned ok: a lease of 1.98 s from then"),
        # What a session has left, and a hold that a response proves.
        ("broken-lease", 600 * 10**9, "returned ok"),
        ("double-grant", 1_978_000_000, "returned ok"),
    ):
        grant = finding(kind, 3000, OLD, replace(RENEWAL, res=res), NEW)
        (one,) = causes((), mutual_exclusion=[grant])
        assert one.steps[0].text.endswith(said)


def test_a_half_that_follows_the_finding_comes_last() -> None:
    grant = finding("double-grant", 3000, OLD, NEW, GAVE_BACK)
    (one,) = causes((CLOCK,), mutual_exclusion=[grant])
    assert [step.row for step in one.steps] == [-1, NEW.row, GAVE_BACK.row]
    assert one.sentence.endswith("the double-grant at 3000 ms.")
