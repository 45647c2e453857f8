"""Packed segments: the same rows for every reader, and damage told as damage."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import ROW_FIELDS, Status
from holdfast.harness.history import packed_columns, reader, segment_packer
from holdfast.harness.history.reader import ROW_DTYPE, block_at, read_header, read_rows, rows_at
from holdfast.harness.recording import packed_format
from holdfast.harness.recording.packed_format import FRAME_ROWS, RELATIVE, STEPS, TABLE
from holdfast.harness.recording.segments import (
    HEADER_BYTES,
    PACKED,
    ROWS_AT,
    SCHEMA_AT,
    SEGMENT_ROWS,
    write_closed,
)
from holdfast.harness.verification.packed_rows import rows_of
from holdfast.harness.verification.recorded_rows import Damaged, of_directory

Rows = npt.NDArray[np.void]
SHAPES = ("any", "constant", "extremes", "few", "sorted", "near", "stepwise")


def column(rng: np.random.Generator, shape: str, kind: str, count: int) -> npt.NDArray[np.int64]:
    """Numbers as a column may have them, and as no writer would write them."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    found = rng.integers(low, high, count, dtype=kind, endpoint=True)
    if shape == "constant":
        found[:] = found[0]
    elif shape == "extremes":
        found = rng.choice(np.array([low, high], kind), count)
    elif shape == "few":
        found = rng.choice(rng.integers(low, high, 7, dtype=kind), count)
    elif shape == "sorted":
        found.sort()
    elif shape == "near":
        span = (1 << 8 * int(rng.integers(1, found.itemsize + 1))) - 1
        begin = int(rng.integers(low, high - span, dtype=kind, endpoint=True))
        found = rng.integers(begin, begin + span, count, dtype=kind, endpoint=True)
    elif shape == "stepwise":
        found = (3 * np.arange(count) + rng.integers(0, 2, count)).astype(kind)
    return found


def rows_by(seed: int, count: int) -> Rows:
    rng = np.random.default_rng(seed)
    rows = np.empty(count, ROW_DTYPE)
    for name, kind in ROW_FIELDS:
        rows[name] = column(rng, str(rng.choice(SHAPES)), kind, count)
    for name, (of, shift) in packed_format.BASES.items():
        if rng.random() < 0.5:  # as real ones are
            rows[name] = (rows[of].astype(np.int64) << shift) + rng.integers(0, 9, count)
    return rows


def segment(rows: Rows) -> bytes:
    """A packed segment of a writer that has no description."""
    head = bytearray(HEADER_BYTES)
    head[SCHEMA_AT : SCHEMA_AT + 4] = PACKED.to_bytes(4, "little")
    struct.pack_into("<Q", head, ROWS_AT, len(rows) + 1)
    return bytes(head) + packed_columns.pack(rows)


def by_column(data: bytes, rows: int, at: int, count: int) -> Rows:
    """What `history.packed_columns` reads, as rows."""
    found = packed_columns.columns(lambda begin, most: data[begin : begin + most], rows, at, count)
    made = np.empty(len(found["t_inv"]), ROW_DTYPE)
    for name, numbers in found.items():
        assert numbers.dtype == ROW_DTYPE[name] and numbers.flags.c_contiguous
        made[name] = numbers
    return made


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([1, 2, 3, 100, 300, FRAME_ROWS - 1, FRAME_ROWS, FRAME_ROWS + 1]),
)
def test_every_reader_unpacks_the_rows_that_were_packed(seed: int, count: int) -> None:
    rows = rows_by(seed, count)
    data = segment(rows)
    assert by_column(data, count, 0, count).tobytes() == rows.tobytes()
    assert packed_format.unpacked(data) == rows.tobytes()
    assert rows_of(data, count) == rows.tobytes()


@pytest.mark.parametrize("count", [2 * FRAME_ROWS + 5, 3 * FRAME_ROWS])
def test_any_range_of_rows_can_be_read(count: int) -> None:
    rows = rows_by(count, count)
    data = segment(rows)
    edges = [0, 1, FRAME_ROWS - 1, FRAME_ROWS, FRAME_ROWS + 1, 2 * FRAME_ROWS, count - 1, count]
    for at in [*edges, count + 1]:
        for most in (0, 1, 2, FRAME_ROWS, FRAME_ROWS + 2, count):
            found = by_column(data, count, at, most)
            assert found.tobytes() == rows[at : at + most].tobytes()


