"""Minimal violations planted into histories of correct services: none of them may pass."""

from __future__ import annotations

import pytest

from holdfast import catalogue
from holdfast.harness.core.loading import load
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.planted import PLANTS, Hand, open_to, service_of
from tests.checkers.correct_services.world import Faults

FEW, MANY, TOGETHER = 20, 10_000, 100


@pytest.mark.parametrize(
    "number", [FEW, pytest.param(MANY, marks=pytest.mark.power)], ids=["few", "very many"]
)
@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_violation_is_found_in_every_history(kind: str, number: int) -> None:
    plant = PLANTS[kind]
    service, check = SERVICES[service_of(plant)], load(catalogue.CHECKERS[plant.prop])
    planted = seed = 0
    while planted < number:
        names = [f"{kind} {seed + n}" for n in range(min(TOGETHER, 2 * (number - planted)))]
        seed += len(names)
        worlds = [tell(service, name, Faults(), n) for n, name in enumerate(names)]
        chosen = [n for n, world in enumerate(worlds) if open_to(kind, world)]
        for n in chosen:
            plant.plant(Hand(worlds[n]))
        verdict = check(case_of(service, worlds, Faults()))
        # A wait-for cycle is told under either of its locks: "lock 7", "other 7".
        told = {finding.lock.split()[-1] for finding in verdict.findings if finding.kind == kind}
        unseen = [names[n] for n in chosen if str(n) not in told]
        assert not unseen, f"{kind} of {service.name} not found in {unseen}"
        planted += len(chosen)
