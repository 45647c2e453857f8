"""Polls: which answers end them, which are recorded as waiting, and when the wait is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.clusters.systems.polling import HELD, Poller
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import Answer, Op, Status
from holdfast.harness.core.ports import ClientSetup

GRANTED = Answer(outcome=Status.OK, token=1)
UNKNOWN = Answer(outcome=Status.INFO, error="no response")
REJECTED = Answer(outcome=Status.FAIL, error="the server is not ready")


def polls(*answers: Answer, wait_ns: int = -1, errors_end: bool = False) -> tuple[Answer, int, int]:
    """The answer of an acquire, the number of polls, and how often it was recorded as waiting."""
    told: list[Op] = []
    now_ns = iter(range(0, 1000 * MILLISECOND, MILLISECOND))
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=(),
        lease_ns=1,
        options={},
        tell=lambda op, **rest: told.append(op),
        clock=lambda: next(now_ns),
    )
    left: Iterator[Answer] = iter(answers)
    poller = Poller(setup, "test", (10, 20), errors_end=errors_end)
    answer = poller.until("l", 7, wait_ns, lambda: next(left))
    assert set(told) <= {Op.WAITING}
    return answer, len(answers) - len(list(left)), len(told)


@pytest.mark.parametrize("final", [GRANTED, UNKNOWN])
def test_a_grant_and_an_unknown_outcome_end_it_and_only_a_held_lock_is_waited_for(
    final: Answer,
) -> None:
    assert polls(HELD, REJECTED, HELD, final, HELD) == (final, 4, 2)


def test_an_error_ends_it_where_a_client_says_so() -> None:
    assert polls(HELD, REJECTED, GRANTED, errors_end=True) == (REJECTED, 2, 1)


def test_a_try_polls_once_and_a_wait_ends_with_the_last_answer() -> None:
    assert polls(HELD, GRANTED, wait_ns=0) == (HELD, 1, 0)
    answer, count, waited = polls(*[HELD] * 9, REJECTED, *[HELD] * 9, wait_ns=10 * MILLISECOND)
    assert (answer, count, waited) == (REJECTED, 10, 9)