def test_columns_are_packed_in_the_way_that_fits_them() -> None:
    count = 500
    rows = np.zeros(count, ROW_DTYPE)
    rows["t_inv"] = 10**15 + 70_000 * np.arange(count)
    rows["t_ret"] = rows["t_inv"] + np.arange(count) % 90
    rows["process"] = np.arange(count) % 3
    rows["attempt"] = (rows["process"].astype(np.int64) << 32) + np.arange(count) // 3 * 100
    rows["arg"] = np.where(rows["process"] == 1, 10**10, -1)
    rows["token"] = -1
    rows["late"] = np.arange(count)[::-1] ** 2
    rows["op"] = np.where(rows["process"] == 2, 2**40 - np.arange(count), np.arange(count))
    rows["tx"] = np.where(np.arange(count) % 2, 2**32 - 1, 2**32 - 9)
    data = packed_columns.pack(rows)
    how = packed_format.coded(data[4:], count)
    assert {name: (one.how, one.width) for name, one in how.items() if one.how or one.width} == {
        "t_inv": (STEPS, 0),
        "t_ret": (RELATIVE, 1),
        "attempt": (RELATIVE | STEPS, 1),
        "arg": (TABLE, 1),
        "op": (0, 5),
        "late": (STEPS, 2),
        "process": (0, 1),
        "tx": (0, 1),
    }
    assert len(data) < 4 + 19 * 20 + 16 + 12 * count + 1
    assert by_column(bytes(HEADER_BYTES) + data, count, 0, count).tobytes() == rows.tobytes()


def in_folder(folder: Path, count: int = 40) -> tuple[Path, Rows]:
    """A packed segment as a writer `w` would have filled it, in a run directory; its rows."""
    rows = np.zeros(count, ROW_DTYPE)
    rows["t_inv"] = 1000 + 7 * np.arange(count)
    rows["t_ret"] = rows["t_inv"] + 5
    rows["attempt"] = 1 << 32 | 1
    rows["f"], rows["status"], rows["process"] = 1, Status.OK, 1
    rows["token"] = np.where(np.arange(count) % 2, 10**12, -1)
    (folder / "history").mkdir(parents=True)
    write_closed(folder / "history", {"writer": "w", "processes": [1]}, [""], rows.tobytes())
    path = folder / "history" / "w.seg"
    path.write_bytes(segment_packer.packed(path.read_bytes()))
    return path, rows


def test_a_packed_segment_is_read_as_a_whole_in_blocks_and_by_the_verifier(tmp_path: Path) -> None:
    path, rows = in_folder(tmp_path)
    assert reader.load(path.parent).history.rows["t_inv"].tolist() == rows["t_inv"].tolist()
    assert rows_at(path, 3, 9).tobytes() == rows[3:12].tobytes()
    assert not isinstance(block_at(path, 3, 9), np.ndarray), "by column, as it is stored"
    assert rows_at(path, 38, 9).tobytes() == rows[38:].tobytes()
    (writer,) = of_directory(tmp_path)
    assert bytes(writer.rows) == rows.tobytes()


def test_a_segment_may_be_packed_between_its_header_and_its_rows(tmp_path: Path) -> None:
    path, rows = in_folder(tmp_path)
    whole = path.read_bytes()
    write_closed(path.parent, {"writer": "w", "processes": [1]}, [""], rows.tobytes())
    header = read_header(path)
    assert not header.packed
    path.write_bytes(whole)
    found = read_rows(header)
    assert not isinstance(found, np.ndarray)
    assert found["t_inv"].tolist() == rows["t_inv"].tolist()
    assert reader.at_most(header) == reader.at_most(read_header(path)) == len(rows)


def test_memory_is_reckoned_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rows = in_folder(tmp_path)
    assert path.stat().st_size < HEADER_BYTES + rows.nbytes // 4
    for memory, fits in ((4 * rows.nbytes, True), (4 * rows.nbytes - 4, False)):
        pages = {"SC_PHYS_PAGES": memory, "SC_PAGE_SIZE": 1}
        monkeypatch.setattr("os.sysconf", pages.__getitem__)
        assert (reader.too_large(path.parent) == "") == fits
        if fits:
            assert len(of_directory(tmp_path)) == 1
        else:
            with pytest.raises(Damaged, match="more than a quarter of the memory"):
                of_directory(tmp_path)


BODY = HEADER_BYTES + 4
"""Where the only frame begins: first how t_inv is packed, in 20 bytes, then the others."""


