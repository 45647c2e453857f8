"""Reads histories of one event per line to columns, a block of lines at a time: JSON, EDN, logs.

An EDN map of plain values, or a line of porcupine's logs, is rewritten as a JSON object, so that
all are decoded alike:

    {:process 0, :type :ok, :f :cas, :value [1 nil]}      INFO jepsen.util - 0  :ok  :cas  [1 2]
    {"process": 0, "type": ":ok", "f": ":cas", "value": [1,null]}

Lines that are not as simple (an escape, a number of unusual form, an error in it) are decoded by
`one_by_one`, the reader of single events. If that refuses a line, or an event of it may begin or
end on another line, Odd is raised and the file is read again from its start, event by event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain, compress
from operator import attrgetter
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np

from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.foreign.event_columns import NO_TIME, EventColumns, Odd, RawFields
from holdfast.harness.foreign.event_fields import LARGEST, frozen
from holdfast.harness.foreign.op_columns import OpColumns, Rows
from holdfast.harness.foreign.operations import Event

UNSET = msgspec.UNSET
BLOCK = 1 << 18
"""Bytes that are read at once, up to the end of their last line."""
Column = list[Any]
"""One field of consecutive events, UNSET where an event has none."""
BOM = b"\xef\xbb\xbf"

Whole = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Token = Annotated[int, msgspec.Meta(ge=NO_TOKEN, le=LARGEST)]
OneByOne = Callable[[BinaryIO], Iterator[tuple[int, Event | None]]]
"""Reads lines to (line, event) each; the event is None if it is not a client's."""


class Fields(msgspec.Struct):
    """The known fields of an event; null is the same as none for all but a key."""

    process: Whole | str
    type: str
    f: str
    key: int | str | msgspec.UnsetType | None = UNSET
    lock: int | str | msgspec.UnsetType | None = UNSET
    value: object = UNSET
    time: Whole | msgspec.UnsetType | None = UNSET
    token: Token | msgspec.UnsetType | None = UNSET
    attempt: Whole | str | msgspec.UnsetType | None = UNSET
    mode: str | msgspec.UnsetType | None = UNSET
    error: object = UNSET
    lease_ns: Whole | msgspec.UnsetType | None = UNSET
    index: object = UNSET


NAMES = Fields.__struct_fields__
_all = attrgetter(*NAMES)


class Strict(Fields, forbid_unknown_fields=True):
    """Every field is known, so that every value of the line is decoded."""


_strict = msgspec.json.Decoder(Strict).decode_lines
_tolerant = msgspec.json.Decoder(Fields).decode_lines
_TOO_LARGE = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
"""What a number that no float can hold must contain: the decoder skips those of unknown fields."""


def json_lines(file: BinaryIO, one_by_one: OneByOne) -> OpColumns:
    """The operations of a file with a JSON object per line. Odd or Malformed."""
    return _read(_blocks(file), one_by_one, lambda raw: (raw, None))


def edn_lines(file: BinaryIO, one_by_one: OneByOne) -> OpColumns:
    """The operations of a file with an EDN map per line, also in one vector. Odd or Malformed."""
    return _read(_unwrapped(_blocks(file)), one_by_one, _Rewriting())


def log_lines(file: BinaryIO) -> OpColumns:
    """The operations of one of porcupine's logs. Odd or Malformed."""
    return _read(map(_log_as_json, _blocks(file)), _nothing_odd, lambda raw: (raw, None))


def _nothing_odd(raw: BinaryIO) -> Iterator[tuple[int, Event | None]]:
    raise Odd("a line of a log that is not as others")


_NUMBER = rb"-?(?:0|[1-9][0-9]{0,17})"
_LOG_LINE = re.compile(
    rb"^INFO[ \t]+[^\s\"]+[ \t]+-[ \t]+(0|[1-9][0-9]{0,17})[ \t]+(:[a-z]+)[ \t]+(:[a-z]+)[ \t]+"
    rb"(nil|%b|\[%b %b\]|:[a-z-]+)$" % (_NUMBER, _NUMBER, _NUMBER),
    re.MULTILINE,
)
_LOGGED_WORD = re.compile(rb'"value": (:[a-z-]+)}$', re.MULTILINE)
_LOGGED_PAIR = re.compile(rb"\[(%b) (%b)\]}$" % (_NUMBER, _NUMBER), re.MULTILINE)
_FAILED = b'"type": ":fail", "f": ":cas", "value": '
_NOT_EQUAL = re.compile(rb'"type": ":fail", "f": ":cas", "value": \[[^\]]*\]}$', re.MULTILINE)


def _log_as_json(raw: bytes) -> bytes:
    """The lines of a log as JSON objects. A cas that failed by its comparison has a result."""
    text, lines = _LOG_LINE.subn(rb'{"process": \1, "type": "\2", "f": "\3", "value": \4}', raw)
    if lines < raw.count(b"\n"):
        raise Odd("a line of a log that is not as others")
    if _FAILED in text:
        text = _NOT_EQUAL.sub(rb'"type": ":ok", "f": ":cas", "value": false}', text)
    text = text.replace(b'"value": nil}', b'"value": null}')
    if b'"value": :' in text:
        text = _LOGGED_WORD.sub(rb'"value": "\1"}', text)
    return _LOGGED_PAIR.sub(rb"[\1,\2]}", text) if b"]}" in text else text


