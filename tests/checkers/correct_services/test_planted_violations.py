"""Minimal violations planted into histories of correct services: none of them may pass.

python -m tests.checkers.correct_services.test_planted_violations COUNT [PART OF A NAME]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.planted import PLANTS, Hand, open_to, service_of
from tests.checkers.correct_services.world import Faults
from tests.draws import Draws

FEW, MANY, TOGETHER = 20, 10_000, 100
TREE = "broken-lease: in a tree"


def rooted(case: Case) -> Case:
    """The same case of one history, its covering path "/"."""
    strings = ["/" if text == "/lock 0" else text for text in case.history.strings]
    strings = [text.removeprefix("/lock 0") for text in strings]
    return replace(case, history=replace(case.history, strings=strings))


def plant(kind: str, number: int) -> int:
    """Plants so many; fails at the first that is not found. How many there were."""
    planted, of = PLANTS[kind], kind.partition(":")[0]
    service, check = SERVICES[service_of(planted)], load(catalogue.CHECKERS[planted.prop])
    done = seed = 0
    while done < number:
        together = 1 if kind == TREE else min(TOGETHER, 2 * (number - done))
        names = [f"{kind} {seed + n}" for n in range(together)]
        seed += len(names)
        worlds = [tell(service, name, Faults(), n) for n, name in enumerate(names)]
        chosen = [n for n, world in enumerate(worlds) if open_to(of, world)]
        for n in chosen:
            planted.plant(Hand(worlds[n]))
        given = case_of(service, worlds, Faults())
        given = rooted(given) if kind == TREE else given
        verdict = check(given)
        # A wait-for cycle is told under either of its locks: "lock 7", "other 7".
        found = [finding for finding in verdict.findings if finding.kind == of]
        told = {"0" if kind == TREE else finding.lock.split()[-1] for finding in found}
        unseen = [names[n] for n in chosen if str(n) not in told]
        assert not unseen, f"{kind} of {service.name} not found in {unseen}"
        done += len(chosen)
    return done


@pytest.mark.parametrize(
    "number", [FEW, pytest.param(MANY, marks=pytest.mark.power)], ids=["few", "very many"]
)
@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_violation_is_found_in_every_history(
    kind: str, number: int, draws: Draws
) -> None:
    assert plant(kind, draws(number)) >= draws(number)


if __name__ == "__main__":
    for name in PLANTS:
        if (sys.argv[2:] or [""])[0] in name:
            begun, count = time.process_time(), plant(name, int(sys.argv[1]))
            spent = time.process_time() - begun
            sys.stdout.write(f"{name}: {count} planted, 0 not found, {spent:.0f} s\n")
            sys.stdout.flush()
