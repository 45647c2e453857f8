"""The task that records the servers' own record: when it starts, ends and is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.driver import server_record
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.recording.server_record import (
    ENDED,
    GAP,
    MOST_LINE,
    PUT,
    KeepsRecord,
    RecordEvent,
    RecordTask,
)
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.server_record import events, parsed
from tests.harness.driver.machine import PLAN, Books, Machine, Service, cluster

SHORT_S = 0.2


@dataclass
class Recorded(Service):
    """A service with a record. how: what its reader does."""

    how: str = "well"

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        return None

    async def follow(self, task: RecordTask) -> None:
        if self.how == "fails":
            raise OSError("no such record")
        if self.how == "waits":
            await asyncio.sleep(600)
        task.note(RecordEvent(event=PUT, t_ns=5, at=1, lock=task.locks[0], owner="41"))
        task.following.set()
        if self.how == "crashes":
            raise ValueError("not a record")
        await task.over.wait()
        if self.how == "hangs":
            await asyncio.sleep(600)
        task.note(RecordEvent(event=ENDED, t_ns=9))


def recorded(folder: Path, how: str, *, asked: bool = True) -> list[str]:
    """The kinds of event in the file of a run whose reader does this; [] without a file."""
    plan = replace(PLAN, server_record=asked)

    async def drive(made: Cluster) -> None:
        async with server_record.recorded(made) as finish:
            await finish()

    asyncio.run(drive(cluster(Machine(folder), Recorded(how=how), Books(), plan=plan)))
    run = RunDir(folder)
    return [one.event for one in events(run)] if run.has(run.server_record) else []


def test_it_reads_from_the_first_client_to_the_last(tmp_path: Path) -> None:
    assert isinstance(Recorded(), KeepsRecord)
    assert recorded(tmp_path, "well") == [PUT, ENDED]


def test_nothing_is_read_that_nobody_asked_for(tmp_path: Path) -> None:
    assert recorded(tmp_path, "well", asked=False) == []
    assert not list(tmp_path.iterdir())


def test_a_reader_that_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_record, "ENDS_WITHIN_S", SHORT_S)
    assert recorded(tmp_path, "hangs") == [PUT]


def test_a_reader_that_crashes_leaves_what_it_has_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded(tmp_path, "crashes") == [PUT]
    assert "ValueError: not a record" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("how", "why"), [("fails", "within 20 s: no such record"), ("waits", "within 0.2 s")]
)
def test_a_record_that_cannot_be_read_from_the_start_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    if how == "waits":
        monkeypatch.setattr(server_record, "FOLLOWS_WITHIN_S", SHORT_S)
    with pytest.raises(EnvironmentFailed, match=why):
        recorded(tmp_path, how)


@pytest.mark.parametrize("owner", ["41", "x" * MOST_LINE])
def test_a_record_of_the_largest_size_ends_with_a_gap(
    monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    monkeypatch.setattr(server_record, "MOST_BYTES", MOST_LINE + 200)
    lines: list[bytes] = []
    file = server_record.RecordFile(lines.append, lambda: 9)
    for _ in range(5):
        file.note(RecordEvent(event=PUT, t_ns=5, at=1, lock="db", owner=owner))
    file.note(RecordEvent(event=ENDED, t_ns=9))
    told = [parsed(line) for line in lines]
    assert [one.event for one in told][-1] == GAP
    assert len(told) == (4 if owner == "41" else 1)
    assert sum(map(len, lines)) <= MOST_LINE + 200