_Rewritten = tuple[bytes, int | None] | None
"""JSON lines with the number of keys in them, None if it does not matter; None if too odd."""


def _read(
    blocks: Iterable[bytes], one_by_one: OneByOne, rewritten: Callable[[bytes], _Rewritten]
) -> OpColumns:
    columns = EventColumns()
    before = 0
    edn = isinstance(rewritten, _Rewriting)
    for raw in blocks:
        lines = raw.count(b"\n")
        fields = None
        shaped = _map_per_line(raw, lines)
        if shaped and b"\\" not in raw and is_text(raw):
            fields = decoded(rewritten(raw), lines)
        if fields is not None:
            add_events(columns, fields, np.arange(before + 1, before + lines + 1, dtype=np.int32))
        elif edn and not shaped:
            raise Odd("an event that may begin or end on another line")
        else:
            _add_each(columns, list(one_by_one(BytesIO(raw))), before, lines if edn else None)
        before += lines
    return columns.operations()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, each with its end; at most 2 * BLOCK bytes. Odd if a line is long."""
    first = True
    while raw := file.read(BLOCK):
        if first:
            raw, first = raw.removeprefix(BOM), False
        if not raw.endswith(b"\n"):
            tail = file.readline(BLOCK)
            if len(tail) == BLOCK:
                raise Odd("a long line")
            raw += tail
        if raw.startswith(BOM):
            raise Odd("a byte order mark within")
        yield raw if raw.endswith(b"\n") else raw + b"\n"


PAIRS = {b"[": b"]", b"(": b")"}


def _unwrapped(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same lines without the vector or list around all, whose maps are indented by a space.

    [{:process 0 ...}       {:process 0 ...}
     {:process 1 ...}]      {:process 1 ...}
    """
    raw = next(blocks, b"")
    close = PAIRS.get(raw[:1])
    if close is None:
        yield from chain([raw] if raw else [], blocks)
        return
    raw = raw[1:]
    for following in blocks:
        yield _outdented(raw)
        raw = following
    raw = raw.rstrip()
    if not raw.endswith(close):
        raise Odd("a vector that does not end with the file")
    yield _outdented(raw[:-1] + b"\n")


def _outdented(raw: bytes) -> bytes:
    return raw.removeprefix(b" ").replace(b"\n {", b"\n{")


def _map_per_line(raw: bytes, lines: int) -> bool:
    """Whether each line begins with { and ends with }.

    A value that is no string cannot end and begin at such a line break: between } and { is a comma.
    """
    return raw.startswith(b"{") and raw.count(b"\n{") == lines - 1 and raw.count(b"}\n") == lines


def is_text(raw: bytes) -> bool:
    try:
        return raw.isascii() or bool(raw.decode())
    except UnicodeDecodeError:
        return False


def decoded(made: _Rewritten, lines: int) -> list[Column] | None:
    """The columns of JSON lines, by NAMES; None if they are to be decoded one by one."""
    if made is None:
        return None
    text, keys = made
    try:
        events: Sequence[Fields] = _strict(text)
    except (msgspec.DecodeError, RecursionError):
        if _TOO_LARGE.search(text):
            return None
        try:
            events = _tolerant(text)
        except (msgspec.DecodeError, RecursionError):
            return None
    if len(events) != lines:
        return None
    columns = list(map(list, zip(*map(_all, events), strict=True)))
    return None if keys is not None and not _each_key_once(text, columns, keys) else columns


def add_events(
    columns: EventColumns, fields: list[Column], line: Rows, number: Rows | None = None
) -> None:
    """Take the events of these columns, by NAMES. line, number: as in RawFields."""
    theirs = columns.clients(fields[0])
    if theirs is not None:
        fields = [list(compress(column, theirs)) for column in fields]
        line = line[theirs]
        number = None if number is None else number[theirs]
    if not len(line):
        return
    process, kind, f, key, lock, value, time, token, attempt, mode, error, lease_ns, _ = fields
    if lock.count(UNSET) < len(lock):
        key = [one if one is not UNSET else other for one, other in zip(key, lock, strict=True)]
    columns.add(
        RawFields(
            line=line,
            number=number,
            process=process,
            kind=kind,
            f=f,
            key=key,
            value=frozen_values(value),
            time=_or(time, NO_TIME),
            token=_or(token, NO_TOKEN),
            attempt=_or(attempt, None),
            mode=_or(mode, None),
            error=_or(error, None),
            lease_ns=_or(lease_ns, 0),
        )
    )


