"""The same seed gives the same history: again in this process, and under other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.engine.seed_search import one_seed
from holdfast.harness.core.loading import load
from holdfast.planning import prepare
from tests.clusters.sim.longer import longer

SEEDS = (3, 9)
SCRIPT = """
from holdfast.engine.seed_search import one_seed
print(*(one_seed(seed, system, {}).digest for system, seed in %r))
"""
CASES = [("reference", 3), ("reference", 9), ("majority", 5), ("redlock", 2)]


def digests() -> list[str]:
    return [one_seed(seed, system, {}).digest for system, seed in CASES]


def test_a_seed_gives_the_same_history_twice_in_one_process() -> None:
    first = digests()
    assert first == digests()
    assert len(dict.fromkeys(first)) == len(first), "different seeds give different histories"


@pytest.mark.slow
def test_a_seed_gives_the_same_history_under_every_hash_seed() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT % (CASES,)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "1", "4242")
    ]
    said = [process.communicate(timeout=120)[0].split() for process in running]
    assert said == [digests()] * len(running)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_went_through_json_change_nothing(seed: int) -> None:
    plain = one_seed(seed, "reference", {}).digest
    assert one_seed(seed, "reference", {"sim_marshal": "1"}).digest == plain


def test_leaving_out_one_fault_leaves_all_others_as_they_were() -> None:
    whole = prepare.prepared(longer(3, 5))
    manifest = prepare.manifest(whole, "whole", "")
    simulate = load(catalogue.BACKENDS["sim"].entry)
    planned = [row for row in simulate(manifest).faults if row.event == "planned"]
    fewer = replace(manifest.plan, faults=manifest.plan.faults[1:])
    rest = [row for row in simulate(replace(manifest, plan=fewer)).faults if row.event == "planned"]
    assert len(planned) > 3
    assert rest == planned[1:]
