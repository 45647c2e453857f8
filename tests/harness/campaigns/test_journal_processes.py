"""The journal of a campaign whose process is killed, blocked by another, or written by an older
version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.harness.campaigns.journal import Journal, done, noted
from holdfast.harness.campaigns.results import Result, table
from holdfast.harness.core.errors import UsageError

WRITER = """
import sys
from pathlib import Path
from holdfast.harness.campaigns.journal import Journal
from tests.harness.test_campaign import result
with Journal(Path(sys.argv[1])) as journal:
    for n in range(10**6):
        journal.add([result(f"run-{n}"), result(f"more-{n}")])
        print(n, flush=True)
"""


def result(key: str, exit_code: int = 0, grants: int = 0) -> Result:
    return Result(
        key=key, system="redis", backend="sim", workload="try-lock", nemesis="none", seed=1,
        verdict="HOLDS", exit_code=exit_code, command="holdfast run", grants=grants,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "night" / "journal.jsonl"


@pytest.fixture
def writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another campaign that has recorded ten pairs of runs and goes on."""
    argv = [sys.executable, "-P", "-c", WRITER, str(path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        assert [process.stdout.readline() for _ in range(10)] == [f"{n}\n" for n in range(10)]
        yield process
        process.kill()


def test_all_that_was_recorded_survives_a_kill_and_the_campaign_goes_on(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    writer.kill()
    writer.wait()
    before = done(path)
    assert {f"{word}-{n}" for word in ("run", "more") for n in range(10)} <= before.keys()
    with Journal(path) as journal:
        journal.add([result("after")])
    assert list(done(path)) == [*before, "after"]


def test_a_campaign_that_runs_keeps_its_journal_to_itself(
    path: Path, writer: subprocess.Popen[str]
) -> None:
    before = path.read_bytes()
    with pytest.raises(UsageError) as told, Journal(path):
        pass
    assert told.value.problems == (
        f"{path.parent}: in use by a running campaign; wait for it, or choose --out",
    )
    assert path.read_bytes().startswith(before), "the other one's lines are not cut"


def test_a_journal_is_open_to_the_next_campaign_after_an_error(path: Path) -> None:
    for n in range(3):
        journal = Journal(path)
        with suppress(KeyError), journal:
            journal.add([result(f"run-{n}")])
            raise KeyError
    assert list(done(path)) == ["run-0", "run-1", "run-2"]


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_only_the_torn_line_is_lost_wherever_it_was_torn(path: Path, cut: int) -> None:
    with Journal(path) as journal:
        journal.add([result("a"), result("b"), result("é")])
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(done(path)) == ["a", "b"], "also while nobody has repaired it"
    with Journal(path) as journal:
        journal.add([])
        assert path.read_bytes().endswith(b"}\n")
        journal.add([result("c")])
    assert [one.key for one in noted(path)] == ["a", "b", "c"]


def test_a_journal_of_a_torn_line_only_is_empty(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"event": "done", "key"')
    assert noted(path) == []
    with Journal(path):
        assert path.read_bytes() == b""


def test_a_short_write_goes_on_with_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal or a full pipe may end a write early."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    with Journal(path) as journal:
        journal.add([result("a"), result("b")])
    assert list(done(path)) == ["a", "b"]


def test_of_several_results_of_a_run_the_first_that_was_executed_counts(path: Path) -> None:
    with Journal(path) as journal:
        journal.add([result("a", 4, grants=1), result("b", 0, grants=2), result("a", 4, grants=3)])
        assert {key: one.grants for key, one in done(path).items()} == {"a": 3, "b": 2}
        journal.add([result("a", 3, grants=4), result("b", 1, grants=5), result("a", 0, grants=6)])
    assert {key: one.grants for key, one in done(path).items()} == {"a": 4, "b": 2}
    assert [one.grants for one in noted(path)] == [1, 2, 3, 4, 5, 6]


def test_a_journal_that_cannot_be_made_or_read_is_named(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(UsageError) as told, Journal(path):
        pass
    assert told.value.problems == (f"{path}: cannot be written: Is a directory",)
    with pytest.raises(UsageError, match="cannot be read: not a regular file"):
        noted(path)
    assert noted(path / "none.jsonl") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "x"}, "not a result of this version: Expected `int`, got `str` - at `$.seed`"),
        ({"key": None}, "not a result of this version: Expected `str`, got `null` - at `$.key`"),
        ({"properties": {"a": {"verdict": "HOLDS"}}},
         "not a result of this version: Object missing required field `promised` - at"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_result_is_told_with_its_journal(
    path: Path, change: dict[str, object], said: str
) -> None:
    path.parent.mkdir()
    row = {"event": "done", **table(result("a")), "of_a_newer_version": 1}
    path.write_text(json.dumps(row) + "\n")
    assert noted(path) == [result("a")]
    path.write_text(json.dumps({**row, **change}) + "\n")
    with pytest.raises(UsageError) as told:
        noted(path)
    assert str(told.value).startswith(f"{path}: {said}")
