"""A service that does right is never accused; one that does wrong is found out."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from holdfast.checkers.evidence.summary import evidence
from holdfast.checkers.facts import admissions
from holdfast.checkers.properties import (
    deadlock_freedom,
    no_expired_write,
    no_hung_request,
    no_lost_update,
    no_stale_write,
    orphan_freedom,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from tests.checkers.brute.guarded import World
from tests.draws import Draws

NEVER_ACCUSED = {
    "no-stale-write": no_stale_write.check,
    "no-lost-update": no_lost_update.check,
    "deadlock-freedom": deadlock_freedom.check,
    "orphan-freedom": orphan_freedom.check,
    "no-hung-request": no_hung_request.check,
}


def run(seed: int, mutant: str = "") -> tuple[World, Case]:
    world = World(rng=stream(seed, "service", mutant), mutant=mutant)
    return world, world.run()


def expired_for_real(world: World, judged: Case) -> set[int]:
    """Rows of accepted writes that came when the service had let go of their owner's hold."""
    return {
        n
        for n, row in enumerate(judged.history.rows)
        if row["f"] == Op.SERVED_WRITE
        and row["status"] == Status.OK
        and world.holds[int(row["attempt"])][1] * MILLISECOND <= row["t_inv"]
    }


def judge(first: int, n: int) -> Counter[str]:
    """Verdicts by property over n runs of the service without a mutant."""
    verdicts: Counter[str] = Counter()
    for seed in range(first, first + n):
        world, judged = run(seed)
        for name, check in NEVER_ACCUSED.items():
            verdict = check(judged)
            assert not verdict.findings, (seed, verdict.findings[0])
            verdicts[f"{name} {verdict.verdict}"] += 1
        accused = {request.row for request, *_ in no_expired_write.expired_writes(judged)}
        assert accused <= expired_for_real(world, judged), seed
        verdicts["expired writes"] += len(accused)
        if seed % 10 == 0:
            json.dumps(plain(evidence(judged)))
    return verdicts


def test_a_service_that_does_right_is_never_accused_and_mostly_passes(draws: Draws) -> None:
    verdicts = judge(1, draws(250, least=60))
    for name in NEVER_ACCUSED:
        floor = draws(20 if name == "no-stale-write" else 150)
        assert verdicts[f"{name} {Verdict.HOLDS}"] >= floor, verdicts
    assert verdicts["expired writes"] >= draws(20), verdicts


@pytest.mark.power
def test_a_service_that_does_right_is_never_accused_in_very_many_runs() -> None:
    judge(1_000, 5_000)


CAUGHT = {
    "no-expiry": ("deadlock-freedom", "orphan-freedom"),
    "lost-wakeup": ("deadlock-freedom",),
    "unfenced": ("no-stale-write", "no-lost-update"),
    "patient-client": ("no-hung-request",),
}


@pytest.mark.parametrize("mutant", CAUGHT)
def test_a_service_that_does_wrong_is_found_out_within_a_few_seeds(mutant: str) -> None:
    caught: Counter[str] = Counter()
    for seed in range(30):
        _, judged = run(seed, mutant)
        for name, check in NEVER_ACCUSED.items():
            caught[name] += check(judged).verdict is Verdict.VIOLATED
    for name in CAUGHT[mutant]:
        assert caught[name] >= 3, caught
    for name in set(NEVER_ACCUSED) - set(CAUGHT[mutant]):
        assert not caught[name], caught


def test_a_stale_write_is_one_of_an_owner_whom_the_service_had_followed_by_another() -> None:
    found = 0
    for seed in range(20):
        world, judged = run(seed, "unfenced")
        for request, old, new, _ in admissions.stale_writes(judged):
            assert world.holds[new.id][0] >= world.holds[old.id][1], (seed, request)
            found += 1
    assert found >= 10
