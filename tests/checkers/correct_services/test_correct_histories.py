"""Histories of correct services, generated apart from all else: no promise is violated."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from holdfast import catalogue
from tests.checkers.correct_services.judging import Tally, judge
from tests.checkers.correct_services.kinds import SERVICES
from tests.draws import Draws

MILLION, TOGETHER = 1_000_000, 200
EXERCISED = 0.9 / len(SERVICES)
"""Each property is to hold, which takes exercise, in this share of the cases at least: the proof
would be empty otherwise. Jobs and pairs of locks come up in one service of all."""
ALONE = "starvation-freedom"
"""A wait starves if it was overtaken more often than there are clients: no wait of a case of many
histories, which has the clients of all, is as patient. Histories judged alone exercise it."""


def _sound(tally: Tally) -> None:
    assert not tally.violated, "\n".join(tally.violated)
    for prop in {*catalogue.CHECKERS} - {ALONE}:
        assert tally.held[prop] >= EXERCISED * tally.cases[prop], (prop, tally.held, tally.cases)


def test_no_correct_service_is_found_to_break_a_promise(draws: Draws) -> None:
    _sound(judge(range(1), draws(80)))


def test_no_history_of_a_correct_service_judged_alone_is_found_to_break_a_promise(
    draws: Draws,
) -> None:
    tally = judge(range(1000, 1000 + draws(10)), 1)
    assert not tally.violated, "\n".join(tally.violated)
    assert tally.held[ALONE] >= EXERCISED * tally.cases[ALONE]


@pytest.mark.power
def test_a_million_histories_of_correct_services(
    record_property: Callable[[str, object], None],
) -> None:
    tally, seed = judge(range(2000, 4000), 1), 0
    while tally.histories < MILLION:
        tally.join(judge(range(seed, seed := seed + 1), TOGETHER))
    record_property("histories", tally.histories)
    record_property("rows", tally.rows)
    record_property("held", dict(tally.held))
    record_property("interpreter", sys.version)
    _sound(tally)
