"""Reader of JSON that is not one object per line: an array of events, or events over many lines.

An object with an array in its field `history`, such as a test map, is read as that array. The text
of the file is held in memory, and one value after the other is read from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from holdfast.harness.core.json_value import Json
from holdfast.harness.foreign.operations import Malformed

_BLANK = re.compile(r"[ \t\r\n]*")


def values(file: BinaryIO) -> Iterator[tuple[int, object]]:
    """(line where it begins, value) of each event; Malformed has the line and the reason."""
    raw = file.read()
    try:
        reader = _Reader(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        at = raw.count(b"\n", 0, error.start) + 1
        raise Malformed(at, f"not UTF-8: {error.reason}") from error
    while char := reader.next():
        if char == "[":
            yield from reader.array()
        elif char == "{":
            yield from reader.object()
        else:
            raise Malformed(reader.line(), "expected an object or an array of objects")


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = 0
        self._line = 1
        self._decode = json.JSONDecoder(parse_constant=_refuse).raw_decode

    def line(self) -> int:
        """The current line."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def next(self) -> str:
        """The next character that is not blank, not consumed; "" at the end."""
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        return self._text[self._at : self._at + 1]

    def array(self) -> Iterator[tuple[int, Json]]:
        """The values of an array."""
        begun = self._take("[", 0)
        if self.next() == "]":
            self._take("]", begun)
            return
        mark = ","
        while mark == ",":
            self.next()
            yield self.line(), self._value(begun)
            mark = self.next()
            self._take(",]", begun)

    def object(self) -> Iterator[tuple[int, Json]]:
        """An object, or the values of its field `history`."""
        begun = self._take("{", 0)
        fields = dict[str, Json]()
        whole, mark = False, ","
        if self.next() == "}":
            mark = self._text[self._at]
            self._take("}", begun)
        while mark == ",":
            self.next()
            name = self._value(begun)
            self._take(":", begun)
            if name == "history" and self.next() == "[":
                whole = True
                yield from self.array()
            elif isinstance(name, str):
                fields[name] = self._value(begun)
            else:
                raise Malformed(self.line(), "expected a string as field name")
            mark = self.next()
            self._take(",}", begun)
        if not whole:
            yield begun, fields

    def _take(self, marks: str, begun: int) -> int:
        """Consumes one of these marks; the line it is on. begun: line of its bracket."""
        char = self.next()
        if not char:
            raise Malformed(begun, "the file ends inside the bracket of this line: truncated?")
        if char not in marks:
            raise Malformed(self.line(), f"unexpected {char!r}: expected {' or '.join(marks)}")
        line = self.line()
        self._at += 1
        return line

    def _value(self, begun: int) -> Json:
        if not self.next():
            raise Malformed(begun, "the file ends inside the bracket of this line: truncated?")
        try:
            value, self._at = self._decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise Malformed(
                error.lineno, f"not JSON: {error.msg} at column {error.colno}"
            ) from error
        except (RecursionError, ValueError) as error:
            raise Malformed(self.line(), f"unreadable JSON: {error}") from error
        decoded: Json = value
        return decoded


def _refuse(word: str) -> object:
    raise ValueError(f"invalid JSON number {word}")
