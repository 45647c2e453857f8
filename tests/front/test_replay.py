"""`holdfast replay` and `holdfast shrink`: the same plan again, and the smallest that fails."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from holdfast.engine import seed_search, shrinker, swarm
from holdfast.engine.trials import Tries
from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan, to_toml
from holdfast.harness.plans.shrink import Failing
from holdfast.planning import plan_source, prepare
from holdfast.planning.resolve import resolve
from tests import needs
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


@cache
def failing() -> Plan:
    """The swarm's first plan under which leases that end early are seen, with many faults."""
    for seed in range(1, 400):
        plan = prepare.complete(swarm.draw(seed, "reference", 3, {"mutant": "early-expiry"}))
        if len(plan.faults) > 8 and ("mutual-exclusion", "broken-lease") in found_by(plan):
            return plan
    raise AssertionError("no seed shows it")


def found_by(plan: Plan) -> list[tuple[str, str]]:
    """(property, kind) of every finding."""
    rows = seed_search.in_memory(prepare.manifest(resolve(plan), "sought", "")).verdicts.verdicts
    return [(row.property, found.kind) for row in rows for found in row.findings]


def planted(folder: Path) -> Path:
    """A plan that is known to fail, with many faults that it does not need."""
    path = folder / "large.toml"
    path.write_text(to_toml(failing(), exact=True))
    return path


def test_a_simulated_plan_fails_each_time_in_the_same_way(capsys: Capture, tmp_path: Path) -> None:
    said = holdfast(capsys, "replay", planted(tmp_path), "--times", "2", "--json")
    found = json.loads(said.out)
    assert said.code == 1
    assert (found["failed"], found["times"]) == (2, 2)
    assert len(set(found["digests"])) == 1
    kinds = {(row["property"], row["kind"]): row["times"] for row in found["findings"]}
    assert kinds["mutual-exclusion", "broken-lease"] == 2


