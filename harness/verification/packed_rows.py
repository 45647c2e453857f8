"""Unpacks a packed segment, with code of its own: rows of 96 bytes, as a writer recorded them.

The file after its header: the end of each frame, u32 each, then the frames, of 8192 rows but for
the last. A frame: how each column is packed, 20 bytes each in the order of a row, then their
numbers. Standard library only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

ROWS, ROW, MOST_ROWS = 8192, 96, 1 << 15
PLACES = (*range(0, 64, 8), *range(64, 88, 4), *range(88, 92), 92)
"""Where each column begins in a row: t_inv, t_ret, attempt, token, arg, res, aux, op; tx, rx,
process, key, err, late; f, flags, mode, status; spent."""
NEAR = {1: (0, 0), 2: (10, 32), 7: (10, 32)}
"""Column -> the column that its numbers may be distances to, and by how many bits that is shifted:
t_ret to t_inv, attempt and op to process << 32."""
BY_NEIGHBOUR, BY_STEP, BY_TABLE = 1, 2, 4


class _Column(NamedTuple):
    size: int
    way: int
    width: int
    table: int
    least: int
    first: int


def rows_of(data: bytes, count: int) -> bytearray:
    """The `count` rows of a packed segment. ValueError if it is damaged."""
    frames = (count + ROWS - 1) // ROWS
    at = begin = 4096 + 4 * frames
    rows = bytearray()
    for frame in range(frames):
        end = begin + int.from_bytes(data[4096 + 4 * frame : 4100 + 4 * frame], "little")
        if not at <= end <= len(data):
            raise ValueError("its frames do not fit in it")
        rows += _frame(data[at:end], min(ROWS, count - len(rows) // ROW))
        at = end
    return rows


def _frame(data: bytes, count: int) -> bytearray:
    if len(data) < 20 * len(PLACES):
        raise ValueError("a frame is too short")
    columns = [_column(data[20 * n : 20 * n + 20], n) for n in range(len(PLACES))]
    at = 20 * len(columns)
    found: dict[int, array[int]] = {}
    rows = bytearray(ROW * count)
    begins = list(accumulate((_bytes(one, count) for one in columns), initial=at))
    if begins[-1] != len(data):
        raise ValueError("the columns of a frame do not fill it")
    for n in sorted(range(len(columns)), key=lambda n: n in NEAR):
        one = columns[n]
        found[n] = _plain(data[begins[n] : begins[n + 1]], one, count)
        if one.way in (BY_NEIGHBOUR, BY_NEIGHBOUR | BY_STEP):
            other, shift = NEAR[n]
            pairs = zip(found[n], found[other], strict=True)
            found[n] = _wrapped((far + (near << shift) for far, near in pairs), one.size)
        code = _code(one.size)
        room: memoryview[int] = memoryview(rows).cast(code)  # type: ignore[call-overload]
        room[PLACES[n] // one.size :: ROW // one.size] = memoryview(found[n])
    return rows


def _column(said: bytes, n: int) -> _Column:
    size = 8 if n < 8 else 1 if 14 <= n < 18 else 4
    least, first = (int.from_bytes(said[at : at + 8], "little", signed=True) for at in (4, 12))
    table = int.from_bytes(said[2:4], "little")
    one = _Column(size, said[0], said[1], table, least, first)
    tabled = one.way == BY_TABLE and one.width == 1 and one.table <= 256
    stepped = one.way in (0, BY_STEP) or (one.way in (1, 3) and n in NEAR)
    if not (tabled or stepped) or one.width not in (0, 1, 2, 3, 4, 5, 6, 8):
        raise ValueError("a column is packed in an unknown way")
    if one.width > size:
        raise ValueError("a column is wider than its numbers")
    return one


def _bytes(one: _Column, count: int) -> int:
    return one.width * count + (one.size * one.table if one.way == BY_TABLE else 0)


def _plain(data: bytes, one: _Column, count: int) -> array[int]:
    """The numbers of a column, or their distances to those of its neighbour."""
    code = _code(one.size)
    if one.way == BY_TABLE:
        cut = one.size * one.table
        table = array(code, data[:cut])
        if max(data[cut:]) >= len(table):
            raise ValueError("a place is not in its table")
        return array(code, map(table.__getitem__, data[cut:]))
    if one.width == 0 and not one.way & BY_STEP:
        return _wrapped((one.least,), one.size) * count
    far = _joined(data, one.width, count)
    if one.way & BY_STEP:
        steps = map(one.least.__add__, far[1:])
        return _wrapped(accumulate(steps, initial=one.first), one.size)
    if one.size == 1:
        return array(code, data.translate(_wrapped(range(one.least, one.least + 256), 1)))
    return _wrapped(map(one.least.__add__, far), one.size)


def _joined(data: bytes, width: int, count: int) -> array[int]:
    """Numbers of some width. Those of three, five and six bytes are stored apart: two or four of
    every number, then the others."""
    first = {3: 2, 5: 4, 6: 4}.get(width, width)
    if width == 0:
        return array("B", bytes(count))
    if first == width:
        return array("Q" if width == 8 else _code(width), data)
    size, rest = 2 * first, width - first
    lanes = bytearray(size * count)
    for n in range(first):
        lanes[n::size] = data[n : first * count : first]
    for n in range(rest):
        lanes[first + n :: size] = data[first * count + n :: rest]
    return array("Q" if size == 8 else "I", bytes(lanes))


def _wrapped(numbers: Iterable[int], size: int) -> array[int]:
    """Numbers as those of a column of some size."""
    found, wrap = list(numbers), (1 << 8 * size) - 1
    try:
        return array(_code(size), found)
    except OverflowError:
        unsigned = array("Q" if size == 8 else _code(size), [number & wrap for number in found])
        return array(_code(size), unsigned.tobytes())


def _code(size: int) -> str:
    return {1: "B", 2: "H", 4: "I", 8: "q"}[size]
