"""Packs and unpacks the rows of a segment by column, as `recording.packed_format` describes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import Column
from holdfast.harness.core.operations import ROW_FIELDS
from holdfast.harness.recording import packed_format
from holdfast.harness.recording.packed_format import (
    BASES,
    CODED,
    FRAME_ROWS,
    MOST_ENTRIES,
    ORDER,
    PARTS,
    RELATIVE,
    STEPS,
    TABLE,
    Coded,
)
from holdfast.harness.recording.segments import HEADER_BYTES

KINDS = dict(ROW_FIELDS)
_MASKS = {1: (1 << 8) - 1, 4: (1 << 32) - 1}
"""of columns without a sign"""
_UNSIGNED = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}


def pack(rows: npt.NDArray[np.void]) -> bytes:
    """What follows the header of a packed segment. rows: at least one."""
    frames = [_frame(rows[at : at + FRAME_ROWS]) for at in range(0, len(rows), FRAME_ROWS)]
    ends = np.cumsum([len(frame) for frame in frames]).tolist()
    return struct.pack(f"<{len(ends)}I", *ends) + b"".join(frames)


def _frame(rows: npt.NDArray[np.void]) -> bytes:
    heads, numbers = [], []
    for name in KINDS:
        values = np.ascontiguousarray(rows[name])
        one, data = _packed(values, _base(name, rows) if name in BASES else None)
        heads.append(CODED.pack(*one[:-1]))
        numbers.append(data)
    return b"".join((*heads, *numbers))


def _base(name: str, columns: npt.NDArray[np.void] | Mapping[str, Column]) -> Column:
    """The numbers that a column is close to."""
    of, shift = BASES[name]
    base: Column = columns[of].astype(np.int64) << shift
    return base


def _packed(values: Column, base: Column | None) -> tuple[Coded, bytes]:
    """A column in the way that takes the fewest bytes; of several, the one unpacked fastest."""
    ways = {0: values}
    if base is not None:
        ways[RELATIVE] = values - base
    for how, numbers in list(ways.items()):
        ways[how | STEPS] = _steps(numbers)
    low, high = ({how: int(edge(way)) for how, way in ways.items()} for edge in (np.min, np.max))
    widths = {how: _width(high[how] - low[how]) for how in ways}
    how = min(ways, key=lambda how: (widths[how], how))
    if widths[how] > 1:
        # A lease in ns is one of few numbers that are far apart.
        entries, places = np.unique(values, return_inverse=True)
        size = entries.nbytes + len(values)
        if len(entries) <= MOST_ENTRIES and size < widths[how] * len(values):
            coded = Coded(TABLE, 1, len(entries), 0, 0, 0)
            return coded, entries.tobytes() + places.astype(np.uint8).tobytes()
    first = int((ways[how & ~STEPS])[0].astype(np.int64))
    one = Coded(how, widths[how], 0, low[how], first, 0)
    if not one.width:
        return one, b""
    # Distances wrap as the numbers do: -2^63 to 2^63 - 1 is 2^64 - 1 in eight bytes.
    far = (ways[how] - ways[how].dtype.type(low[how])).view(f"<u{values.itemsize}")
    low_size, *high_size = PARTS[one.width]
    parts = [far.astype(_UNSIGNED[low_size])]
    parts += [(far >> 8 * low_size).astype(_UNSIGNED[size]) for size in high_size]
    return one, b"".join(part.tobytes() for part in parts)


def _steps(numbers: Column) -> Column:
    """The difference of each number to its predecessor. The first, which has none, gets the
    smallest step."""
    steps = np.empty_like(numbers)
    np.subtract(numbers[1:], numbers[:-1], out=steps[1:])
    # A step down is small and negative, not almost 2^32.
    signed = steps.view(f"<i{numbers.itemsize}")
    signed[0] = signed[1:].min() if len(signed) > 1 else 0
    return signed


def _width(span: int) -> int:
    return next(width for width in PARTS if span < 1 << 8 * width)


def columns(read: Callable[[int, int], bytes], rows: int, at: int, count: int) -> dict[str, Column]:
    """Up to `count` rows of a packed segment from row `at` on, by column. ValueError if damaged.

    read  gives so many bytes of the file from a place on, or as many as there are
    rows  of the segment
    """
    count = max(0, min(count, rows - at))
    out = {name: np.empty(count, KINDS[name]) for name in KINDS}
    if not count:
        return out
    index = 4 * -(-rows // FRAME_ROWS)
    bounds = packed_format.frames(read(HEADER_BYTES, index), rows)
    first, end = at // FRAME_ROWS, -(-(at + count) // FRAME_ROWS)
    begin = bounds[first]
    data = memoryview(read(HEADER_BYTES + index + begin, bounds[end] - begin))
    if len(data) < bounds[end] - begin:
        raise ValueError("it ends too early")
    for number in range(first, end):
        frame = data[bounds[number] - begin : bounds[number + 1] - begin]
        from_row = number * FRAME_ROWS
        length = min(FRAME_ROWS, rows - from_row)
        low, high = max(at, from_row), min(at + count, from_row + length)
        mine = {name: column[low - at : high - at] for name, column in out.items()}
        if high - low == length:
            _unpack(frame, mine)
            continue
        whole = {name: np.empty(length, KINDS[name]) for name in KINDS}
        _unpack(frame, whole)
        for name, column in mine.items():
            column[:] = whole[name][low - from_row : high - from_row]
    return out


def _unpack(frame: memoryview, out: Mapping[str, Column]) -> None:
    how = packed_format.coded(frame, len(out["t_inv"]))
    for name in ORDER:
        _numbers(frame, how[name], out[name])
        if how[name].how & RELATIVE:
            np.add(out[name], _base(name, out), out=out[name])


def _numbers(frame: memoryview, one: Coded, out: Column) -> None:
    kind, at = out.dtype, one.at
    if one.how == TABLE:
        table = np.frombuffer(frame, kind, one.entries, at)
        places = np.frombuffer(frame, np.uint8, len(out), at + table.nbytes)
        if int(places.max()) >= one.entries:
            raise ValueError("a number is not in its table")
        np.take(table, places, out=out, mode="clip")
        return
    mask = _MASKS.get(out.itemsize, -1)
    minimum = one.minimum & mask
    if not one.width:
        out.fill(minimum)
    elif len(PARTS[one.width]) == 1:
        # Numbers as wide as the column are taken as its own type: with another one, numpy would
        # compute in floating point.
        width = _UNSIGNED[one.width] if one.width < out.itemsize else kind
        np.add(np.frombuffer(frame, width, len(out), at), minimum, out=out, dtype=kind)
    else:
        low, high = PARTS[one.width]
        above = np.frombuffer(frame, _UNSIGNED[high], len(out), at + low * len(out))
        np.multiply(above, 1 << 8 * low, out=out, dtype=kind)
        np.add(out, np.frombuffer(frame, _UNSIGNED[low], len(out), at), out=out, dtype=kind)
        np.add(out, minimum, out=out, dtype=kind)
    if one.how & STEPS:
        out[0] = one.first & mask
        np.cumsum(out, dtype=kind, out=out)
