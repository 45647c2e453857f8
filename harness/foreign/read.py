"""Reads a history file of any supported format.

Formats: `edn` (Jepsen, Knossos, porcupine's kv files), `jsonl` (one event per line, the same
fields), `porcupine` (porcupine's copies of Jepsen's etcd logs), each read as a stream; `json` (an
array of events, or events over several lines); `csv` and `parquet` (the tables that holdfast
exports).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.foreign.document_columns import json_document
from holdfast.harness.foreign.edn import forms
from holdfast.harness.foreign.event_columns import Odd
from holdfast.harness.foreign.event_fields import event_of, frozen
from holdfast.harness.foreign.event_lines import edn_lines, json_lines, log_lines
from holdfast.harness.foreign.exported_table import (
    csv_columns,
    csv_events,
    parquet_columns,
    parquet_events,
)
from holdfast.harness.foreign.json_document import values
from holdfast.harness.foreign.op_columns import OpColumns
from holdfast.harness.foreign.operations import Event, ForeignHistory, Malformed, Pairing

LONGEST_LINE = 16 << 20
HEAD = 4096
BOM = b"\xef\xbb\xbf"
_JSON = re.compile(
    rb"""\[\s*\{\s*" | \{\s*"[^\n]*"history"\s*:\s*\[ | \{\s*"history"\s*:
    | \{[ \t\r]*\n\s*" | \{"[^\n]*[\[{,:][ \t\r]*\n""",
    re.VERBOSE,
)
"""First bytes of JSON that is not one object per line."""


def read_history(path: Path, form: str = "auto") -> ForeignHistory:
    """The operations of a file. `form` is a key of FORMATS, or "auto" to detect it.

    UsageError with the file, the line and the reason if it is not such a history. A million
    operations take 2 to 6 seconds of CPU (`benchmarks/foreign.py`), ten times as much if the file
    has to be read event by event.
    """
    try:
        with path.open("rb") as file:
            return read_from(file, str(path), form)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def read_from(file: BinaryIO, name: str, form: str = "auto") -> ForeignHistory:
    """The same from an open, seekable file; `name` is its name in messages."""
    try:
        if form == "auto":
            form = _look(file.read(HEAD))
            file.seek(0)
        if form in COLUMNS:
            try:
                return ForeignHistory(name=name, ops=COLUMNS[form](file))
            except (Odd, Malformed, RecursionError):
                file.seek(0)
        return one_by_one(file, name, form)
    except Malformed as error:
        raise UsageError(f"{name}, {error.where}: {error.reason}") from error


def one_by_one(file: BinaryIO, name: str, form: str) -> ForeignHistory:
    """The same, event by event. Malformed."""
    pairing = Pairing(by_event=form == "json")
    for event in FORMATS[form](file):
        pairing.add(event)
    return pairing.close(name)


def _look(head: bytes) -> str:
    """The format that a file's first bytes indicate."""
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"INFO"):
        return "porcupine"
    if text.startswith(b"PAR1"):
        return "parquet"
    if b"t_inv" in text.partition(b"\n")[0].split(b","):
        return "csv"
    if _JSON.match(text):
        return "json"
    if text[:1] == b"{" and text[1:].lstrip()[:1] == b'"':
        return "jsonl"
    if text[:1] in (b"{", b"[", b"(", b";", b"#", b"^", b"'"):
        return "edn"
    raise Malformed(
        1,
        f"unknown format of history (begins with {text[:20].decode(errors='replace')!r});"
        f" {'give it with --format' if text else 'is the file empty?'}",
    )


def _clients(every: Iterable[tuple[int, Event | None]]) -> Iterator[Event]:
    return (event for _, event in every if event is not None)


def _edn(file: BinaryIO) -> Iterator[tuple[int, Event | None]]:
    """The line of each form and its event, None if it is not a client's."""
    last = 0
    for number, (line, form) in enumerate(forms(file), 1):
        shared, last = line == last, line
        if not isinstance(form, dict):
            raise Malformed(line, "expected a map per event", number if shared else 0)
        fields = {key[1:]: form[key] for key in form if isinstance(key, str) and key[:1] == ":"}
        event = _event(fields, line, number if shared else 0)
        yield line, None if event is None else replace(event, number=number)


def _jsonl(file: BinaryIO) -> Iterator[tuple[int, Event | None]]:
    """As `_edn`."""
    for line, fields in _objects(file):
        yield line, _of_object(fields, line, 0, "expected a JSON object per line")


def _json(file: BinaryIO) -> Iterator[Event]:
    for number, (line, fields) in enumerate(values(file), 1):
        event = _of_object(fields, line, number, "expected an object per event")
        if event is not None:
            yield replace(event, number=number)


def _objects(file: BinaryIO) -> Iterator[tuple[int, Json]]:
    decode = msgspec.json.Decoder().decode
    for line, raw in _lines(file):
        try:
            decoded = decode(raw)
        except msgspec.DecodeError as error:
            raise Malformed(line, f"not a JSON object: {error}") from error
        except (RecursionError, ValueError) as error:
            raise Malformed(line, f"unreadable JSON: {error}") from error
        yield line, decoded


def _of_object(fields: object, line: int, number: int, wanted: str) -> Event | None:
    """The event of a JSON object; `wanted` is the message for other values."""
    if not isinstance(fields, dict):
        raise Malformed(line, wanted, number)
    try:
        return _event({name: frozen(value) for name, value in fields.items()}, line, number)
    except RecursionError as error:
        raise Malformed(line, "a value is nested too deeply", number) from error


def _event(fields: Mapping[str, Hashable], line: int, number: int) -> Event | None:
    """The event of these fields; an error in one names the event's number unless it is 0."""
    try:
        return event_of(fields, line)
    except Malformed as error:
        raise Malformed(error.line, error.reason, number) from error


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers."""
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(raw) > LONGEST_LINE:
            raise Malformed(number, f"a line of more than {LONGEST_LINE} bytes")
        if number == 1:
            raw = raw.removeprefix(BOM)
        if raw.strip():
            yield number, raw


def _porcupine(file: BinaryIO) -> Iterator[Event]:
    """Lines `INFO  jepsen.util - 3 :invoke :cas [1 2]`, in spaces or tabs."""
    for line, raw in _lines(file):
        words = raw.split(None, 3)
        if words[0] != b"INFO":
            raise Malformed(
                line, f"unexpected {words[0][:20].decode(errors='replace')!r}: expected INFO"
            )
        if len(words) < 4 or words[2] != b"-":
            raise Malformed(line, "expected `INFO jepsen.util - process type f value`: truncated?")
        try:
            values = [frozen(form) for _, form in forms(BytesIO(words[3]))]
        except Malformed as error:
            raise Malformed(line, error.reason) from error
        if len(values) != 4:
            raise Malformed(line, f"{len(values)} fields: expected process, type, f, value")
        event = event_of(dict(zip(("process", "type", "f", "value"), values, strict=True)), line)
        if event is not None:
            yield _compared(event)


def _compared(event: Event) -> Event:
    """A cas that failed by its comparison has a result: the value differed."""
    if event.kind == "fail" and event.f == "cas" and isinstance(event.value, tuple):
        return replace(event, kind="ok", value=False)
    return event


FORMATS: dict[str, Callable[[BinaryIO], Iterator[Event]]] = {
    "jsonl": lambda file: _clients(_jsonl(file)),
    "json": _json,
    "edn": lambda file: _clients(_edn(file)),
    "porcupine": _porcupine,
    "csv": csv_events,
    "parquet": parquet_events,
}
COLUMNS: dict[str, Callable[[BinaryIO], OpColumns]] = {
    "jsonl": lambda file: json_lines(file, _jsonl),
    "json": json_document,
    "edn": lambda file: edn_lines(file, _edn),
    "porcupine": log_lines,
    "csv": csv_columns,
    "parquet": parquet_columns,
}
"""Readers that make columns of well-formed files; what they leave is read event by event."""
