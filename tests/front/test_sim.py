"""`holdfast sim`: many seeds, counted, and every alarm with the command that shows it again."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.engine.seed_search import Seed, one_seed, shows
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]


def test_seeds_are_counted_and_add_up(capsys: Capture) -> None:
    said = json.loads(holdfast(capsys, "sim", "--seeds", "4", "-j", "1", "--json").out)
    assert said["schema"] == "holdfast-sim/1"
    assert said["seeds"] == 4
    assert sum(said["verdicts"]["mutual-exclusion"].values()) == 4
    assert said["alarms"] == []
    assert said["rows"] > 100 and said["virtual_ns"] > 4 * 1_200_000_000


def test_the_answer_does_not_depend_on_how_many_processes_gave_it(capsys: Capture) -> None:
    words = ("sim", "--system", "majority", "--seeds", "3", "--json")
    one, two = (json.loads(holdfast(capsys, *words, "-j", n).out) for n in ("1", "2"))
    assert [row["digest"] for row in one["alarms"]] == [row["digest"] for row in two["alarms"]]
    assert one["verdicts"] == two["verdicts"]


def test_a_planted_bug_is_found_and_its_command_shows_it_again(
    capsys: Capture, tmp_path: Path
) -> None:
    words = ["sim", "--mutant", "early-expiry", "--seeds", "40", "-j", "1", "--no-trace"]
    said = holdfast(capsys, *words, "--json")
    assert said.code == 1
    told = json.loads(said.out)
    alarm = told["alarms"][-1]
    assert [row["seed"] for row in told["found"]] == [alarm["seed"]]
    assert "mutual-exclusion" in told["found"][0]["shows"]
    prop = alarm["alarms"][0]["property"]
    assert prop in ("mutual-exclusion", "loss-notice")
    words = shlex.split(alarm["command"])[1:]
    again = holdfast(capsys, *words, "--out", str(tmp_path), "--json")
    assert again.code == 1
    found = {row["property"]: row for row in json.loads(again.out)["verdicts"]}
    sentences = [finding["sentence"] for finding in found[prop]["findings"]]
    assert alarm["alarms"][0]["sentence"] in sentences


def test_what_cannot_be_simulated_or_planted_is_refused_with_a_suggestion(capsys: Capture) -> None:
    said = holdfast(capsys, "sim", "--system", "redis")
    assert said.code == 2 and "redlock; test it with holdfast run --system redis" in said.err
    said = holdfast(capsys, "sim", "--workload", "read-rite")
    assert said.code == 2 and "did you mean 'read-write'?" in said.err
    said = holdfast(capsys, "sim", "--mutant", "erly-expiry")
    assert said.code == 2 and "did you mean 'early-expiry'?" in said.err


# Searches for a planted bug


MUTANT = MUTANTS["leaky-round"]
TOKENS = ("token-order", "token-inversion", "token 1 after token 2")
STUCK = ("deadlock-freedom", "deadlock", "nobody was granted")
ASSERTED = "n2 exited unexpectedly: AssertionError: entry 9 is not in 1..2"


def seed_of(*shown: tuple[str, str, str], problems: tuple[str, ...] = ()) -> Seed:
    return Seed(seed=1, command="again", shown=shown, problems=problems)


def test_what_a_service_is_known_to_violate_shows_no_planted_bug() -> None:
    assert shows(MUTANT, "majority", seed_of(TOKENS), None) == ""
    assert shows(MUTANT, "majority", seed_of(TOKENS, STUCK), seed_of(TOKENS)) == (
        "deadlock-freedom (deadlock): nobody was granted"
    )
    of_tokens = msgspec.structs.replace(MUTANT, breaks="token-order")
    assert shows(of_tokens, "majority", seed_of(TOKENS), seed_of()) == ""
    assert shows(of_tokens, "reference", seed_of(TOKENS), seed_of())


def test_what_the_same_seed_shows_without_the_bug_is_not_its_doing() -> None:
    assert shows(MUTANT, "majority", seed_of(STUCK), seed_of(STUCK)) == ""
    other = ("deadlock-freedom", "livelock", "no lock was granted")
    assert shows(MUTANT, "majority", seed_of(STUCK, other), seed_of(STUCK)).startswith(
        "deadlock-freedom (livelock)"
    )


def test_an_assertion_of_a_node_is_a_find_and_says_so_and_another_problem_is_none() -> None:
    found = shows(MUTANT, "majority", seed_of(problems=("c1 was late", ASSERTED)), seed_of())
    assert found == f"a node's own assertion failed: {ASSERTED}"
    assert shows(MUTANT, "majority", seed_of(problems=("c1 was late",)), None) == ""
    both = seed_of(problems=(ASSERTED,))
    assert shows(MUTANT, "majority", both, both) == ""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("leaky-round", "deadlock-freedom (deadlock)"),
        ("wide-quorum", "deadlock-freedom (deadlock)"),
        ("no-lock-delay", "mutual-exclusion (early-grant)"),
        ("lone-commit", "a node's own assertion failed"),
    ],
)
def test_a_search_takes_the_bugs_own_system_and_ends_with_what_it_breaks(
    capsys: Capture, name: str, shown: str
) -> None:
    words = (
        "sim",
        "--mutant",
        name,
        "--seeds",
        "20",
        "-j",
        "1",
        "--twice-every",
        "0",
        "--no-trace",
    )
    said = holdfast(capsys, *words)
    assert said.code == 1
    assert said.out.startswith(f"found {name} with seed")
    assert shown in said.out.splitlines()[0]
    assert said.err.startswith(f"{MUTANTS[name].system} in the simulator")


def test_a_bug_that_does_not_show_is_not_found_whatever_else_is_violated(capsys: Capture) -> None:
    words = ("sim", "--mutant", "wide-quorum", "--seeds", "5", "-j", "1", "--draw", "plain")
    said = holdfast(capsys, *words)
    assert said.code == 3
    assert "wide-quorum not found in 5 seeds: it breaks deadlock-freedom" in said.out
    assert "other violations, not counted as this bug: token-order (token-repeated)" in said.out


@pytest.mark.parametrize("system", ["majority", "single", "chubby", "redlock"])
def test_a_service_without_a_bug_violates_nothing_but_what_it_is_known_to(system: str) -> None:
    for seed in range(1, 8):
        ran = one_seed(seed, system, {})
        known = catalogue.SYSTEMS[system].known
        assert {(prop, kind) for prop, kind, _ in ran.shown} <= {*known}, ran.command


def test_the_processes_of_a_killed_search_end_with_it(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "holdfast", "sim", "--seeds", "100000", "-j", "2"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL) as search:
        tasks = Path(f"/proc/{search.pid}/task/{search.pid}/children")
        eventually(lambda: len(tasks.read_text().split()) >= 2, 30)
        workers = tasks.read_text().split()
        search.kill()
    eventually(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers), 10)


def eventually(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
