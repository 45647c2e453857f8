"""What acquires spent where, as far as their service says it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.checkers.facts.latency_breakdown import SAID, acquire_split, span_ns
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import Op, spent
from holdfast.harness.history import reader
from holdfast.harness.judging.run_case import case_of
from tests.checkers.shorthand import case
from tests.clusters.sim.test_runs import plan, simulate

HOUR_NS = 3600 * SECOND


def test_a_row_keeps_both_durations_to_a_thousandth() -> None:
    rng = random.Random(5)
    spans = [(int(HOUR_NS ** rng.random()), int(HOUR_NS ** rng.random())) for _ in range(500)]
    for waited, commit in [(0, 0), (0, 999), (2_047_999, 2_048_000), (HOUR_NS, 1), *spans]:
        code = spent(waited, commit)
        assert 0 < code < 1 << 32
        kept = span_ns(np.array([code & SAID, code >> 16]))
        for true, told in zip((waited, commit), kept.tolist(), strict=True):
            assert 0 <= true - told <= max(1000, true // 1000)


def split(text: str, *said: tuple[int, int]) -> dict[str, Any] | None:
    """Of a history whose acquires were said to have spent so many ms before and in their commit."""
    found = case(text)
    asked = np.flatnonzero(found.history.rows["f"] == Op.ACQUIRE)
    for row, (waited, commit) in zip(asked, said, strict=False):
        found.history.rows["spent"][row] = spent(waited * MILLISECOND, commit * MILLISECOND)
    parts: dict[str, Any] | None = plain(acquire_split(found))
    return parts


def test_the_ways_are_what_the_service_did_not_spend() -> None:
    found = split("0a?@1 0a+1@2 0r?@3 0r+@3.5", (200, 300))
    assert found is not None
    assert (found["said"], found["queued"]) == (1, 0)
    assert found["way_ns"]["max"] == pytest.approx(500 * MILLISECOND, rel=1e-3)
    assert found["coordination_ns"]["max"] == pytest.approx(200 * MILLISECOND, rel=1e-3)
    assert found["commit_ns"]["max"] == pytest.approx(300 * MILLISECOND, rel=1e-3)
    assert found["wait_ns"]["n"] == 0


def test_a_wait_behind_others_is_neither_coordination_nor_commit() -> None:
    text = "0a?@0 0a+1@1 1a?@2 1Q@3 1Q@4 0r?@8 0r+@8.5 1a+2@9"
    found = split(text, (100, 100), (200, 200))
    assert found is not None
    assert (found["said"], found["queued"]) == (2, 1)
    assert found["wait_ns"]["max"] == 6 * SECOND
    assert found["way_ns"]["max"] == pytest.approx(800 * MILLISECOND, rel=1e-3)
    assert found["whole_ns"]["max"] == 7 * SECOND


def test_the_way_there_ends_when_the_service_had_read_the_request() -> None:
    text = "0a?@1 0V@1.9 0a+1@2 0r?@3 0r+@3.5"
    told = case(text)
    rows = told.history.rows
    rows["spent"][rows["f"] == Op.ACQUIRE] = spent(200 * MILLISECOND, 300 * MILLISECOND)
    rows["res"][rows["f"] == Op.ARRIVED] = 1 * SECOND + 100 * MILLISECOND
    found: dict[str, Any] | None = plain(acquire_split(told))
    assert found is not None and found["apart"] == 1
    assert found["request_ns"]["max"] == 100 * MILLISECOND
    assert found["reply_ns"]["max"] == pytest.approx(400 * MILLISECOND, rel=1e-3)
    apart: dict[str, Any] | None = plain(acquire_split(replace(told, error_ns=1, memo={})))
    assert apart is not None and apart["apart"] == 0 and apart["request_ns"]["n"] == 0


def test_nothing_is_said_of_a_service_that_says_nothing() -> None:
    assert split("0a?@1 0a+1@2") is None
    assert split("0a?@1 0a~@2", (1, 1)) is None
    assert split("") is None


@pytest.mark.parametrize("system", ["reference", "chubby", "single"])
def test_the_reference_service_says_what_it_spent_and_others_do_not(system: str) -> None:
    simulated, manifest = simulate(plan(system=system, time_ns=4 * SECOND))
    recording = reader.merge(simulated.written())
    judged = case_of(manifest, recording, simulated.marks, simulated.faults)
    found: dict[str, Any] | None = plain(acquire_split(judged))
    if system == "single":
        assert found is None
        return
    assert found is not None
    rows = judged.history.rows
    granted = int(((rows["f"] == Op.ACQUIRE) & (rows["token"] > 0)).sum())
    assert found["said"] == granted > 20
    # A request and its answer cross a link each, and a commit wants one there and one back.
    assert found["way_ns"]["min"] > 0
    assert found["apart"] == granted
    assert found["request_ns"]["min"] > 0 and found["reply_ns"]["min"] > 0
    assert found["commit_ns"]["min"] > 0
    assert found["queued"] > 0 and found["wait_ns"]["min"] > found["commit_ns"]["min"]