@pytest.mark.parametrize(
    ("at", "data", "says"),
    [
        (ROWS_AT, struct.pack("<Q", 0), "packed rows with room"),
        (ROWS_AT, struct.pack("<Q", SEGMENT_ROWS + 2), "32769 packed rows with room"),
        (ROWS_AT, struct.pack("<Q", 1 << 63), "packed rows with room"),
        (ROWS_AT, struct.pack("<Q", 40), "not as long as its columns"),
        (ROWS_AT, struct.pack("<Q", SEGMENT_ROWS + 1), "its frames are out of order|too early"),
        (HEADER_BYTES, struct.pack("<I", 1 << 31), "its frames are out of order"),
        (HEADER_BYTES, struct.pack("<I", 20), "a frame ends too early"),
        (BODY, b"\x08", "column t_inv is packed in an unknown way"),
        (BODY, b"\x01", "column t_inv is packed in an unknown way"),
        (BODY + 1, b"\x07", "column t_inv is packed in an unknown way"),
        (BODY + 20 * 14 + 1, b"\x02", "column f is packed in an unknown way"),
        (BODY + 20 * 8 + 1, b"\x05", "column tx is packed in an unknown way"),
        (BODY + 1, b"\x03", "not as long as its columns"),
        (BODY + 1, b"\x08", "not as long as its columns"),
        (BODY + 20 * 3 + 1, b"\x02", "column token is packed in an unknown way"),
        (BODY + 20 * 3 + 2, b"\xff\xff", "column token is packed in an unknown way"),
        (BODY + 20 * 3 + 2, b"\x01\x00", "not as long as its columns"),
        (BODY + 20 * 19 + 16, b"\x02", "a number is not in its table"),
    ],
)
def test_a_packed_segment_that_lies_is_refused_by_every_reader(
    tmp_path: Path, at: int, data: bytes, says: str
) -> None:
    path, _ = in_folder(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)
    with pytest.raises(UsageError, match=says) as caught:
        reader.load(path.parent)
    assert str(path) in str(caught.value) and "copy the run directory again" in str(caught.value)
    with pytest.raises(Damaged, match=r"history/w\.seg: "):
        of_directory(tmp_path)


@pytest.mark.parametrize("keep", [HEADER_BYTES, HEADER_BYTES + 3, BODY, BODY + 100, -1])
def test_a_packed_segment_that_was_cut_off_is_refused(tmp_path: Path, keep: int) -> None:
    path, _ = in_folder(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UsageError, match=r"is damaged: .*copy the run directory again"):
        reader.load(path.parent)
    with pytest.raises(Damaged):
        of_directory(tmp_path)


def test_a_row_that_no_writer_can_have_written_is_told_without_a_byte(tmp_path: Path) -> None:
    path, rows = in_folder(tmp_path)
    rows["status"][7] = 77
    path.write_bytes(path.read_bytes()[:HEADER_BYTES] + packed_columns.pack(rows))
    with pytest.raises(UsageError, match=r"w\.seg: row 7 is damaged; copy"):
        reader.load(path.parent)


def test_a_few_bytes_cannot_stand_for_many_rows(tmp_path: Path) -> None:
    path, _ = in_folder(tmp_path)
    whole = bytearray(path.read_bytes())
    struct.pack_into("<I", whole, 16, 1 << 20)  # room for as many rows as any segment may have
    struct.pack_into("<Q", whole, ROWS_AT, (1 << 20) + 1)
    path.write_bytes(whole)
    tracemalloc.start()
    with pytest.raises(UsageError, match="1048576 packed rows"):
        reader.load(path.parent)
    with pytest.raises(Damaged, match="1048576 packed rows"):
        of_directory(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def outcome(read: Callable[[bytes], bytes | bytearray], data: bytes) -> bytes | None:
    """The rows that a reader finds; None if it refuses them."""
    try:
        return bytes(read(data))
    except ValueError:
        return None


def test_whatever_is_damaged_all_readers_agree_on_it() -> None:
    rng = random.Random(4)
    refused = 0
    count = 60
    whole = segment(rows_by(5, count))

    def by_columns(data: bytes) -> bytes:
        return by_column(data, count, 0, count).tobytes()

    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            # Mostly where it says how columns are packed, and where frames end.
            at = HEADER_BYTES + rng.choice(
                (rng.randrange(400), rng.randrange(len(data) - HEADER_BYTES))
            )
            data[at] = rng.choice((rng.randrange(256), 0, 1, 2, 4, 8, data[at] ^ 1))
        data = data[: rng.choice((len(data), len(data), rng.randrange(HEADER_BYTES, len(data))))]
        readers = (by_columns, packed_format.unpacked, partial(rows_of, count=count))
        found = {outcome(read, bytes(data)) for read in readers}
        assert len(found) == 1
        refused += found == {None}
    assert 300 < refused < 1400
