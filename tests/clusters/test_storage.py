"""What a node finds on its disk after a crash, and what it refuses to start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Save,
    Snapshot,
    Tail,
)
from holdfast.clusters.systems.reference.consensus.storage import Corrupt, Storage


def entries(*terms: int) -> tuple[Entry, ...]:
    """Entries of these terms."""
    return tuple(Entry(term=term, command={"op": "x", "term": term}) for term in terms)


def written(folder: Path, *saves: Save) -> Durable:
    """Writes, closes, and loads again."""
    storage = Storage(folder)
    storage.load()
    for save in saves:
        storage.write(save)
    storage.sync()
    storage.close()
    return loaded(folder)


def loaded(folder: Path) -> Durable:
    """What is on disk."""
    storage = Storage(folder)
    try:
        return storage.load()
    finally:
        storage.close()


def test_a_new_node_finds_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path / "new") == NOTHING


def test_what_was_synced_is_there_again(tmp_path: Path) -> None:
    ballot = Ballot(term=2, vote="n1")
    durable = written(tmp_path, ballot, Tail(first=1, entries=entries(1, 2)))
    assert durable == Durable(ballot=ballot, snapshot=NOTHING.snapshot, entries=entries(1, 2))


def test_a_later_tail_takes_the_place_of_what_stood_there(tmp_path: Path) -> None:
    tails = [Tail(first=1, entries=entries(1, 1, 1)), Tail(first=2, entries=entries(2))]
    assert written(tmp_path, *tails).entries == entries(1, 2)


def test_a_snapshot_takes_the_place_of_the_log_before_it(tmp_path: Path) -> None:
    snapshot = Snapshot(index=3, term=1, state={"a": 1})
    whole = Durable(ballot=Ballot(term=1, vote=""), snapshot=snapshot, entries=entries(1))
    more = Tail(first=5, entries=entries(2))
    found = written(tmp_path, Tail(first=1, entries=entries(1, 1, 1, 1)), whole, more)
    assert found.snapshot == snapshot
    assert found.entries == entries(1, 2)


@pytest.mark.parametrize(("term", "kept"), [(1, 1), (2, 0)])
def test_a_crash_between_snapshot_and_log_keeps_what_continues_it(
    tmp_path: Path, term: int, kept: int
) -> None:
    written(tmp_path, Tail(first=1, entries=entries(1, 1, 1)))
    old = (tmp_path / "log").read_bytes()
    snapshot = Snapshot(index=2, term=term, state={})
    written(tmp_path, Durable(ballot=NOTHING.ballot, snapshot=snapshot, entries=()))
    (tmp_path / "log").write_bytes(old)
    assert len(loaded(tmp_path).entries) == kept


def test_a_torn_tail_is_cut_off_at_every_length(tmp_path: Path) -> None:
    written(tmp_path, Tail(first=1, entries=entries(1, 1)))
    log = tmp_path / "log"
    whole = log.read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(first, len(whole)):
        log.write_bytes(whole[:size])
        assert loaded(tmp_path).entries == entries(1)
        assert log.read_bytes() == whole[:first]


def test_a_node_goes_on_writing_after_a_torn_tail(tmp_path: Path) -> None:
    written(tmp_path, Tail(first=1, entries=entries(1, 1)))
    log = tmp_path / "log"
    log.write_bytes(log.read_bytes()[:-3])
    assert written(tmp_path, Tail(first=2, entries=entries(5))).entries == entries(1, 5)


def test_damage_before_the_end_is_refused_wherever_it_is(tmp_path: Path) -> None:
    written(tmp_path, Tail(first=1, entries=entries(1, 1)))
    log = tmp_path / "log"
    whole = log.read_bytes()
    for place in range(whole.index(b"\n")):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        log.write_bytes(damaged)
        with pytest.raises(Corrupt, match="line 1"):
            loaded(tmp_path)


def test_a_missing_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="entry 1 is missing"):
        written(tmp_path, Tail(first=2, entries=entries(1)))


def test_a_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    snapshot = Snapshot(index=3, term=1, state={"a": 1})
    written(tmp_path, Durable(ballot=NOTHING.ballot, snapshot=snapshot, entries=()))
    path = tmp_path / "snapshot"
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(Corrupt, match="the snapshot: the checksum"):
        loaded(tmp_path)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    try:
        with pytest.raises(Corrupt, match="another process"):
            Storage(tmp_path)
    finally:
        storage.close()
