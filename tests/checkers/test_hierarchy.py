"""A tree of locks: what lies on one line is judged as one lock, what does not as two."""

from __future__ import annotations

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt, attempts, conflict
from holdfast.checkers.properties import (
    bounded_bypass,
    deadlock_freedom,
    mutual_exclusion,
    token_order,
)
from holdfast.harness.core.case import Case
from tests.checkers.shorthand import case


def tree(text: str) -> Case:
    return case(text, promises={"subtrees": True})


def first_two(told: Case) -> tuple[Attempt, Attempt]:
    one, two = attempts(told)[:2]
    return one, two


def test_a_path_is_not_held_beside_what_lies_above_or_below_it() -> None:
    held = "0a?:/a/b 0a+1 1a?:{} 1a+2 1n? 1n+ 0n? 0n+ 1n? 1n+"
    for other in ("/a", "/a/b", "/a/b/c"):
        told = tree(held.replace("{}", other))
        assert conflict(*first_two(told))
        assert [f.kind for f in mutual_exclusion.check(told).findings] == ["double-grant"], other
    for other in ("/a/c", "/a/bc", "/b"):
        told = tree(held.replace("{}", other))
        assert not conflict(*first_two(told))
        assert not mutual_exclusion.check(told).findings, other


def test_slashes_mean_nothing_where_a_system_does_not_say_so() -> None:
    told = case("0a?:/a 0a+1 1a?:/a/b 1a+2 0n? 0n+ 1n? 1n+")
    assert not mutual_exclusion.check(told).findings


def test_a_line_is_judged_once_however_many_paths_meet_on_it() -> None:
    told = tree("2a?:/a/b 2a+1 2r? 2r+ 0a?:/a 0a+2 1a?:/a/c 1a+3 0n? 0n+ 1n? 1n+")
    assert len(mutual_exclusion.check(told).findings) == 1
    assert len(table(told).by_lock()) == 2 and len(table(told).by_family()) == 1


def test_tokens_are_ordered_along_a_line_and_not_beside_it() -> None:
    falls = "0a?:/a/b 0a+7 0r? 0r+ 1a?:{} 1a+3 1r? 1r+"
    assert token_order.check(tree(falls.replace("{}", "/a"))).findings
    assert not token_order.check(tree(falls.replace("{}", "/a/c"))).findings


def test_a_waiter_is_overtaken_on_its_line_only() -> None:
    waits = "0a?:/a/b 0a+1 1a?:/a 1Q 2a?:{} 0r? 0r+ 2a+2 2r? 2r+ 1a+3"
    assert bounded_bypass.check(tree(waits.replace("{}", "/a/b"))).findings
    assert bounded_bypass.check(tree(waits.replace("{}", "/c"))).findings == ()


def test_who_waits_behind_a_waiter_of_another_path_is_not_stuck() -> None:
    """1 waits for /a because of 0 below it, and 2 waits behind 1: /a/b itself is free."""
    told = tree("0a?:/a/c 0a+1 1a?:/a 1Q 2a?:/a/b 2Q 2Q@9 0r?@9.2 0r+ 1a+2 1r? 1r+ 2a+3")
    assert deadlock_freedom.check(told).findings == ()
