"""One line of Redis' MONITOR: when a command was executed, by whom, and its words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LINE = re.compile(
    rb'\+(?P<s>\d+)\.(?P<us>\d{6}) \[\d+ (?P<by>[^\]]*)\](?P<words>( "([^"\\]|\\.)*")*)'
)
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))")
PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One executed command. ms: the server's wall clock; lua: called by a script."""

    ms: int
    lua: bool
    command: str
    words: Sequence[str]


def parsed(line: bytes) -> Line:
    """A line without its end; ValueError if it is none of MONITOR."""
    match = LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"no line of MONITOR: {line[:60]!r}")
    words = [_text(word) for word in WORD.findall(match["words"])]
    return Line(
        ms=int(match["s"]) * 1000 + int(match["us"]) // 1000,
        lua=match["by"] == b"lua",
        command=words[0].lower() if words else "",
        words=words[1:],
    )


def _text(word: bytes) -> str:
    if b"\\" in word:
        word = ESCAPE.sub(_unescaped, word)
    return word.decode(errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes.fromhex(found[1].decode())
    return PLAIN.get(found[2], found[2])
