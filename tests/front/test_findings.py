"""The track record: its page is up to date, its commands run, and the bugs still show."""

from __future__ import annotations

import shlex
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.catalogue.findings import FINDINGS, RECORD, TRACK_RECORD, command, page
from tests import needs
from tests.front.said import holdfast
from tests.front.test_runs import run
from tests.power import corpus

ROOT = Path(__file__).resolve().parents[2]
TRIES = 5
NO_BUG = "--system redis --library redis==8.1.0 --time 4s"
"""The command of redis-py-4279 without the option that its bug needs."""
QUICK = [name for name, found in FINDINGS.items() if found.quick]
FIXED = [name for name, found in FINDINGS.items() if found.fixed]
SERVERS = {
    "redis": "redis-server",
    "redlock": "redis-server",
    "etcd": "etcd",
    "zookeeper": "java",
    "nats-kv": "nats-server",
    "postgres-advisory": "postgres",
    "dynamodb": "python3",
    "galera-lease": "mariadbd",
}


def test_the_page_is_written_from_the_table() -> None:
    written = (ROOT / "docs" / "findings" / "libraries.md").read_text()
    assert written == page(), (
        "python -c 'from holdfast.catalogue.findings import page; print(page(), end=str())'"
        " > docs/findings/libraries.md"
    )


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_was_seen_and_its_command_can_be_run(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = FINDINGS[name]
    assert 0 < found.seen[0] <= found.seen[1]
    # A server is of the distribution, and kazoo is pinned by its system.
    assert "server" in found.package or "kazoo" in found.package or found.package in command(found)
    said = holdfast(capsys, *shlex.split(command(found))[1:], "--dry-run")
    if "one network per client" in said.err:
        needs.namespaces()
    if "disks of servers need" in said.err:
        needs.disks()
    assert said.code == 0, said.err


def test_a_finding_is_a_scenario_too(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--dry-run", "--seed", "5", "--set", "gap_ms=9")
    long = holdfast(capsys, *shlex.split(command(FINDINGS["redis-py-4279"]))[1:], *asked)
    short = holdfast(capsys, "scenario", "finding:redis-py-4279", *asked)
    assert short.code == 0, short.err
    assert short.out == long.out
    assert "gap_ms" in short.out
    shown = holdfast(capsys, "scenario", "finding:redis-py-4279", "--show")
    assert shown.out.strip() == command(FINDINGS["redis-py-4279"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("finding:redis-py-427",), "did you mean 'redis-py-4279'"),
        (("finding:redis-py-4279", "--seeds", "3"), "finding redis-py-4279 is not one"),
        (("finding:redis-py-4279", "--backend", "moon"), "moon"),
    ],
)
def test_a_finding_that_cannot_be_run_so_is_told(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = holdfast(capsys, "scenario", *words)
    assert refused.code == 2
    assert said in refused.err


def test_the_list_says_what_breaks_how_often_who_reported_it_and_how_to_see_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    listed = holdfast(capsys, "list", "findings").out
    for name, found in FINDINGS.items():
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name} ")]
        seen = f"{found.seen[0]} of {found.seen[1]}"
        for told in (found.package, found.says, found.breaks, seen, found.cited, f"finding:{name}"):
            assert told in line


def shows(name: str, words: str, tmp_path: Path, tries: int) -> int:
    """Whether (1 or 0) the property of a finding was violated in one of so many tries."""
    needs.namespaces()
    system = words.split()[words.split().index("--system") + 1]
    needs.binary(SERVERS[system])
    if "deb:golang-" in words:
        needs.binary("go")
    count = 0
    for seed in range(1, tries + 1):
        ran = run(tmp_path, *shlex.split(words), "--seed", str(seed), codes=(0, 1, 3))
        count += ran.verdict(FINDINGS[name].breaks) == "VIOLATED"
        if count:
            assert entries(name, ran.verdicts) <= ENTRIES.get(name, 1), (name, seed)
            break
    return count


ENTRIES = {"pgbouncer-102": 2, "python-etcd-228": 2, "redis-forgets": 2, "redlock-ng-wall-clock": 2}
"""A finding is one cause, so at most one entry, but for these. python-etcd has the bug of
python-etcd-268 too. The pool of pgbouncer gives one session to two clients, and later a session
that still holds the lock to none; no call is common to both. An owner that goes on after its server
forgot it, or counted its own time wrong, writes late: nothing of that is promised."""


def entries(name: str, verdicts: dict[str, Any]) -> int:
    """The number of causes of a finding's run that break a promise, or of all where none does; the
    first one has the property of the finding, and beside it at most one is a limit."""
    causes: list[dict[str, Any]] = verdicts["causes"]
    assert FINDINGS[name].breaks in causes[0]["findings"], name
    broken = [one for one in causes if one["broken"]]
    assert not broken or len(causes) - len(broken) <= 1, name
    return len(broken or causes)


@pytest.mark.real_server
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_finding_shows_at_once(name: str, tmp_path: Path) -> None:
    assert shows(name, FINDINGS[name].command, tmp_path, 1) == 1


def test_the_record_is_what_make_corpus_writes_of_findings_that_exist() -> None:
    assert TRACK_RECORD.keys() <= FINDINGS.keys()
    assert RECORD.read_text() == corpus.written(TRACK_RECORD)
    for shown in TRACK_RECORD.values():
        assert 0 < shown.seen[0] <= shown.seen[1]
        assert any(version.startswith("CPython ") for version in shown.versions)


@pytest.mark.real_server
def test_a_finding_that_is_run_again_is_recorded_and_one_that_no_longer_shows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs.namespaces()
    needs.binary("redis-server")
    name, today = "redis-py-4279", date(2027, 1, 2)
    shown, line = corpus.again(name, 1, today)
    assert shown is not None and line.split() == [name, "1", "of", "1"]
    assert (shown.last, shown.seen) == (today, (1, 1))
    assert "redis==8.1.0" in shown.versions
    mended = msgspec.structs.replace(FINDINGS[name], command=NO_BUG)
    monkeypatch.setitem(FINDINGS, name, mended)
    shown, line = corpus.again(name, 1, today)
    assert shown is None and line.split()[1:4] == ["NOT", "SHOWN", "in"]
    monkeypatch.setitem(FINDINGS, name, msgspec.structs.replace(mended, command="--system moon"))
    shown, line = corpus.again(name, 1, today)
    assert shown is None and "moon" in line


@pytest.mark.power
@pytest.mark.parametrize("name", FINDINGS)
def test_every_finding_shows_within_a_few_tries(name: str, tmp_path: Path) -> None:
    assert shows(name, FINDINGS[name].command, tmp_path, TRIES) > 0


@pytest.mark.power
@pytest.mark.parametrize("name", FIXED)
def test_a_release_without_the_bug_is_clean_under_the_same_command(
    name: str, tmp_path: Path
) -> None:
    found = FINDINGS[name]
    words = found.without_bug()
    assert words != found.command
    assert shows(name, words, tmp_path, TRIES) == 0
