"""The watch of etcd's record, on messages as the gateway sends them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clusters.systems.etcd.json_gateway import encoded
from holdfast.clusters.systems.etcd.record import MARKER, Change, Watch
from holdfast.clusters.systems.etcd.system import SYSTEM
from holdfast.harness.recording.server_record import RecordEvent
from tests.clusters.records.tasks import brief, task


def put(revision: int, value: str, key: str = "holdfast/db", created: int = 0) -> dict[str, Any]:
    made = {"create_revision": str(created or revision), "mod_revision": str(revision)}
    return {"kv": {"key": encoded(key), "value": encoded(value), **made}}


def deleted(revision: int) -> dict[str, Any]:
    kv = {"key": encoded("holdfast/db"), "mod_revision": str(revision)}
    return {"type": "DELETE", "kv": kv}


def message(*events: dict[str, Any], **result: Any) -> dict[str, Any]:
    return {"result": {"header": {"revision": "9"}, "events": list(events), **result}}


def watching(noted: list[RecordEvent]) -> Watch:
    watch = Watch(task(noted))
    assert watch.request()["create_request"]["startRevision"] == "1"
    return watch


def test_a_key_is_an_entry_whose_token_is_its_create_revision() -> None:
    noted: list[RecordEvent] = []
    watch = watching(noted)
    assert not watch.read(message(created=True))
    assert not watch.read(message(put(2, "41"), deleted(3)))
    assert not watch.read(message(put(5, "42")))
    assert brief(noted) == ["put db 41", "gone db", "put db 42"]
    assert [(one.at, one.token) for one in noted] == [(2, 2), (3, -1), (5, 5)]
    assert watch._task.following.is_set()


def test_a_resumed_watch_skips_what_was_seen() -> None:
    noted: list[RecordEvent] = []
    watch = watching(noted)
    watch.read(message(put(2, "41"), deleted(3)))
    assert watch.request()["create_request"]["startRevision"] == "3"
    assert not watch.read(message(created=True))
    assert not watch.read(message(deleted(3), put(4, "42")))
    assert brief(noted) == ["put db 41", "gone db", "put db 42"]
    assert not watch.lost


@pytest.mark.parametrize("others", [[put(3, "77")], [deleted(4)], [put(7, "42")]])
def test_another_history_is_a_gap_after_which_the_state_is_read(others: list[Any]) -> None:
    noted: list[RecordEvent] = []
    watch = watching(noted)
    watch.read(message(put(2, "41"), put(3, "x", key="holdfast/other")))
    watch.request()
    assert watch.read(message(*others))
    assert "is another one" in watch.lost
    entry = Change(revision=8, key="holdfast/db", deleted=False, rank=8, owner="77")
    watch.restart([entry], 12)
    assert brief(noted)[2:] == ["gap", "state db 77"]
    assert watch.request()["create_request"]["startRevision"] == "13"
    assert not watch.lost


def test_a_compacted_history_is_a_gap() -> None:
    noted: list[RecordEvent] = []
    watch = watching(noted)
    assert watch.read(message(canceled=True, compact_revision="40"))
    assert watch.lost == "etcd had compacted its history up to revision 40"
    watch.restart([], 41)
    assert brief(noted) == ["gap", "state db"]


def test_a_watch_that_is_cancelled_for_another_reason_is_resumed() -> None:
    watch = watching([])
    assert watch.read(message(canceled=True))
    assert not watch.lost


def test_the_marker_of_this_run_ends_the_watch() -> None:
    noted: list[RecordEvent] = []
    watch = watching(noted)
    assert not watch.read(message(put(6, "of another run", key=MARKER)))
    assert watch.read(message(put(7, watch.marker, key=MARKER)))
    assert watch.done
    assert brief(noted) == []


def test_the_lock_call_names_no_attempt() -> None:
    assert SYSTEM.unrecorded({}) is None
    assert "use lock=transaction" in (SYSTEM.unrecorded({"lock": "rpc"}) or "")
