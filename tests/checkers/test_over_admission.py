"""Semaphores and read-write locks: exclusion is a matter of modes and permits."""

from __future__ import annotations

import pytest

from holdfast.checkers.coverage.needs_of_waits import contended
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.properties import mutual_exclusion
from holdfast.harness.core.operations import PLAIN, Mode, Op, Terms
from tests.checkers.shorthand import case, history, on

READER = Terms(mode=Mode.SHARED)


def permits(taken: int, limit: int) -> Terms:
    return Terms(mode=Mode.PERMITS, permits=taken, limit=limit)


def kinds(text: str, *terms: Terms) -> list[str]:
    found = mutual_exclusion.check(case(on(history(text), *terms))).findings
    return [finding.kind for finding in found]


TWO_AT_ONCE = "0a? 0a+7 1a? 1a+8 0n? 0n+ 1n? 1n+ 0r? 0r+ 1r? 1r+"
THREE_AT_ONCE = "0a? 0a+7 1a? 1a+8 2a? 2a+9 0n? 0n+ 1n? 1n+ 2n? 2n+ 0r? 0r+ 1r? 1r+ 2r? 2r+"


def test_readers_hold_together_and_a_writer_beside_them_is_a_double_grant() -> None:
    assert kinds(TWO_AT_ONCE, READER, READER) == []
    assert kinds(TWO_AT_ONCE, READER, PLAIN) == ["double-grant"]


def test_as_many_hold_as_there_are_permits() -> None:
    assert kinds(THREE_AT_ONCE, permits(1, 3), permits(1, 3), permits(1, 3)) == []
    assert kinds(THREE_AT_ONCE, permits(1, 2), permits(1, 2), permits(1, 2)) == ["over-admission"]


def test_who_takes_two_permits_counts_for_two() -> None:
    assert kinds(TWO_AT_ONCE, permits(2, 3), permits(1, 3)) == []
    assert kinds(TWO_AT_ONCE, permits(2, 3), permits(2, 3)) == ["over-admission"]


def test_one_permit_too_many_inside_a_lease_is_a_broken_lease() -> None:
    assert kinds("0a? 0a+7 1a? 1a+8", permits(1, 1), permits(1, 1)) == ["broken-lease"]


def test_a_permit_whose_lease_is_over_is_free() -> None:
    assert kinds("0a? 0a+7 1a?@20 1a+8", permits(1, 1), permits(1, 1)) == []


def test_a_permit_given_back_in_time_is_free_though_the_answer_is_late() -> None:
    assert kinds("0a? 0a+7 0r? 1a? 1a+8 0r+ 1r? 1r+", permits(1, 1), permits(1, 1)) == []


def test_a_grant_of_unknown_outcome_takes_no_permit() -> None:
    assert kinds("0a? 0a~ 1a? 1a+8 1n? 1n+", permits(1, 1), permits(1, 1)) == []


def test_a_semaphore_and_a_plain_hold_of_one_lock_conflict() -> None:
    assert kinds(TWO_AT_ONCE, permits(1, 2), PLAIN) == ["double-grant"]


def test_semaphores_asked_for_with_different_sizes_are_not_judged() -> None:
    assert kinds(TWO_AT_ONCE, permits(1, 1), permits(1, 2)) == []


SIX = "0a?@1 0a+7@2 1a?@2.5 1a+8@3 2a?@4 2a{two}@5 0r?@6 0r+@6.1 1r?@7 1r+@7.1 3a?@8 3a+9@9"


@pytest.mark.parametrize(
    ("limit", "third", "waited"),
    [
        (2, "-", [2]),
        (2, "+9", [2]),  # over-admitted, and it met two taken of two
        (3, "+9", []),
        (1, "-", [1, 2]),
    ],
)
def test_who_met_a_semaphore_without_a_permit_left_waited(
    limit: int, third: str, waited: list[int]
) -> None:
    one = permits(1, limit)
    made = case(on(history(SIX.format(two=third)), one, one, one, one))
    found = table(made)
    met = contended(made, found.ok | ~found.ok)
    assert sorted((found.process[met] % 1000).tolist()) == waited


def test_who_wants_two_permits_waits_while_one_is_left() -> None:
    made = case(on(history("0a?@1 0a+7@2 1a?@2.5 1a-@3 0r?@6 0r+@7"), permits(1, 2), permits(2, 2)))
    assert contended(made, table(made).op == Op.ACQUIRE).tolist() == [False, True]
