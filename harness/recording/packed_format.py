"""A packed segment: its rows column by column, in frames that are read each by itself.

After the header, whose schema is PACKED, stand the ends of the frames, then the frames. A frame has
FRAME_ROWS rows, the last one fewer: a `Coded` for each column, in the order of ROW_FIELDS, then
their numbers, each the distance to the column's minimum in as few bytes as the largest one needs:

    t_inv  1000 1003 1009   STEPS: 3 3 6 (the first has no meaning), minimum 3, 1 byte: 0 0 3

Numbers of 3, 5 or 6 bytes are in two parts, as machines have no such: first the low 2 or 4 bytes
of all, then the high ones. All arithmetic wraps at the size of the column.

Standard library only: a resource that is restarted reads its own rows.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

from holdfast.harness.core.operations import ROW_BYTES, ROW_FIELDS
from holdfast.harness.recording.segments import HEADER_BYTES, PACKED, ROWS_AT, SCHEMA_AT

FRAME_ROWS = 8192
RELATIVE, STEPS, TABLE = 1, 2, 4
"""How numbers stand for those of a column: as distances to another column (see BASES), or to the
previous row, or as places in a table of at most 256 numbers, which stands in front of them."""
BASES = {"t_ret": ("t_inv", 0), "attempt": ("process", 32), "op": ("process", 32)}
"""column -> the one that it is close to, and by how many bits that is shifted to the left"""
ORDER = tuple(sorted((name for name, _ in ROW_FIELDS), key=lambda name: name in BASES))
"""The order in which columns can be unpacked."""
SIZES = {name: int(kind[-1]) for name, kind in ROW_FIELDS}
MOST_ENTRIES = 256
PARTS = {0: (), 1: (1,), 2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 8: (8,)}
"""width of a number -> the bytes of its parts"""
CODED = struct.Struct("<BBHqq")
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}
_HOWS = (0, RELATIVE, STEPS, RELATIVE | STEPS, TABLE)
MOST_FRAME_BYTES = FRAME_ROWS * ROW_BYTES + len(ROW_FIELDS) * (CODED.size + 8 * MOST_ENTRIES)


class Coded(NamedTuple):
    """How a column of a frame is packed: `width` bytes a number, which begin at byte `at`.

    entries of its table; first: number of its first row, of STEPS
    """

    how: int
    width: int
    entries: int
    minimum: int
    first: int
    at: int


def is_packed(head: bytes) -> bool:
    """Whether the first bytes of a segment are those of a packed one."""
    return head[SCHEMA_AT : SCHEMA_AT + 4] == PACKED.to_bytes(4, "little")


def held(head: bytes) -> int:
    """Number of rows of a packed segment, by its header; -1 if that says none."""
    return int.from_bytes(head[ROWS_AT : ROWS_AT + 8], "little") - 1


def frames(ends: bytes, rows: int) -> tuple[int, ...]:
    """Where the frames begin, and where the last one ends. ValueError if they cannot be so."""
    count = -(-rows // FRAME_ROWS)
    if len(ends) < 4 * count:
        raise ValueError("it ends too early")
    bounds = (0, *struct.unpack_from(f"<{count}I", ends))
    lengths = (end - begin for begin, end in pairwise(bounds))
    if not all(0 <= length <= MOST_FRAME_BYTES for length in lengths):
        raise ValueError("its frames are out of order")
    return bounds


def whole_frames(at: int, count: int) -> int:
    """At most `count` rows from row `at` on that end with a frame if they go beyond one: a frame is
    unpacked as a whole, also for a few of its rows."""
    over = (at + count) % FRAME_ROWS
    return count - over if count > over else count


def coded(frame: bytes | memoryview, rows: int) -> dict[str, Coded]:
    """How the columns of a frame are packed. ValueError if the frame is not as long as they say."""
    at = CODED.size * len(ROW_FIELDS)
    if len(frame) < at:
        raise ValueError("a frame ends too early")
    found = {}
    for name, (how, width, entries, minimum, first) in zip(
        SIZES, CODED.iter_unpack(frame[:at]), strict=True
    ):
        one = found[name] = Coded(how, width, entries, minimum, first, at)
        good = one.how in _HOWS and one.width in PARTS and one.width <= SIZES[name]
        if one.how & RELATIVE and name not in BASES:
            good = False
        if one.how == TABLE:
            good = good and one.width == 1 and one.entries <= MOST_ENTRIES
            at += one.entries * SIZES[name]
        at += one.width * rows
        if not good:
            raise ValueError(f"column {name} is packed in an unknown way")
    if at != len(frame):
        raise ValueError("a frame is not as long as its columns")
    return found


def unpacked(data: bytes) -> bytes:
    """The rows of a packed segment as `operations.ROW_FORMAT` has them. ValueError if damaged.

    About 1.5 us a row; `history.packed_columns`, which needs numpy, takes a hundredth of that.
    """
    rows = max(0, held(data))
    bounds = frames(data[HEADER_BYTES:], rows)
    body = data[HEADER_BYTES + 4 * (len(bounds) - 1) :]
    if len(body) < bounds[-1]:
        raise ValueError("it ends too early")
    whole = (body[begin:end] for begin, end in pairwise(bounds))
    left = range(rows, 0, -FRAME_ROWS)
    return b"".join(_frame(one, min(n, FRAME_ROWS)) for one, n in zip(whole, left, strict=True))


def _frame(frame: bytes, rows: int) -> bytearray:
    raw = bytearray(rows * ROW_BYTES)
    how = coded(frame, rows)
    columns: dict[str, array[int]] = {}
    starts = dict(zip(SIZES, accumulate(SIZES.values(), initial=0), strict=False))
    for name in ORDER:
        size, kind = SIZES[name], _UNSIGNED[SIZES[name]]
        numbers = _numbers(frame, how[name], size, rows)
        if how[name].how & RELATIVE:
            of, shift = BASES[name]
            pairs = zip(numbers, columns[of], strict=True)
            numbers = (far + (base << shift) for far, base in pairs)
        mask = (1 << 8 * size) - 1
        columns[name] = array(kind, [number & mask for number in numbers])
        place: memoryview[int] = memoryview(raw).cast(kind)  # type: ignore[call-overload]
        place[starts[name] // size :: ROW_BYTES // size] = memoryview(columns[name])
    return raw


def _numbers(frame: bytes, one: Coded, size: int, rows: int) -> Iterator[int]:
    at = one.at
    if one.how == TABLE:
        table = array(_UNSIGNED[size], frame[at : at + one.entries * size])
        places = frame[at + one.entries * size :][:rows]
        if max(places) >= one.entries:
            raise ValueError("a number is not in its table")
        return map(table.__getitem__, places)
    far: Iterable[int] = repeat(0, rows)
    shift = 0
    for size in PARTS[one.width]:
        part = array(_UNSIGNED[size], frame[at : at + size * rows])
        far = [low | high << shift for low, high in zip(far, part, strict=True)] if shift else part
        shift += 8 * size
        at += size * rows
    numbers = map(one.minimum.__add__, far)
    if one.how & STEPS:
        next(numbers)
        return accumulate(numbers, initial=one.first)
    return numbers
