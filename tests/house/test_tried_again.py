"""CI tries a few failed tests once more; not many, and none of what must not happen even once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tried_again.py"
FINE = "tests/front/test_run.py::test_a_run_ends[redis-kill]"


def again(folder: Path, *failed: str, tried: int = 0) -> tuple[int, list[str], str]:
    """Exit code, names and reason, of a record of failed tests."""
    record = folder / "lastfailed"
    record.write_text(json.dumps(dict.fromkeys(failed, True)))
    done = subprocess.run(
        [sys.executable, SCRIPT, record, str(tried)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr.strip()


def test_five_at_most_are_tried_again_and_each_is_named(tmp_path: Path) -> None:
    some = [f"{FINE}{n}" for n in range(6)]
    assert again(tmp_path, *some[:5]) == (0, some[:5], "")
    code, names, why = again(tmp_path, *some)
    assert code == 1 and names == some
    assert why == "6 tests failed; at most 5 are tried again"
    assert again(tmp_path, *some[:2], tried=3)[0] == 0, "in all steps together"
    assert again(tmp_path, *some[:2], tried=4)[0] == 1


@pytest.mark.parametrize(
    "name",
    [
        "tests/nemesis/test_draw.py::test_some",
        "tests/harness/test_agent_link.py::test_some",
        "tests/clusters/test_leftovers.py::test_some",
        "tests/front/test_teardown.py::test_some[sim]",
        "tests/front/test_aborted.py::test_a_killed_run_is_healed",
        "tests/front/test_run.py::test_a_client_killed_in_mid_call_loses_nothing",
        "tests/clusters/test_local.py::test_nothing_is_left_of_it",
        "tests/checkers/test_ownership.py::test_some",
        "tests/determinism/test_twice.py::test_some",
        "tests/front/test_run.py",
    ],
)
def test_none_of_kills_teardown_agents_checkers_and_simulator(tmp_path: Path, name: str) -> None:
    code, names, why = again(tmp_path, FINE, name)
    assert code == 1 and name in names and why.startswith(name)


def test_no_record_is_no_reason_to_try_again(tmp_path: Path) -> None:
    assert again(tmp_path) == (1, [], "no test is known to have failed")
