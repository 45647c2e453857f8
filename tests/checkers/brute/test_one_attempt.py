"""How far one hold reached for sure, against every tick at which its calls may have counted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.checkers.holds.derive import attempts
from holdfast.checkers.holds.overlaps import reach
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from tests.checkers.brute.test_timelines import case_of
from tests.checkers.brute.timelines import Asked, Call, Rules, holds
from tests.draws import Draws

RULES = Rules(bound="lease", ordered=False, release_says=True, slip=0, horizon=12)


def draw(rng: random.Random) -> Asked:
    """A grant, renewals of all lengths that may overlap, perhaps a release after them."""
    ret = rng.randrange(2)
    calls: list[Call] = []
    now = ret
    for _ in range(rng.randrange(4)):
        now += rng.randrange(3)
        status = rng.choices((Status.OK, Status.INFO, Status.FAIL), (5, 3, 1))[0]
        back = now + rng.randrange(3)
        ttl = rng.randrange(1, 7)
        calls.append(Call(op=Op.RENEW, inv=now, ret=back, status=status, ttl=ttl))
    now = max([ret, *(call.ret for call in calls)]) + rng.randrange(3)
    if calls and rng.randrange(2):
        outcome = rng.choice((Status.OK, Status.INFO))
        calls.append(Call(op=Op.RELEASE, inv=now, ret=now + 1, status=outcome))
    return Asked(
        process=0,
        inv=0,
        ret=ret,
        status=Status.OK,
        token=NO_TOKEN,
        ttl=rng.randrange(1, 7),
        calls=tuple(calls),
    )


@pytest.mark.parametrize(
    "number", [300, pytest.param(20_000, marks=pytest.mark.power)], ids=["few", "very many"]
)
@pytest.mark.parametrize("slip", [0, 1])
@pytest.mark.parametrize("says", [True, False])
def test_a_hold_reaches_exactly_as_far_as_in_the_shortest_course_of_events(
    slip: int, says: bool, number: int, draws: Draws
) -> None:
    number = draws(number)
    rules = replace(RULES, slip=slip, release_says=says)
    rng, tight = random.Random(f"one {slip} {says}"), 0
    for _ in range(number):
        asked = draw(rng)
        ends = [hold[1] for hold in holds(asked, rules) if hold is not None]
        told = case_of([asked], rules)
        (attempt,) = attempts(told)
        reached = reach(told)(attempt) - 1
        assert ends, asked
        assert reached <= min(ends), f"{reached} > {min(ends)}: {asked}"
        tight += reached == min(ends)
    assert tight >= number * 9 // 10, tight
