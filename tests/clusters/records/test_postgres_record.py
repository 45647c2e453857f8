"""The reader of PostgreSQL's decoded log, on what a slot gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from holdfast.clusters.systems.postgres import record
from holdfast.clusters.systems.sql_lease.system import POSTGRES
from holdfast.harness.core.ports import Node
from holdfast.harness.recording.server_record import RecordEvent
from tests.clusters.records.tasks import brief, task

Change = tuple[int, str]


def written(place: int, owner: str, lock: str = "db", what: str = "UPDATE") -> list[Change]:
    """A transaction that writes a row."""
    row = f"name[text]:'{lock}' owner[text]:'{owner}' until_us[bigint]:1700"
    told = f"table public.leases: {what}: {row}"
    return [(place - 2, "BEGIN"), (place - 1, told), (place, "COMMIT")]


class Slot:
    """A server's slot: looks that a reader makes of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changes: list[Change] = []
        self.confirmed: list[str] = []
        self.down = False
        self.noted: list[RecordEvent] = []
        monkeypatch.setattr(record, "first_row", self._row)
        node = Node(name="n1", role="server", address="10.0.0.1")
        self._reader = record.Reader(task(self.noted, servers=[node]))

    async def _row(self, address: str, words: str, within_s: float) -> tuple[str, ...] | None:
        if self.down:
            return None
        if "peek" in words:
            return (json.dumps(self.changes),)
        self.confirmed.append(words)
        return ("",)

    def look(self, *changes: Sequence[Change]) -> int:
        """A look at a slot with these changes, each a transaction."""
        self.changes = [one for several in changes for one in several]
        return asyncio.run(self._reader.look())


def test_an_owner_in_a_row_holds_until_it_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot(monkeypatch)
    slot.look(written(9, "c1_41", what="INSERT"), written(19, "c1_41"), written(29, ""))
    assert brief(slot.noted) == ["put db 41", "gone db 41"]
    assert [one.at for one in slot.noted] == [9, 29, 29]
    assert slot.confirmed == [record.CONFIRM % 19]


def test_a_takeover_ends_the_hold_of_the_last_owner_before(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot(monkeypatch)
    slot.look(written(9, "c1_41"), written(19, "c2_42"))
    assert brief(slot.noted) == ["put db 41", "gone db 41 expired", "put db 42"]


def test_what_was_read_comes_again_and_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot(monkeypatch)
    first, second, third = written(9, "c1_41"), written(19, ""), written(29, "c2_42")
    slot.look(first, second)
    slot.look(second)
    slot.look(first, second, third)
    assert brief(slot.noted) == ["put db 41", "gone db 41", "put db 42"]


@pytest.mark.parametrize("others", [[], [written(19, "c2_42")], [written(9, "c3_43")]])
def test_another_log_ends_the_record(
    monkeypatch: pytest.MonkeyPatch, others: list[list[Change]]
) -> None:
    slot = Slot(monkeypatch)
    slot.look(written(9, "c1_41"))
    with pytest.raises(ValueError, match="another one than before"):
        slot.look(*others)


def test_a_server_that_does_not_respond_is_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = Slot(monkeypatch)
    slot.down = True
    assert slot.look(written(9, "c1_41")) == 0
    slot.down = False
    assert slot.look(written(9, "c1_41"))
    assert brief(slot.noted) == ["put db 41"]


def test_a_look_that_does_not_have_all_of_the_slot_covers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record, "MOST", 3)
    slot = Slot(monkeypatch)
    assert slot.look(written(9, "c1_41")) == 0
    assert brief(slot.noted) == ["put db 41"]
    assert not any(one.event == "seen" for one in slot.noted)


def test_names_with_quotes_and_other_tables_are_read() -> None:
    changes = [
        (1, "BEGIN"),
        (2, "table public.locks: INSERT: name[text]:'db'"),
        *written(9, "c1_41", lock="it''s")[1:],
    ]
    (commit,) = record.transactions(changes)
    assert commit.rows == (("it's", "c1_41"),)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "add --set wal_level=logical"),
        ({"wal_level": "logical", "replicas": "1"}, "use replicas=0"),
        ({"wal_level": "logical", "synchronous_commit": "off"}, "use synchronous_commit=on"),
    ],
)
def test_a_log_that_cannot_be_relied_on_is_refused(options: dict[str, str], why: str) -> None:
    assert why in (POSTGRES.unrecorded(options) or "")
    assert POSTGRES.unrecorded({"wal_level": "logical"}) is None
