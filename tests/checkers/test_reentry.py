"""What proves that an owner came back, and was not let in again; minimal histories of reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Terms
from holdfast.harness.properties import PROPERTIES
from tests.checkers.shorthand import case, history, on

ANY = dict.fromkeys(PROPERTIES, ("any",))
AGAIN = Terms(reenter=True)
CHECKERS = {prop: load(entry) for prop, entry in catalogue.CHECKERS.items()}
LATE = "0a?@0 0a+1@1 1a?@2 1Q@3 0a?@12 0a+1@12.1 0r?@13 0r+@13.1 1a+2@13.5 1r?@14 1r+@14.1"
UNHEARD = "0a?@0 0a+1@1 0r?@2 0r-@2.1 "


def kept(told: History | str, promises: dict[str, Any], **more: Any) -> Case:
    """A history of a service that promises all properties under any fault."""
    return case(told, promises={"keeps": ANY, **promises}, **more)


def found(told: History | str, **promises: Any) -> dict[str, list[str]]:
    """Property -> the kinds of its findings, of those that have some."""
    given = kept(told, promises)
    verdicts = {prop: check(replace(given, memo={})) for prop, check in CHECKERS.items()}
    return {prop: [f.kind for f in v.findings] for prop, v in verdicts.items() if v.findings}


def test_a_service_may_keep_a_lease_late_and_let_its_owner_in_again() -> None:
    assert found(on(history(LATE), AGAIN)) == {}
    proved = LATE.replace("1a+2@13.5", "0.1r?@13.2 0.1r+@13.3 1a+2@13.5")
    assert found(on(history(proved), AGAIN)) == {}, "a later release proves the outer entry"


def test_an_owner_that_left_and_came_back_overtook_who_waited() -> None:
    for left in ("0r?@3.5 0r+@4", "0n?@3.5 0n!@4", "0L@4"):
        told = on(history(LATE.replace("0a?@12", f"{left} 0a?@12")), AGAIN)
        assert "bounded-bypass" in found(told, tokens_unique=False), left
    for kept_on in ("0r?@3.5 0r~@4", "0r?@3.5 0r-@4", "0n?@3.5 0n~@4"):
        told = on(history(LATE.replace("0a?@12", f"{kept_on} 0a?@12")), AGAIN)
        assert "bounded-bypass" not in found(told, tokens_unique=False), kept_on


def test_an_entry_without_an_answer_may_be_what_an_owner_came_back_into() -> None:
    words = LATE.replace("0a?@12", "0a?@3.2 0a~@3.3 0.1r?@3.5 0.1r+@4 0a?@12")
    assert found(on(history(words), AGAIN)) == {}
    first = "0a?@0 0a~@1 1a?@2 1Q@3 0a?@4 0a+1@4.1 0r?@5 0r+@5.1 1a+2@15 1r?@16 1r+@16.1"
    assert found(on(history(first), AGAIN)) == {}, "its only grant with a known token"
    assert found(history(first))["bounded-bypass"] == ["overtaken"], "where nobody is let in again"


def test_a_write_within_an_entry_that_the_service_keeps_late_is_not_expired() -> None:
    late = "0a?@0 0a+1@1 0a?@1.1 0a+1@1.2 0r?@9 0r+@9.1 0w?@{0} 0S+@{1} 0w+@{1}"
    for at, expected in ((13, False), (15, True)):
        words = late.replace("{0}", f"{at - 0.1}").replace("{1}", f"{at}")
        assert ("no-expired-write" in found(on(history(words), AGAIN))) == expected, at


def test_a_release_without_effect_gives_no_reason_to_grant_again() -> None:
    reported = (
        "2a?@0 2a+1@0.1 3a?@0.2 3Q@0.3 2r?@1 2r+@1.1 3a+2@1.2 0a?@1.3 0Q@1.4 3r?@2 3r+@2.1"
        " 0a+3@2.2 1a?@2.3 1Q@2.4 0r?@3 0r-@3.1 1a+4@3.2 1r?@4 1r+@4.1"
    )
    assert found(reported)["mutual-exclusion"] == ["broken-lease"]
    assert found(f"{UNHEARD}1a?@3 1a+2@4")["mutual-exclusion"] == ["broken-lease"]
    assert found(f"{UNHEARD}1a?@3 1a+2@4", bound="none")["mutual-exclusion"] == ["double-holder"]
    assert found(f"{UNHEARD}1a?@10.5 1a+2@11") == {}, "after the end of the lease"
    for answer in "+~!":
        words = f"{UNHEARD.replace('0r-', f'0r{answer}')}1a?@3 1a+2@4"
        assert "mutual-exclusion" not in found(words), answer
    proved = f"{UNHEARD}1a?@3 1a+2@4 0n?@5 0n+@6"
    assert found(proved)["mutual-exclusion"] == ["double-grant"]


def test_a_lock_that_is_not_reentrant_is_not_granted_to_its_holder_again() -> None:
    words = "0a?@0 0a+3@0.1 0a?@0.2 0a+4@0.3 0.1r?@0.4 0.1r+@0.5 0.2r?@0.6 0.2r+@0.7"
    assert found(words)["mutual-exclusion"] == ["double-grant"]
    for terms in (AGAIN, Terms(mode=Mode.SHARED)):
        assert "mutual-exclusion" not in found(on(history(words), terms)), terms
    assert "mutual-exclusion" not in found(words, bound="connection"), "its session has it"


def test_a_token_that_returns_after_a_release_is_no_re_entry() -> None:
    words = "0a?@0 0a+3@0.1 0r?@0.2 0r+@0.3 0a?@0.4 0a+3@0.5 0r?@0.6 0r+@0.7 1a?@0.8 1a+4@0.9"
    for told in (words, on(history(words), AGAIN)):
        assert found(told)["token-order"] == ["token-repeated"]


def test_the_whole_tree_is_held_beside_no_path() -> None:
    told = "0a?:/@1 0a+1@1.1 1a?:/x@3 1a+2@3.1 0r?:/@6 0r+:/@6.1"
    assert found(told, subtrees=True)["mutual-exclusion"] == ["double-grant"]
    apart = "0a?:/a@1 0a+1@1.1 1a?:/b@3 1a+1@3.1 2a?:/@4 2a-@5 0r?:/a@6 0r+:/a@6.1"
    assert "mutual-exclusion" not in found(apart, subtrees=True)
    turns = "0a?:/@1 0a+1@1.1 0r?:/@2 0r+:/@2.1 1a?:/x@3 1a+2@3.1 2a?:/y@4 2a+3@4.1"
    assert found(turns, subtrees=True) == {}


def test_a_lock_delay_begins_at_the_end_of_a_lease_that_was_never_renewed() -> None:
    dead = "0a?@0 0a+1@1 0C@3 1a?@{} 1a+2@{}"
    for at, early in ((11, True), (13.9, True), (14.1, False)):
        told = dead.format(at - 0.5, at)
        kinds = found(told, delay_ns=4 * SECOND).get("mutual-exclusion", [])
        assert ("early-grant" in kinds) == early, at
    assert "mutual-exclusion" not in found(dead.format(11, 11.5)), "without a lock-delay"


SESSION = {
    "bound": "session", "delay_ns": 5 * SECOND, "release_once": False, "release_proves": False,
    "renew_proves": False,
}  # fmt: skip
DIED = (
    "0h?@0 0h+/3@0.01 0a?@0.05 0a+1@0.06 0h?@3.0 0h-@3.009 0r?@3.017 0r+@3.026 0C@3.2"
    " 1t?@3.3 1t-@3.31"
)


def test_an_ok_release_that_proves_nothing_may_follow_a_death() -> None:
    assert found(DIED, **SESSION) == {}
    later = DIED.replace("3.31", "11.31").replace("1t?@3.3", "1t?@11.3")
    assert found(later, **SESSION) == {"no-false-rejection": ["spurious-refusal"]}
    for sure in ("release_once", "release_proves"):
        told = SESSION | {sure: True}
        assert found(DIED, **told)["no-false-rejection"] == ["spurious-refusal"], sure
    assert found(DIED, **SESSION | {"delay_ns": 0}) == {"no-false-rejection": ["spurious-refusal"]}


def test_a_service_that_ends_leases_early_is_convicted_by_what_it_promised() -> None:
    """Its owners renew and release with ok, told or not told of the loss, and proved or not."""
    early = "0a?@0 0a+1@0.1 1a?@2 1a+2@2.1 0n?@4 0n{0}@4.1 0r?@5 0r{0}@5.1 1r?@6 1r{0}@6.1"
    for answer in "+!":
        for proves in (True, False):
            said = dict.fromkeys(("renew_proves", "release_proves", "release_once"), proves)
            kinds = found(early.replace("{0}", answer), **said)["mutual-exclusion"]
            assert kinds == ["double-grant" if proves and answer == "+" else "broken-lease"]


@pytest.mark.parametrize(("more", "told"), [(0, []), (1, ["false-answer"]), (2, ["false-answer"])])
def test_a_hold_that_was_granted_at_once_has_the_renewals_that_were_sent(
    more: int, told: list[str]
) -> None:
    words = f"0a? 0a+7 0n? 0n+ 1q? 1q+7={1 + more} 0r? 0r+"
    assert found(words).get("truthful-queries", []) == told
    waited = f"2a? 2a+6 0a? 0Q 2r? 2r+ 0a+7 0n? 0n+ 1q? 1q+7={1 + more} 0r? 0r+"
    assert found(waited).get("truthful-queries", []) == (told if more > 1 else [])
    slow = f"0a?@0 0a+7@4 0n? 0n+ 1q? 1q+7={1 + more} 0r? 0r+"
    assert found(slow).get("truthful-queries", []) == (told if more > 1 else [])


def test_a_client_that_waits_for_itself_is_no_cycle() -> None:
    words = "0a?/60@0 0a+1/60@1 0a?/60@2 0Q@3 1a?/60@4 1a-@5 0a-@30 0.1r?@31 0.1r+@32"
    assert "no-multi-lock-deadlock" not in found(words)


def test_readers_that_join_others_with_their_token_show_no_order() -> None:
    reader = Terms(mode=Mode.SHARED)
    words = history("1a?@1 1L@2 2a?@3 2a+3@3.5 2r?@3.6 2r+@3.7 1a+6@4")
    assert "mutual-exclusion" not in found(on(words, Terms(), reader, reader))
    writes = on(
        history("1a?@1 1L@2 2a?@3 2a+3@3.5 2r?@3.6 2r+@3.7 1a+6@4"), Terms(), reader, Terms()
    )
    assert found(writes)["mutual-exclusion"] == ["dead-grant"]


def test_who_shares_what_was_its_own_may_still_write() -> None:
    words = "0a?@0 0a+3@0.5 0a?@1 0a+3@1.5 0.1r?@2 0.1r+@2.1 0.1w?@2.2 0S+3@2.4 0.1w+@2.5"
    told = history(words)
    assert "no-expired-write" in found(told)
    told.rows["mode"][[1]] = Mode.SHARED
    assert told.rows["f"][1] == Op.ACQUIRE
    assert "no-expired-write" not in found(told)
