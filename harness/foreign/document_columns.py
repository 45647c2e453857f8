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
from holdfast.harness.foreign.op_columns import OpColumns, Rows

Places = npt.NDArray[np.intp]
"""Numbers of marks in a block, ascending."""

_ARRAY = re.compile(rb"[ \t\r\n]*\[")
_FIELD = re.compile(rb'"history"[ \t\r\n]*:[ \t\r\n]*\[')
_BLANK = b" \t\r\n"
MARKS = b'",{[}]\n'
"""The bytes that count, if they are not inside a text."""
_TO_MARK = bytes(MARKS.find(byte) + 1 for byte in range(256))
QUOTE, COMMA, OPEN, OPEN_ARRAY, CLOSE, CLOSE_ARRAY, END_OF_LINE = range(1, 8)
_DEPTH = np.zeros(len(MARKS) + 1, np.int32)
"""By mark: what it adds to the depth of brackets."""
_DEPTH[[OPEN, OPEN_ARRAY]] = 1
_DEPTH[[CLOSE, CLOSE_ARRAY]] = -1


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
        events = len(block.line)
        if not events:
            raise Odd("an array without an event, or with nothing after a comma")
        fields = decoded((block.text, None), events)
        if fields is None:
            raise Odd("an event with an error, or of an unusual form")
        numbers = np.arange(number + 1, number + events + 1, dtype=np.int32)
        add_events(columns, fields, block.line + line, numbers)
        number += events
        line += block.ends_of_lines
        at += block.length
        if block.last:
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


class ArrayText(NamedTuple):
    """Events of the array: up to a comma after one of them, or to the array's end.

    text            a line for each
    line            how many line breaks of the block are before each
    ends_of_lines   line breaks in it
    length          bytes of the document
    last            whether the array ends here
    """

    text: bytes
    line: Rows
    ends_of_lines: int
    length: int
    last: bool


def _block(raw: bytes, at: int) -> ArrayText:
    """The next events from `at`, about event_lines.BLOCK bytes, more if one event is longer."""
    length = event_lines.BLOCK
    while True:
        text = raw[at : at + length]
        marks = np.frombuffer(text.translate(_TO_MARK), np.uint8)
        places = np.flatnonzero(marks)
        mark = marks.take(places)
        # A quote that opens counts as inside its text, one that closes as outside.
        outside = (np.cumsum(mark == QUOTE, dtype=np.int32) & 1) == 0
        depth = np.cumsum(_DEPTH.take(mark) * outside, dtype=np.int32)
        closed = np.flatnonzero(depth < 0)
        separates = np.flatnonzero((mark == COMMA) & outside & (depth == 0))
        if len(closed):
            end, count, last = int(places[closed[0]]), int(closed[0]), True
            _check_around(raw, at + end)
            separates = separates[: np.searchsorted(separates, count)]
            break
        if len(separates):
            end, count, last = int(places[separates[-1]]) + 1, int(separates[-1]) + 1, False
            break
        if at + length >= len(raw):
            raise Odd("the array does not end")
        length *= 2
    places, mark, outside, depth = places[:count], mark[:count], outside[:count], depth[:count]
    starts = np.flatnonzero((mark == OPEN) & outside & (depth == 1))
    stops = np.flatnonzero((mark == CLOSE) & outside & (depth == 0))
    _check_order(starts, stops, separates, last)
    ends_of_lines = mark == END_OF_LINE
    lines = np.frombuffer(text[:end], np.uint8).copy()
    lines[places[ends_of_lines]] = ord(" ")
    lines[places[separates]] = ord("\n")
    if not is_text(text[:end]):
        raise Odd("no UTF-8")
    return ArrayText(
        text=lines.tobytes() + b"\n" * last,
        line=np.cumsum(ends_of_lines, dtype=np.int32).take(starts),
        ends_of_lines=int(np.count_nonzero(ends_of_lines)),
        length=end,
        last=last,
    )


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


def _check_order(starts: Places, stops: Places, separates: Places, last: bool) -> None:
    """Odd unless objects and commas alternate; what else is between them, the decoder refuses.

    A line break in a text would count as one: that is an error, which the decoder refuses too.
    """
    if not len(starts) == len(stops) == len(separates) + last:
        raise Odd("a value that is no object, or a comma too many")
    after = starts[1 : len(separates) + 1]
    if (stops[: len(separates)] > separates).any() or (separates[: len(after)] > after).any():
        raise Odd("a comma at another place")
