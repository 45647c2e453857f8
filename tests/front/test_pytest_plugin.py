"""The pytest plugin, on simulated locks: green, red with the story, inconclusive, exit 2."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.front.author import ROOT, Repository, github_commands, gitlab_commands

TESTS = """
import pytest

PLAN = {"backend": "sim", "lease": "500ms", "time": "6s", "runs": 1, "clients": 4}
PAUSES = "pause:target=holder,every=2s,for=1s"


@pytest.mark.holdfast("single", nemesis=PAUSES, **PLAN)
def test_single_holds(lock_campaign):
    checked = lock_campaign.check()
    assert [result.effective for result in checked.results] == [("pause",)]


@pytest.mark.holdfast(scenario="concurrent-acquisition", backend="sim", runs=1)
def test_a_scenario_runs_its_own_plan(lock_campaign):
    checked = lock_campaign.check()
    assert [result.scenario for result in checked.results] == ["concurrent-acquisition"]


@pytest.mark.holdfast("majority", nemesis="kill:every=1s,for=200ms", **PLAN)
def test_majority_breaks(lock_campaign):
    lock_campaign.check()


@pytest.mark.holdfast("single", **PLAN)
def test_alone_shows_nothing(lock_campaign):
    lock_campaign.check(clients=1)


def test_a_mistake_is_told(lock_campaign):
    lock_campaign.check(system="sinlge", colour="red")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write("test_locks.py", TESTS)
    made.write("harness/__init__.py", "raise RuntimeError('not yours to import')\n")
    return made


@pytest.mark.slow
def test_each_outcome_is_told_in_its_own_words(repository: Repository) -> None:
    ran = repository.run("pytest -p no:cacheprovider --holdfast-seed 3")
    assert ran.code == 1, ran.said
    assert "holdfast: 5 campaigns from seed 3, profile standard" in ran.said
    assert "3 failed, 2 passed" in ran.said
    assert re.search(r"gate FAILED: \d+ problems? in 1 run", ran.said)
    assert "  VIOLATED: " in ran.said and "majority broke its promise" in ran.said
    assert "again: holdfast run --system majority --backend sim" in ran.said
    assert (
        "gate INCONCLUSIVE: " in ran.said and "promised, but not tested in the only run" in ran.said
    )
    assert "did you mean 'single'?" in ran.said and "key 'colour'" in ran.said
    gated = repository.run("holdfast gate .holdfast/pytest --update-baseline")
    assert gated.code == 1 and "not written" in gated.said


@pytest.mark.slow
def test_a_violated_test_has_25_lines_and_a_green_one_none_of_its_own(
    repository: Repository,
) -> None:
    """All that pytest prints of it, with the tables of other faults: one failure, no progress."""
    two = 'nemesis=["kill:every=1s,for=200ms", PAUSES]'
    repository.write("test_locks.py", TESTS.replace('nemesis="kill:every=1s,for=200ms"', two))
    failed = repository.run(
        "pytest -q -p no:cacheprovider --holdfast-seed 3 test_locks.py -k majority_breaks"
    )
    lines = failed.said.splitlines()
    assert failed.code == 1 and len(lines) <= 25, failed.said
    assert sum(line.startswith("violation: ") for line in lines) >= 1
    assert any(line.startswith("  again: holdfast run ") for line in lines), failed.said
    assert any(line.startswith("  report: ") for line in lines)
    assert failed.said.count("broke its promise") <= 2
    open_ = repository.run("pytest -q -p no:cacheprovider test_locks.py -k alone_shows_nothing")
    lines = open_.said.splitlines()
    assert open_.code == 1 and len(lines) <= 20, open_.said
    assert sum(line.startswith("not-exercised: ") for line in lines) == 1
    assert "more reasons: see the campaign" in " ".join(open_.said.split())
    assert sum(line.startswith("  to exercise it: holdfast run ") for line in lines) == 1
    names = next(line for line in lines if line.startswith("not-exercised: ")).split(": ")[2]
    assert len(names.split(", ")) == len({*names.split(", ")})
    narrow = repository.run(
        "COLUMNS=80 pytest -q -p no:cacheprovider --holdfast-seed 3 test_locks.py"
        " -k 'majority_breaks or alone_shows_nothing'"
    )
    blocks = narrow.said.split("\n____")
    assert len(blocks) == 3 and all(len(one.splitlines()) <= 25 for one in blocks), narrow.said
    copied = ("  again: ", "  report: ", "  to exercise it: ", "campaign: ", "FAILED ")
    lines = [line for line in narrow.said.splitlines() if not line.startswith(copied)]
    assert max(map(len, lines)) <= 80, narrow.said
    green = repository.run(
        "pytest -p no:cacheprovider --holdfast-seed 3 test_locks.py -k single_holds"
    )
    assert green.code == 0 and len(green.said.splitlines()) <= 10, green.said


LIMIT = """
import pytest


@pytest.mark.holdfast(
    "single", backend="sim", lease="500ms", time="6s", runs=1, clients=4, resource="unfenced",
    nemesis="pause:target=holder,every=2s,for=1s",
)
def test_a_limit(lock_campaign):
    lock_campaign.check()
"""


def test_a_green_test_shows_what_was_violated_and_never_promised(repository: Repository) -> None:
    repository.write("test_limit.py", LIMIT)
    ran = repository.run("pytest -p no:cacheprovider --holdfast-seed 3 test_limit.py")
    assert ran.code == 0, ran.said
    _, _, told = ran.said.partition("holdfast: violated in tests that passed")
    # What one cause violated is one line.
    assert "no-stale-write, no-expired-write: violated, never promised: c" in told, ran.said
    assert told.count("violated, never promised") == 1
    assert "test_limit.py::test_a_limit: single unfenced / sim" in told and "1 passed" in told
    quiet = repository.run(
        "pytest -p no:cacheprovider --holdfast-seed 3 test_locks.py -k single_holds"
    )
    assert quiet.code == 0 and "violated in tests" not in quiet.said, quiet.said


def test_a_missing_baseline_ends_everything_with_exit_code_2(repository: Repository) -> None:
    ran = repository.run("pytest --holdfast-baseline absent.toml")
    assert ran.code == 2, ran.said
    assert "no such baseline" in ran.said and "passed" not in ran.said


def test_the_plugin_imports_pytest_and_a_name_and_nothing_else() -> None:
    tree = ast.parse((ROOT / "src" / "holdfast" / "pytest" / "plugin.py").read_text())
    found = {
        ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert found == {
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING",
        "import pytest",
        "from holdfast.pytest import NOTE",
    }
    package = ast.parse((ROOT / "src" / "holdfast" / "pytest" / "__init__.py").read_text())
    assert not [node for node in ast.walk(package) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_the_examples_install_test_and_gate() -> None:
    for commands in (github_commands(), gitlab_commands()):
        assert [line.split()[0] for line in commands] == ["python", "pytest", "holdfast"]
        assert commands[0] == "python -m pip install holdfast pytest"