def test_a_run_that_was_kept_is_replayed_bit_for_bit(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    holdfast(capsys, "run", planted(tmp_path), "--out", out)
    said = holdfast(capsys, "replay", out / "latest")
    assert said.code == 1 and said.out.startswith("fails 1 of 1\n")
    manifest = out / "latest" / "manifest.json"
    seed = failing().seed
    manifest.write_text(manifest.read_text().replace(f'"seed": {seed}', '"seed": 9999'))
    plan = out / "latest" / "plan.toml"
    plan.write_text(plan.read_text().replace(f"seed = {seed}", "seed = 9999"))
    said = holdfast(capsys, "replay", out / "latest")
    assert said.code == 4
    assert "different history; first difference: row " in said.err


def test_a_plan_comes_down_to_what_it_takes_and_shows_the_same_finding(
    capsys: Capture, tmp_path: Path
) -> None:
    path = planted(tmp_path)
    said = holdfast(capsys, "shrink", path, "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["before"]["faults"] > 8 and found["after"]["faults"] <= 2
    assert found["after"]["clients"] == 2 and found["ended"] == ""
    small = tmp_path / "large.shrunk.toml"
    assert found["plan"] == str(small) and f"# Again: holdfast replay {small}" in small.read_text()
    again = json.loads(holdfast(capsys, "replay", small, "--json").out)
    shown = {(row["property"], row["kind"]): row["sentence"] for row in again["findings"]}
    assert shown[found["property"], found["kind"]] == found["sentence"]


def test_a_small_budget_gives_the_smallest_so_far(capsys: Capture, tmp_path: Path) -> None:
    path = planted(tmp_path)
    said = holdfast(capsys, "shrink", path, "--budget", "1ms", "--to", tmp_path / "small.toml")
    assert said.code == 0
    assert "budget exhausted: smallest plan so far" in said.out
    assert holdfast(capsys, "replay", tmp_path / "small.toml").code == 1


def test_an_interrupt_gives_the_smallest_so_far(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Tries.once

    def interrupted(tries: Tries, plan: Plan) -> Failing | None:
        if tries.made == 5:
            raise KeyboardInterrupt
        return once(tries, plan)

    monkeypatch.setattr(Tries, "once", interrupted)
    path = planted(tmp_path)
    said = holdfast(capsys, "shrink", path)
    assert said.code == 130
    before, after = (plan_source.read_plan(file) for file in (path, tmp_path / "large.shrunk.toml"))
    assert len(after.faults) < len(before.faults)


def test_sim_hands_a_failing_seed_over_as_a_small_plan(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--mutant", "tolerant-tokens", "-j", "1", "--shrink")
    said = holdfast(capsys, "sim", *words)
    assert said.code == 1
    again = said.out.split("again: holdfast ")[-1].splitlines()[0].split()
    said = holdfast(capsys, *again)
    assert said.code == 1
    assert "no-stale-write: stale-accepted-write, 1 of 1" in said.out


def test_what_shows_nothing_cannot_be_shrunk(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "calm.toml"
    path.write_text('system = "reference"\nbackend = "sim"\ntime = "1s"\nseed = 3\n')
    said = holdfast(capsys, "shrink", path)
    assert said.code == 2 and "nothing to shrink: no violation" in said.err
    said = holdfast(capsys, "shrink", planted(tmp_path), "--property", "ownersip")
    assert said.code == 2 and "(known: " in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("replay", "nothing.toml"), "cannot be read"),
        (("replay", "."), "no such file; is this a run directory"),
        (("shrink", "nothing.toml"), "cannot be read"),
        (("shrink", "nothing.toml", "--budget", "5"), "invalid duration '"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = holdfast(capsys, *words)
    assert said.code == 2 and told in said.err
    assert len(said.err.splitlines()) == 1


def test_a_plan_goes_elsewhere_without_the_options_of_the_simulated_world() -> None:
    plan = swarm.draw(1, "reference", 3, {"mutant": "early-expiry"})
    moved = plan_source.elsewhere(plan, "docker")
    assert moved.backend == "docker" and moved.options["mutant"] == "early-expiry"
    assert any(name.startswith("sim_") for name in plan.options)
    assert not any(name.startswith("sim_") for name in moved.options)
    prepare.complete(replace(moved, nemeses=()))


LATE_WRITES = """\
system = "reference"
backend = "sim"
seed = 1
time = "10s"
lease = "500ms"
clients = 4
nemesis = [
    { name = "pause", target = "holder", for = "700ms", every = "2s" },
    { name = "kill", target = "one", for = "300ms", every = "3s" },
]
[options]
mutant = "tolerant-tokens"
gap_ms = "60"
"""


@pytest.mark.docker
def test_a_plan_that_was_shrunk_in_the_simulator_fails_in_containers_too(
    capsys: Capture, tmp_path: Path
) -> None:
    needs.engine()
    large, small = tmp_path / "large.toml", tmp_path / "large.shrunk.toml"
    large.write_text(LATE_WRITES)
    words = ("--property", "no-stale-write", "--budget", "20s", "--json")
    shrunk = json.loads(holdfast(capsys, "shrink", large, *words).out)
    assert shrunk["before"]["faults"] > shrunk["after"]["faults"]
    again = ("--backend", "docker", "--times", "3", "--out", tmp_path / "runs", "--json")
    found = json.loads(holdfast(capsys, "replay", small, *again).out)
    shown = {(row["property"], row["kind"]): row["times"] for row in found["findings"]}
    assert shown["no-stale-write", "stale-accepted-write"] >= 1
    assert len(found["runs"]) == 3 and found["faults"] == shrunk["after"]["faults"]


def test_findings_of_a_promise_come_first(tmp_path: Path) -> None:
    plan = plan_source.read_plan(planted(tmp_path))
    found = shrinker.first_findings(plan, tmp_path, "")
    assert [shown.promised for shown in found] == sorted((s.promised for s in found), reverse=True)
    assert found[0].name == "mutual-exclusion: broken-lease"
    assert 0 < found[0].after_ns < plan.time_ns + 5 * SECOND
