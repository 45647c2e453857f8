"""What is derived for all attempts at once is what is derived of each, whatever happened to it."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.run_directory import NOT_DRAWN, Shape, write

from holdfast import catalogue
from holdfast.checkers.holds import attempt_table
from holdfast.checkers.holds.attempt_table import Table
from holdfast.checkers.holds.derive import INF, attempts
from holdfast.checkers.properties import mutual_exclusion, ownership, token_order
from holdfast.engine.judging import judge_run
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Promises
from holdfast.harness.history.reader import load
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.runs import journal
from tests.checkers.brute.clients import run
from tests.checkers.brute.guarded import World
from tests.checkers.brute.test_services import KINDS
from tests.checkers.faults import window
from tests.checkers.neighbours import neighbours
from tests.checkers.shorthand import case
from tests.checkers.test_near_misses import of_every_rule
from tests.draws import Draws

COLUMNS = ("token", "end", "end_row", "why", "known", "proof", "bound", "over", "queued")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short a history is, its attempts are derived all at once."""
    monkeypatch.setattr(attempt_table, "FEW", -1)


def same(case: Case) -> int:
    """Compare the two ways; the number of attempts that were plain."""
    from holdfast.checkers.holds.vectorized import derive

    one_by_one = Table(case)
    one_by_one.fill(range(len(one_by_one)), attempts(case))
    fresh = replace(case, memo={})
    quick = Table(fresh)
    plain = derive(quick)
    for name in COLUMNS:
        wanted, found = getattr(one_by_one, name)[plain], getattr(quick, name)[plain]
        assert (wanted == found).all(), (name, quick.row[plain][wanted != found])
    picked = quick.pick(range(len(quick)))
    assert picked == list(attempts(case))
    return int(plain.sum())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", KINDS)
def test_attempts_of_small_services_come_out_the_same_both_ways(name: str, draws: Draws) -> None:
    plain = sum(same(run(seed, KINDS[name])) for seed in range(draws(12)))
    assert plain > 0 or KINDS[name].bound == "session"


@pytest.mark.usefixtures("at_once")
def test_attempts_come_out_the_same_under_other_promises(draws: Draws) -> None:
    for seed in range(draws(12)):
        told = World(rng=stream(seed, "plain"), mutant="").run()
        for bound in ("lease", "connection", "none"):
            for flag in (False, True):
                promises: Promises = replace(
                    told.promises,
                    bound=bound,
                    renew_proves=flag,
                    release_proves=not flag,
                    release_once=flag,
                    slip_ns=1_000_000 * flag,
                )
                assert same(replace(told, promises=promises, memo={})) > 0


@pytest.mark.usefixtures("at_once")
def test_attempts_next_to_a_violation_of_any_rule_come_out_the_same_both_ways(draws: Draws) -> None:
    chance, plain = stream(1, "next to a violation"), 0
    for _, told in of_every_rule():
        plain += sum(same(near) for near in neighbours(told, chance, draws(12)))
    assert plain > draws(1000)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("bound", ["session", "connection"])
def test_a_hold_may_outlast_its_client_as_long_as_its_session_or_connection(bound: str) -> None:
    told = case(
        "0a?@0 0a+1@1 1a?@3 1a+2@4 0C@5 2a?@8 2a+3@9",
        promises={"bound": bound},
        windows=[window("kill", "c1", 6, 7)],
    )
    assert same(told) == 3


@pytest.mark.usefixtures("at_once")
def test_each_attempt_ends_by_the_first_kill_of_its_client_after_its_call() -> None:
    kills = [("c0", 5), ("c1", 8), ("c0", 15)]
    told = case(
        "0a?@0 0a+1@1 1a?@6 1a+2@7 0a?@10 0a+3@11 0a?@20 0a+4@21",
        windows=[window("kill", node, at, at + 1) for node, at in kills],
    )
    assert same(told) == 4
    assert [a.end_ns // SECOND for a in attempts(told)] == [5, 8, 15, INF // SECOND]
    both = case("0a?@0 0a+1@1 1a?@6 1a+2@7", windows=[window("kill", "c0+n1+c1", 9, 10)])
    assert same(both) == 2
    assert [a.end_ns // SECOND for a in attempts(both)] == [9, 9]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("fault", ["", "double", "early", "reset", "revive", "anyone"])
def test_findings_are_the_same_both_ways(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = 0
    for seed in range(25):
        told = run(seed, replace(KINDS["leases"], fault=fault))
        for checker in (mutual_exclusion, token_order, ownership):
            quick = checker.check(replace(told, memo={}))
            with monkeypatch.context() as changed:
                changed.setattr(attempt_table, "FEW", 1 << 40)
                slow = checker.check(replace(told, memo={}))
            assert quick == slow
            found += len(slow.findings)
    assert bool(found) == bool(fault)


@pytest.mark.parametrize("violation", [False, True])
def test_a_drawn_run_directory_is_judged_as_it_was_drawn(tmp_path: Path, violation: bool) -> None:
    shape = Shape(ops=9000, writes=1, locks=2, clients=4, lapse=400, violation=violation)
    run_dir = write(shape, tmp_path)
    verdicts = {row["property"]: row for row in plain(judge_run(run_dir))["verdicts"]}
    assert set(verdicts) == set(catalogue.CHECKERS) - set(NOT_DRAWN)
    wrong = {"mutual-exclusion", "ownership"} if violation else set()
    for prop in set(verdicts) - {"no-expired-write"}:
        expected = "VIOLATED" if prop in wrong else "HOLDS"
        assert verdicts[prop]["verdict"] == expected, verdicts[prop]
    assert len(verdicts["mutual-exclusion"]["findings"]) == violation
    manifest, marks = run_dir.read_manifest(), journal.marks(run_dir)
    case = case_of(manifest, load(run_dir.history), marks, [])
    assert len(case.history.rows) > attempt_table.FEW
    assert same(case) == int(np.size(Table(case).row))
    assert {field.name for field in fields(shape)} == set(
        json.loads(run_dir.manifest.read_text())["drawn"]
    )
