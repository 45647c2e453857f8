"""The check that `holdfast sim` makes of itself: a seed again, in a process of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.harness.core.seeds import stream
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
PLANTED = """
from holdfast.clusters.backends.sim import backend
from holdfast.harness.core.seeds import stream
backend.stream = lambda seed, *name: stream(seed + hash("lock-1") % 1_000_003, *name)
"""
"""Clocks, disks and clients of a simulated run get other chance in every process."""
WORDS = ("sim", "--seeds", "1", "-j", "1", "--twice-every", "1")


def test_a_seed_that_comes_out_the_same_is_counted(capsys: Capture) -> None:
    said = holdfast(capsys, *WORDS, "--json")
    found = json.loads(said.out)
    assert (found["twice"], found["differing"]) == (1, [])
    assert said.code != 4


def test_a_run_that_depends_on_the_hash_seed_is_an_error_that_names_the_row(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("holdfast.clusters.backends.sim.backend.stream", stream)
    exec(PLANTED, {})
    said = holdfast(capsys, *WORDS)
    assert said.code == 4
    assert "seed 1: different history in another process: first difference: row " in said.out
    assert "1 re-run, 1 different" in said.out


def test_a_second_run_that_fails_is_told_with_its_last_words(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "from holdfast.harness.driver import cluster\ncluster.READY_WITHIN_NS = 0\n"
    (tmp_path / "sitecustomize.py").write_text(broken)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    said = holdfast(capsys, *WORDS)
    assert said.code == 4
    assert "the second run of a seed failed: " in said.err and "was not ready" in said.err


def test_seeds_are_run_twice_by_their_number(capsys: Capture) -> None:
    words = ("sim", "--system", "single", "--first-seed", "49", "--seeds", "2", "-j", "1", "--json")
    assert json.loads(holdfast(capsys, *words).out)["twice"] == 1
    assert json.loads(holdfast(capsys, *words, "--twice-every", "0").out)["twice"] == 0
