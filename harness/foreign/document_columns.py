"""Reads a JSON document of events, an array or an object with one in `history`, to columns.

The array is made lines of one event each, a block at a time, and read as those are:

    [{"process": 0,         {"process": 0,  "type": "ok"}
      "type": "ok"},        {"process": 1}
     {"process": 1}]

Any other document, or one with an escape in a text, raises Odd and is read event by event.
"""

from __future__ import annotations

import json
import re
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.harness.foreign import event_lines
from holdfast.harness.foreign.event_columns import EventColumns, Odd
from holdfast.harness.foreign.event_lines import BOM, add_events, decoded, is_text
from holdfast.harness.foreign.op_columns import OpColumns

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
"""Offsets in a block, ascending."""

_ARRAY = re.compile(rb"[ \t\r\n]*\[")
_FIELD = re.compile(rb'"history"[ \t\r\n]*:[ \t\r\n]*\[')
_BLANK = b" \t\r\n"
QUOTE, COMMA, OPEN, END_OF_LINE, SPACE = b'",{\n '
_DEPTH = np.zeros(256, np.int8)
"""By byte: what it adds to the depth of brackets."""
_DEPTH[list(b"{[")] = 1
_DEPTH[list(b"}]")] = -1
_IS_BLANK = np.zeros(256, bool)
_IS_BLANK[list(_BLANK)] = True


def json_document(file: BinaryIO) -> OpColumns:
    """The operations of a document, which is held in memory. Odd or Malformed."""
    raw = file.read().removeprefix(BOM)
    if b"\\" in raw:
        raise Odd("an escape, which may be that of a quote")
    columns = EventColumns()
    at = _array(raw)
    line, number = raw.count(b"\n", 0, at) + 1, 0
    while True:
        block = _block(raw, at)
        if not len(block.starts):
            raise Odd("an array without an event, or with nothing after a comma")
        rows = block.starts
        number += len(rows)
        lines = np.cumsum(block.text == END_OF_LINE).take(rows) + line
        fields = decoded((_one_each(block), None), len(rows))
        if fields is None:
            raise Odd("an event with an error, or of an unusual form")
        numbers = np.arange(number - len(rows) + 1, number + 1, dtype=np.int32)
        add_events(columns, fields, lines.astype(np.int32), numbers)
        line += int(np.count_nonzero(block.text == END_OF_LINE))
        at += len(block.text)
        if block.ends:
            return columns.operations()


def _array(raw: bytes) -> int:
    """Where the array's first value may begin. Odd if what is around it is no such document."""
    array = _ARRAY.match(raw)
    if array is not None:
        return array.end()
    field = _FIELD.search(raw)
    if field is None or raw.count(b'"history"') != 1:
        raise Odd("no array of events, or more than one")
    return field.end()


class Block(NamedTuple):
    """A part of the array, up to the comma after its last event or to the end of the file.

    starts, commas   of the events and of what separates them, which may follow the last one
    ends             whether it holds the end of the array, which `text` does not
    """

    text: Bytes
    starts: Places
    commas: Places
    ends: bool


def _block(raw: bytes, at: int) -> Block:
    """The next events from `at`, about event_lines.BLOCK bytes, more if one event is longer."""
    length = event_lines.BLOCK
    while True:
        text = np.frombuffer(raw, np.uint8, min(length, len(raw) - at), at)
        # A quote that opens counts as inside its text, one that closes as outside.
        outside = (np.cumsum(text == QUOTE, dtype=np.int32) & 1) == 0
        step = _DEPTH.take(text) * outside
        depth = np.cumsum(step, dtype=np.int32)
        closed = np.flatnonzero(depth < 0)
        if len(closed):
            _check_around(raw, at + int(closed[0]))
            end, ends = int(closed[0]), True
            break
        commas = np.flatnonzero((text == COMMA) & outside & (depth == 0))
        if len(commas):
            end, ends = int(commas[-1]) + 1, False
            break
        if at + length >= len(raw):
            raise Odd("the array does not end")
        length *= 2
    text, outside, step, depth = text[:end], outside[:end], step[:end], depth[:end]
    between = np.flatnonzero((depth == 0) & outside & (step == 0) & ~_IS_BLANK.take(text))
    starts = np.flatnonzero((depth == 1) & (step == 1))
    _check_between(text, starts, between, np.flatnonzero((depth == 0) & (step == -1)), ends)
    return Block(text, starts, between, ends)


def _check_around(raw: bytes, end: int) -> None:
    """Odd unless the only array of events ends at `end`, and what is around it is sound."""
    if raw[end : end + 1] != b"]":
        raise Odd("another bracket")
    if _ARRAY.match(raw):
        if raw[end + 1 :].strip(_BLANK):
            raise Odd("something after the array")
        return
    field = _FIELD.search(raw)
    assert field is not None  # by _array
    try:
        around = json.loads((raw[: field.end()] + raw[end:]).decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Odd("an error around the array") from error
    if not isinstance(around, dict) or around.get("history") != []:
        raise Odd("an array elsewhere than in the outermost object")


def _refuse(word: str) -> None:
    raise ValueError(word)


def _check_between(text: Bytes, starts: Places, commas: Places, stops: Places, ends: bool) -> None:
    """Odd unless all values are objects with one comma between each two.

    stops: of the values' ends. With `ends` false the last comma is the end of the block.
    """
    if len(starts) != len(stops) or len(starts) != len(commas) + ends:
        raise Odd("a value that is no object, or a comma too many")
    if (text.take(commas) != COMMA).any() or (text.take(starts) != OPEN).any():
        raise Odd("a value that is no object")
    inner = commas if ends else commas[:-1]
    if (inner < stops[: len(inner)]).any() or (inner > starts[1 : len(inner) + 1]).any():
        raise Odd("a comma at another place")


def _one_each(block: Block) -> bytes:
    """The events as lines. No text can hold a line break: that needs an escape."""
    lines = block.text.copy()
    lines[lines == END_OF_LINE] = SPACE
    lines[block.commas] = END_OF_LINE
    text = lines.tobytes()
    if not is_text(text):
        raise Odd("no UTF-8")
    return text if text.endswith(b"\n") else text + b"\n"
