"""Edges of recordings: timestamps at the edge of a call, damaged headers, rows cut off in time."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE
from holdfast.harness.core.clock import LARGEST
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import (
    LEFT,
    LONGEST_STAMP,
    NO_TOKEN,
    ROW_BYTES,
    ROW_FORMAT,
    Op,
    Status,
)
from holdfast.harness.history import reader
from holdfast.harness.recording import segments, starvation
from holdfast.harness.recording.clock_sync import MonitoredOffset
from holdfast.harness.recording.phase import END, GO, PREPARE, Phase
from holdfast.harness.recording.recorder import Unrecorded
from holdfast.harness.recording.segments import META_AT, Recorder, write_closed
from holdfast.harness.recording.starvation import Watch, of_row
from holdfast.harness.recording.timestamped_socket import Edges
from holdfast.harness.runs import files

META = {"node": "c1", "processes": [1]}


def offset(*bounds: tuple[int, int]) -> tuple[MonitoredOffset, list[tuple[str, int]]]:
    """An offset that is measured to have these bounds in turn, at 1, 2 ..., and what it told."""
    looks, clock = iter(bounds), iter(range(1, 99))
    told: list[tuple[str, int]] = []
    made = MonitoredOffset(
        lambda times, enough_ns: next(looks),
        lambda at: told.append(("agreed", at)),
        lambda at: told.append(("broken", at)),
        now=lambda: next(clock),
    )
    return made, told


@pytest.mark.parametrize(
    ("sent", "arrived", "edges"),
    [
        (1150, 1180, (130, 170)),
        (1110, 1180, (100, 170)),
        (1120, 1180, (100, 170)),
        (1220, 1220, (200, 200)),
        (1221, 1221, (0, 0)),
        (1150, 1215, (130, 200)),
        (1150, 1149, (130, 0)),
        (1150, 1150, (130, 140)),
        (0, 1180, (0, 0)),
        (1150, 0, (130, 0)),
    ],
)
def test_a_send_counts_as_early_and_an_arrival_as_late_as_possible_within_the_call(
    sent: int, arrived: int, edges: tuple[int, int]
) -> None:
    made, _ = offset((1010, 1020))
    assert made.edges(Edges(sent, arrived), 100, 200, 0) == edges
    assert made.edges(Edges(sent, arrived), 100, 200, 1) == (0, 0), "begun in another epoch"


@pytest.mark.parametrize(
    ("second", "agrees"), [((15, 30), True), ((20, 30), True), ((21, 30), False),
                           ((0, 10), True), ((0, 9), False), ((12, 18), True)],
)  # fmt: skip
def test_two_measurements_agree_if_their_bounds_meet(second: tuple[int, int], agrees: bool) -> None:
    made, told = offset((10, 20), second, second, (0, 99))
    made.check()
    assert (told, made.steps) == (([("agreed", 2)], 0) if agrees else ([("broken", 1)], 1))
    narrow = (max(10, second[0]), min(20, second[1])) if agrees else second
    assert made.edges(Edges(1000, 0), 0, 2000, made.steps) == (
        (1000 - narrow[1], 0) if agrees else (0, 0)
    )
    made.check()
    assert told[1:] == ([("agreed", 3)] if agrees else [("broken", 1), ("agreed", 3)])
    assert made.edges(Edges(1000, 0), 0, 2000, made.steps) == (1000 - narrow[1], 0)
    made.close()
    assert told[-1] == ("agreed", 4), "a last measurement"


def test_a_writer_in_memory_and_one_in_files_keep_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 4)
    rng, clock = random.Random(6), iter(range(1, 10_000))
    kept = Recorder(None, "c1", META, now=lambda: next(clock))
    for n in range(11):
        key = kept.intern(rng.choice(["a", "b", "é"]))
        row = kept.invoke(
            Op.WRITE, 1, key, attempt=n, token=n - 1, arg=n, aux=-n, op=n, mode=1, late=n
        )
        assert row == n
        if n % 3:
            kept.complete(row, Status.OK, token=7 if n % 2 else None, res=n, spent=n, err=key)
    rows, strings = kept.rows(11), kept.strings()
    assert len(rows) == 11 * ROW_BYTES and kept.rows(5) == rows[: 5 * ROW_BYTES]
    history = tmp_path / "history"
    history.mkdir()
    write_closed(history, {"writer": "c1", **META}, strings, rows)
    assert len(list(history.glob("*.seg"))) == 3
    found = reader.load(history)
    again = reader.merge(
        [reader.Written(meta={"writer": "c1", **META}, strings=strings, rows=rows)]
    )
    assert found.history.rows.tolist() == again.history.rows.tolist()
    assert found.history.strings == again.history.strings and found.nodes == {1: "c1"}
    assert found.history.problems == ()
    for n, values in enumerate(struct.iter_unpack(ROW_FORMAT, rows)):
        ended = n % 3 > 0
        assert values[2:8] == (n, 7 if ended and n % 2 else n - 1, n, n * ended, -n, n)
        assert values[17] == (Status.OK if ended else Status.INVOKED)
    write_closed(tmp_path, {"writer": "none"}, [""], b"")
    assert reader.read_header(tmp_path / "none.seg").rows == 0


def test_kernel_timestamps_are_distances_from_the_edges_of_the_call() -> None:
    for edges, status, found in (
        ((103, 195), Status.OK, (3, 5, 3)),
        ((103, 195), Status.NOT_OWNER, (3, 5, 3)),
        ((103, 195), Status.FAIL, (3, 0, LEFT)),
        ((103, 0), Status.OK, (3, 0, LEFT)),
        ((0, 195), Status.OK, (0, 5, 2)),
        ((0, 0), Status.OK, (0, 0, 0)),
        ((100 + LONGEST_STAMP + 9, 0), Status.OK, (LONGEST_STAMP, 0, LEFT)),
    ):
        clock: Iterator[int] = iter((100, 200))
        kept = Recorder(None, "c1", META, now=clock.__next__)
        row = kept.invoke(Op.WRITE, 1, 0)
        seen: list[tuple[int, int]] = []

        def stamped(
            inv: int, ret: int, seen: list[tuple[int, int]] = seen, edges: tuple[int, int] = edges
        ) -> tuple[int, int]:
            seen.append((inv, ret))
            return edges

        assert kept.complete(row, status, stamped=stamped) == 200 and seen == [(100, 200)]
        (values,) = struct.iter_unpack(ROW_FORMAT, kept.rows(1))
        assert (values[8], values[9], values[15]) == found


def test_metadata_that_does_not_fit_into_a_header_is_refused() -> None:
    room = segments.HEADER_BYTES - META_AT - 1
    empty = len(json.dumps({"writer": "c1", "x": ""}))
    Recorder(None, "c1", {"x": "a" * (room - empty)})
    with pytest.raises(EnvironmentFailed, match=f"recorder c1: {room + 1} bytes of metadata"):
        Recorder(None, "c1", {"x": "a" * (room - empty + 1)})


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        (b"{", "the segment's description is damaged: "),
        (b"{}", "the segment's description is damaged: 'writer'"),
        (b'{"writer": ".c1"}', "the segment's description is damaged: writer is '.c1'"),
        (b'{"writer": 7}', "the segment's description is damaged: writer is '7'"),
        (b'{"writer": "c1", "processes": 7}', "description is damaged: processes are '7'"),
        (
            b'{"writer": "c1", "processes": [true]}',
            "description is damaged: processes are '[True]'",
        ),
    ],
)
def test_a_damaged_description_of_a_segment_is_told(tmp_path: Path, meta: bytes, said: str) -> None:
    with Recorder(tmp_path, "c1", META):
        pass
    path = tmp_path / "c1.seg"
    data = bytearray(path.read_bytes())
    data[META_AT:] = meta.ljust(len(data) - META_AT, b"\0")
    path.write_bytes(data)
    with pytest.raises(UsageError) as told:
        reader.read_header(path)
    assert said in str(told.value)


def test_what_was_recorded_by_a_time_is_kept_as_it_was_then() -> None:
    calls = [
        (Op.ACQUIRE, 10, 20), (Op.ACQUIRE, 50, 60), (Op.RELEASE, 50, 51), (Op.LOST, 50, 50),
        (Op.LOST, 49, 51), (Op.CLOSED, 51, 51), (Op.WRITE, 51, 60), (Op.WAITING, 40, 60),
        (Op.TRY, 50, 50), (Op.PROBE, 1, 0),
    ]  # fmt: skip
    rows = np.zeros(len(calls), MERGED_DTYPE)
    for n, (op, begun, over) in enumerate(calls):
        rows[n]["f"], rows[n]["t_inv"], rows[n]["t_ret"] = op, begun, over
        rows[n]["status"] = Status.OK if over else Status.INVOKED
        rows[n]["row"], rows[n]["token"] = n, 7
        rows[n]["res"] = rows[n]["err"] = rows[n]["rx"] = 3
    kept = reader.cut(rows, 50)
    names = ("row", "t_ret", "status", "token", "res", "err", "rx")
    found = [tuple(int(row[name]) for name in names) for row in kept]
    ok, gone = (Status.OK, 7, 3, 3, 3), (Status.INVOKED, NO_TOKEN, 0, 0, 0)
    assert found == [
        (0, 20, *ok), (1, 0, *gone), (2, 0, Status.INVOKED, 7, 0, 0, 0), (3, 50, *ok),
        (8, 50, *ok), (9, 0, Status.INVOKED, 7, 3, 3, 3),
    ]  # fmt: skip


def test_delays_and_pressure_begin_at_their_limits() -> None:
    for late_ns, waited_us, found in (
        (starvation.LATE_NS - 1, 949_999, []),
        (starvation.LATE_NS, 950_000, ["delay", "pressure"]),
    ):
        times = iter([0, 900_000_000 - late_ns, 1_000_000_000])
        waits = iter([5, 5 + waited_us])
        noted: list[str] = []

        def note(kind: str, since: int, until: int, noted: list[str] = noted) -> None:
            noted.append(kind)

        watch = Watch(note, now=times.__next__, sleep=lambda s: None, stalled=waits.__next__)
        watch.tick()
        assert noted == found


def test_a_starved_span_may_be_of_no_length_and_never_negative() -> None:
    row = {"node": "c1", "kind": "delay", "from_ns": 5, "to_ns": 5}
    assert of_row(row).to_ns == 5
    for change in ({"to_ns": 4}, {"kind": "idle"}):
        with pytest.raises(ValueError, match="no starved span"):
            of_row({**row, **change})


def test_the_phase_is_seen_by_all_and_set_by_its_writer_only(tmp_path: Path) -> None:
    writer = Phase.create(tmp_path / "phase")
    other = Phase(tmp_path / "phase", writable=False)
    assert (writer.get(), other.get(), (tmp_path / "phase").read_bytes()) == (
        PREPARE,
        PREPARE,
        b"\0",
    )
    for phase in (GO, END):
        writer.set(phase)
        assert other.get() == phase
    with pytest.raises(TypeError):
        other.set(GO)
    for one in (writer, other):
        one.close()


def test_a_process_that_records_nothing_numbers_nothing() -> None:
    rows = Unrecorded()
    assert (
        rows.intern("a") == rows.invoke(Op.WRITE, 1, 0, token=4) == rows.complete(3, Status.OK) == 0
    )


def test_files_of_a_run_are_listed_read_and_walked_within_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "/".join("abcdefghij")
    deep.mkdir(parents=True)
    for n, folder in enumerate((tmp_path, tmp_path / "a", deep.parent, deep)):
        (folder / f"f{n}").write_bytes(b"x" * n)
    assert list(files.walked(tmp_path)) == ["a/f1", "f0"]
    assert list(files.walked(tmp_path, "a", 9)) == [
        "a/b/c/d/e/f/g/h/i/f2", "a/b/c/d/e/f/g/h/i/j/f3", "a/f1",
    ]  # fmt: skip
    assert files.is_file(tmp_path, "f0") and not files.is_file(tmp_path, "a")
    assert [files.size(tmp_path, name) for name in ("f0", "a/f1", "a", "no")] == [0, 1, -1, -1]
    assert files.read(tmp_path, "a/f1", most=1) == b"x"
    with pytest.raises(UsageError, match="f1: 1 bytes, more than the limit of 0"):
        files.read(tmp_path, "a/f1", most=0)
    monkeypatch.setattr(files, "MOST_FILES", 2)
    assert files.listed(tmp_path) == ["a", "f0"]
    (tmp_path / "more").touch()
    with pytest.raises(UsageError, match="3 files, more than the limit of 2"):
        files.listed(tmp_path)
    assert [files.number(one) for one in (LARGEST - 1, LARGEST, True)] == [
        True, False, False,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="not a JSON object"):
        files.table(b"[1]")
