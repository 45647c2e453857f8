"""ZooKeeper's transaction logs, written by hand in the format of its servers."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.clusters.systems.zookeeper import record
from holdfast.clusters.systems.zookeeper.transaction_log import Node, begun, entries
from holdfast.harness.core import ports
from holdfast.harness.recording.server_record import RecordEvent
from tests.clusters.records.tasks import brief, task

HEAD = struct.pack(">iiq", 0x5A4B4C47, 2, 0)
FIRST = "/holdfast/db/0123456789abcdef__lock__0000000000"
SECOND = "/holdfast/db/fedcba9876543210__lock__0000000001"
ZEROS = b"\0" * 4096


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


def entry(zxid: int, kind: int, body: bytes, session: int = 7) -> bytes:
    """One transaction as it is in a file."""
    whole = struct.pack(">qiqqi", session, 1, zxid, 1_700_000_000_000, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


def body_of_create(path: str, data: str, *, ephemeral: bool = True) -> bytes:
    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return text(path) + text(data) + acl + bytes([ephemeral]) + struct.pack(">i", 1)


def create(zxid: int, path: str, data: str, session: int = 7) -> bytes:
    return entry(zxid, 1, body_of_create(path, data), session)


def delete(zxid: int, path: str) -> bytes:
    return entry(zxid, 2, text(path))


def close(zxid: int, session: int) -> bytes:
    return entry(zxid, -11, struct.pack(">i", 0), session)


class Logs:
    """The logs of three servers, and a reader of them."""

    def __init__(self, folder: Path, **options: str) -> None:
        self._folder = folder
        self.noted: list[RecordEvent] = []
        nodes = [ports.Node(name=f"n{n}", role="server") for n in (1, 2, 3)]
        self.reader = record.Reader(task(self.noted, servers=nodes, data=folder, options=options))

    def write(self, *parts: bytes, on: Sequence[int] = (1, 2, 3), name: str = "log.1") -> None:
        """Makes the file of these servers anew, with zeros at its end as they have them."""
        for n in on:
            path = self._folder / f"n{n}" / "version-2" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(HEAD + b"".join(parts) + ZEROS)

    def brief(self) -> list[str]:
        return brief(self.noted)


def test_contenders_queue_by_their_sequence_and_go_with_their_session(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(
        create(1, "/holdfast/db", ""),
        create(2, FIRST, "41", 7),
        create(3, SECOND, "42", 8),
        entry(4, 5, text(FIRST) + text("41") + struct.pack(">i", 1)),
        close(5, 7),
        delete(6, SECOND),
    )
    assert logs.reader.look()
    assert logs.brief() == ["put db 41", "put db 42", "gone db", "gone db"]
    places = [(one.at, one.rank, one.token) for one in logs.noted if one.lock]
    assert places == [(2, 1, 2), (3, 2, 3), (5, 1, 5), (6, 2, 6)]
    assert logs.noted[-1].event == "seen"
    assert logs.noted[-1].at == 6


def test_the_token_is_the_sequence_if_the_client_takes_that(tmp_path: Path) -> None:
    logs = Logs(tmp_path, token="sequence")
    logs.write(create(2, SECOND, "42"))
    logs.reader.look()
    assert logs.noted[0].token == 1


def test_a_transaction_counts_once_a_majority_has_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(1, FIRST, "41"), delete(2, FIRST), on=[1])
    logs.write(create(1, FIRST, "41"), on=[2, 3])
    logs.reader.look()
    assert logs.brief() == ["put db 41"]
    logs.write(create(1, FIRST, "41"), delete(2, FIRST), on=[2])
    logs.reader.look()
    logs.reader.look()
    assert logs.brief() == ["put db 41", "gone db"]


def test_an_end_that_was_not_committed_may_be_cut(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(1, FIRST, "41"), delete(2, FIRST), on=[1])
    logs.write(create(1, FIRST, "41"), on=[2, 3])
    logs.reader.look()
    epoch = 1 << 32
    logs.write(create(1, FIRST, "41"), create(epoch, SECOND, "42"))
    logs.reader.look()
    assert logs.brief() == ["put db 41", "put db 42"]


def test_a_log_that_lost_what_a_majority_had_ends_the_record(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(1, FIRST, "41"), delete(2, FIRST))
    logs.reader.look()
    logs.write(create(1, FIRST, "41"), on=[3])
    with pytest.raises(ValueError, match="lost committed transactions"):
        logs.reader.look()


def test_a_log_goes_on_in_the_next_file(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(9, FIRST, "41"), name="log.9")
    logs.reader.look()
    logs.write(delete(16, FIRST), name="log.10")
    logs.reader.look()
    assert logs.brief() == ["put db 41", "gone db"]


def test_nothing_is_covered_while_a_log_is_not_there(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(1, FIRST, "41"), on=[1, 2])
    assert logs.reader.look() == 0
    assert logs.brief() == ["put db 41"]
    assert not any(one.event == "seen" for one in logs.noted)


def test_the_nodes_of_a_multi_are_seen(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    made = struct.pack(">i", 1) + text(body_of_create(FIRST, "41"))
    gone = struct.pack(">i", 2) + text(text(FIRST))
    logs.write(entry(1, 14, struct.pack(">i", 2) + made + gone))
    logs.reader.look()
    assert logs.brief() == ["put db 41", "gone db"]


@pytest.mark.parametrize("cut", [1, 5, 12, 20, 60])
def test_an_entry_that_is_still_being_written_is_read_later(tmp_path: Path, cut: int) -> None:
    logs = Logs(tmp_path)
    whole = create(2, FIRST, "41")
    logs.write(create(1, "/holdfast", ""), whole[:-cut])
    logs.reader.look()
    assert logs.brief() == []
    logs.write(create(1, "/holdfast", ""), whole)
    logs.reader.look()
    assert logs.brief() == ["put db 41"]


def test_a_changed_byte_is_no_entry() -> None:
    whole = create(2, FIRST, "41")
    assert [done.changes for done, _ in entries(whole)] == [
        [Node(path=FIRST, data=b"41", session=7)]
    ]
    for n in range(len(whole)):
        changed = whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :]
        assert not list(entries(changed))


def test_another_file_is_refused() -> None:
    assert begun(HEAD)
    assert not begun(b"")
    assert not begun(ZEROS)
    with pytest.raises(ValueError, match="no transaction log of version 2"):
        begun(b"SNAPSHOT" * 4)


def test_the_record_ends_with_the_look_after_the_run(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(create(1, FIRST, "41"))
    nodes = [ports.Node(name=f"n{n}", role="server") for n in (1, 2, 3)]

    async def drive() -> list[RecordEvent]:
        noted: list[RecordEvent] = []
        work = task(noted, servers=nodes, data=tmp_path)
        work.over.set()
        async with asyncio.timeout(10):
            await record.follow(work)
        return noted

    assert [one.event for one in asyncio.run(drive())] == ["begun", "put", "seen", "ended"]
