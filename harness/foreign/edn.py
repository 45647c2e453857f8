"""Streaming reader of the EDN subset that histories use: one top-level form after the other.

Keywords become text with their colon, vectors and lists tuples, sets frozensets; tags and the
namespaces of maps are dropped and their values kept; ##Inf and ##NaN are texts. Metadata (`^{...}`,
`^:word`) and quotes are ignored. The outermost vector or list is transparent, so that a history
printed as one vector streams like one printed a line per operation; and so is the one under
:history in a map before all operations, as in test maps. No recursion: a file of a million brackets
is rejected like any other malformed file.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Hashable, Iterator
from typing import BinaryIO

from holdfast.harness.foreign.operations import Malformed

CHUNK = 1 << 18
LONGEST = 1 << 20
"""Longest single token, in characters: a longer one is a damaged file."""
DEEPEST = 64

_TOKEN = re.compile(
    r"""
      (?P<blank> [\s,]+ | ;[^\n]* )
    | (?P<string> "[^"\\]*(?:\\.[^"\\]*)*" )
    | (?P<open> \#\{ | [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<drop> \#_ | \#?\^ )
    | (?P<quote> ['`] )
    | (?P<tag> \#:{0,2}[A-Za-z][^\s,()\[\]{}"]* )
    | (?P<char> \\(?:[A-Za-z0-9]+|.) )
    | (?P<atom> (?: \#\#(?=[A-Za-z-]) | [^\s,()\[\]{}"\\;\#^'`] ) [^\s,()\[\]{}";]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?[0-9]+N?\Z")
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M?\Z")
_PAIRS = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS: dict[str, Hashable] = {"nil": None, "true": True, "false": False}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

Form = Hashable | dict[Hashable, Hashable]


def forms(file: BinaryIO) -> Iterator[tuple[int, Form]]:
    """(line where it begins, form) of each form; maps at the top are dicts, deeper ones frozen.

    Malformed has the line and the reason; memory holds one form and one chunk.
    """
    reader = _Reader()
    for line, kind, text in _tokens(file):
        yield from reader.take(line, kind, text)
    reader.end()


def _text(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    while True:
        chunk = file.read(CHUNK)
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            at = line + error.object[: error.start].count(b"\n")
            raise Malformed(at, f"not UTF-8: {error.reason}") from error
        line += text.count("\n")
        yield text
        if not chunk:
            return


def _tokens(file: BinaryIO) -> Iterator[tuple[int, str, str]]:
    rest, line = "", 1
    texts = _text(file)
    for text in texts:
        buffer, last = rest + text, not text
        at = 0
        while at < len(buffer):
            match = _TOKEN.match(buffer, at)
            if match is None or (match.end() == len(buffer) and not last):
                break
            kind, word = str(match.lastgroup), match.group()
            if kind != "blank":
                yield line, kind, word
            line += word.count("\n")
            at = match.end()
        rest = buffer[at:]
        if len(rest) > LONGEST:
            raise Malformed(line, f"a token of more than {LONGEST} characters")
    if rest:
        reason = "unterminated string" if rest[0] == '"' else f"invalid EDN {rest[:20]!r}"
        raise Malformed(line, reason)


class _Frame:
    """An open bracket. whole: a map of which only :history is read."""

    __slots__ = ("bracket", "items", "line", "pending", "whole")

    def __init__(self, bracket: str, line: int) -> None:
        self.bracket = bracket
        self.line = line
        self.items: list[Hashable] = []
        self.pending = ""
        self.whole = False


class _Reader:
    """A stack of open brackets; `take` yields each form that is complete at the top."""

    def __init__(self) -> None:
        self._top = _Frame("", 1)
        self._stack: list[_Frame] = [self._top]
        self._drops: list[int] = [0]
        self._base = 1
        self._begun = False
        self._given = False

    def take(self, line: int, kind: str, text: str) -> Iterator[tuple[int, Form]]:
        frame = self._stack[-1]
        if kind == "open":
            holds_events = text in "([" and not any(self._drops) and self._may_hold_events(frame)
            self._begun = self._begun or not self._drops[0]
            self._open(line, text)
            if holds_events:
                self._base = len(self._stack)
        elif kind == "close":
            yield from self._close(line, text)
        elif kind in ("tag", "drop", "quote"):
            frame.pending = text
            self._drops[-1] += kind == "drop"
        else:
            self._begun = self._begun or not self._drops[0]
            yield from self._put(line, _scalar(line, kind, text), line)

    def _may_hold_events(self, frame: _Frame) -> bool:
        """Whether a vector that begins here encloses all events."""
        if len(self._stack) == 1:
            return not self._begun
        named = len(frame.items) % 2 and frame.items[-1] == ":history"
        return len(self._stack) == 2 and frame.bracket == "{" and bool(named) and not self._given

    def _open(self, line: int, text: str) -> None:
        if len(self._stack) > DEEPEST:
            raise Malformed(line, f"nested more than {DEEPEST} levels deep")
        self._stack.append(_Frame(text, line))
        self._drops.append(0)

    def _leave(self, frame: _Frame, line: int) -> None:
        if frame.pending:
            raise Malformed(line, f"nothing follows {frame.pending}")

    def _close(self, line: int, text: str) -> Iterator[tuple[int, Form]]:
        frame = self._stack[-1]
        if len(self._stack) == 1:
            raise Malformed(line, f"unmatched {text}")
        if _PAIRS[frame.bracket] != text:
            raise Malformed(line, f"{text} does not match the {frame.bracket} of line {frame.line}")
        self._leave(frame, line)
        held_events = len(self._stack) == self._base
        self._stack.pop()
        self._drops.pop()
        if held_events:
            self._base, self._given = 1, True
            if len(self._stack) > 1:
                self._stack[-1].whole = True
                self._stack[-1].items.append(())
            self._stack[-1].pending = ""
            return
        if frame.whole:
            self._stack[-1].pending = ""
            return
        if frame.bracket == "{":
            pairs = _map(frame, line)
            outermost = len(self._stack) == self._base
            value: Form = pairs if outermost else frozenset(pairs.items())
        elif frame.bracket == "#{":
            value = frozenset(frame.items)
        else:
            value = tuple(frame.items)
        yield from self._put(line, value, frame.line)

    def _put(self, line: int, value: Form, begun: int) -> Iterator[tuple[int, Form]]:
        frame = self._stack[-1]
        frame.pending = ""
        if self._drops[-1]:
            self._drops[-1] -= 1
        elif len(self._stack) == self._base:
            self._given = True
            yield begun, value
        else:
            assert not isinstance(value, dict)
            frame.items.append(value)

    def end(self) -> None:
        frame = self._stack[-1]
        if len(self._stack) == self._base > 1:
            raise Malformed(frame.line, "the file ends inside its outermost bracket: truncated?")
        if len(self._stack) > 1:
            raise Malformed(frame.line, f"the file ends inside the {frame.bracket} of this line")
        self._leave(frame, 1)


def _map(frame: _Frame, line: int) -> dict[Hashable, Hashable]:
    if len(frame.items) % 2:
        raise Malformed(line, f"the map of line {frame.line} has a key without a value")
    keys = frame.items[::2]
    pairs = dict(zip(keys, frame.items[1::2], strict=True))
    if len(pairs) < len(keys):
        raise Malformed(line, f"the map of line {frame.line} has a key twice")
    return pairs


def _escaped(found: re.Match[str]) -> str:
    word = found[1]
    return chr(int(word[1:], 16)) if len(word) > 1 else _ESCAPES.get(word, word)


def _scalar(line: int, kind: str, text: str) -> Hashable:
    if kind == "string":
        return _ESCAPE.sub(_escaped, text[1:-1])
    if kind == "char":
        return text[1:]
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        try:
            return int(text.rstrip("N"))
        except ValueError as error:
            raise Malformed(line, f"a number of {len(text)} digits") from error
    if _DECIMAL.match(text):
        number = float(text.rstrip("M"))
        if not math.isfinite(number):
            raise Malformed(line, f"the number {text[:40]} is too large")
        return number
    return text