def _or(column: Column, none: int | None) -> Column:
    """The column with `none` where an event has no such field, or null."""
    missing = column.count(UNSET)
    if missing == len(column):
        return [none] * len(column)
    if not missing and column.count(None) == 0:
        return column
    return [none if one is UNSET or one is None else one for one in column]


def frozen_values(column: Column) -> list[Hashable] | None:
    """The values of events in hashable form, None if there are none."""
    column = _or(column, None)
    kinds = set(map(type, column))
    if kinds == {type(None)}:
        return None
    return list(map(frozen, column)) if kinds & {list, dict} else column


def _add_each(
    columns: EventColumns, each: list[tuple[int, Event | None]], before: int, lines: int | None
) -> None:
    """Take events that were decoded one by one.

    lines   if the end of a line need not be that of an event: so many events, one on each line
    """
    if lines is not None and [line for line, _ in each] != list(range(1, lines + 1)):
        raise Odd("lines without an event of their own")
    events = [event for _, event in each if event is not None]
    if not events:
        return
    values = [event.value for event in events]
    columns.add(
        RawFields(
            line=np.array([before + event.line for event in events], np.int32),
            process=[event.process for event in events],
            kind=[event.kind for event in events],
            f=[event.f for event in events],
            key=[event.key if event.keyed else UNSET for event in events],
            value=None if values.count(None) == len(values) else values,
            time=[NO_TIME if event.time is None else event.time for event in events],
            token=[event.token for event in events],
            attempt=[event.attempt for event in events],
            mode=["shared" if event.shared else None for event in events],
            error=["not-owner" if event.not_owner else None for event in events],
            lease_ns=[event.lease_ns for event in events],
        )
    )


_PAIR = re.compile(rb"\[(-?[0-9]+|nil) (-?[0-9]+|nil)\]")
_OUTER_PAIR = re.compile(rb"\[(-?[0-9]+|nil) (\[[^\[\]]*\])\]")
_NIL = re.compile(rb"(?<=[ \[,])nil(?=[,}\]])")
_NO_KEYWORD = re.compile(rb":(?![A-Za-z])")
_WORD = re.compile(rb":([A-Za-z][A-Za-z0-9_.*+!?<>=/'-]*)(?=([ ,}]))")
HOLE = b"\0"
MOST_WORDS = 64
"""Different keywords of a file that are rewritten; each is looked for in every block."""


class _Rewriting:
    """Makes JSON objects of EDN maps, one per line: only of what is certain to mean the same."""

    def __init__(self) -> None:
        self._words: list[tuple[bytes, bytes]] = []

    def __call__(self, raw: bytes) -> _Rewritten:
        pieces = raw.split(b'"')
        outside = HOLE.join(pieces[::2])  # texts stay as they are: a hole for each
        strings = pieces[1::2]
        if HOLE in raw or len(pieces) % 2 == 0 or outside.count(b"{") != raw.count(b"\n"):
            return None
        if b"null" in outside or _NO_KEYWORD.search(outside):
            return None
        if b"[" in outside:
            outside = _OUTER_PAIR.sub(rb"[\1,\2]", _PAIR.sub(rb"[\1,\2]", outside))
        quoted = self._quoted(outside)
        if quoted is None:
            return None
        keys = quoted.count(b'": ')
        if b"nil" in quoted:
            quoted = _NIL.sub(b"null", quoted)
        if not strings:
            return quoted, keys
        whole = [b""] * (2 * len(strings) + 1)
        whole[::2] = quoted.split(HOLE)
        whole[1::2] = [b'"%b"' % text for text in strings]
        return b"".join(whole), keys

    def _quoted(self, outside: bytes) -> bytes | None:
        """With each keyword as a text: a key without its colon, a value with it."""
        text = self._replaced(outside)
        if not _quoted_all(text):
            for word, end in set(_WORD.findall(outside)):
                quoted = b'"%b":%b' if end == b" " else b'":%b"%b'
                pair = b":%b%b" % (word, end), quoted % (word, end)
                if pair not in self._words:
                    self._words.append(pair)
            if len(self._words) > MOST_WORDS:
                return None
            text = self._replaced(outside)
        return text if _quoted_all(text) else None

    def _replaced(self, text: bytes) -> bytes:
        for word, quoted in self._words:
            text = text.replace(word, quoted)
        return text


def _quoted_all(text: bytes) -> bool:
    return text.count(b":") == text.count(b'":')


def _each_key_once(text: bytes, columns: Sequence[Column], keys: int) -> bool:
    """Whether no map has a key twice, which JSON allows; keys: number of keys in all maps."""
    given = [len(column) - column.count(UNSET) for column in columns]
    if sum(given) == keys:
        return True
    names = [name.encode() for name in NAMES]
    if any(text.count(b'"%b": ' % name) != n for name, n in zip(names, given, strict=True)):
        return False
    others = set(re.findall(rb'"([A-Za-z][A-Za-z0-9_-]*)": ', text)) - set(names)
    return all(
        len(re.findall(rb'^.*?"%b": ' % name, text, re.MULTILINE)) == text.count(b'"%b": ' % name)
        for name in others
    )
