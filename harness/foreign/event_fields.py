"""Validates the fields of one event of any format and makes an Event of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.foreign.operations import Event, Malformed

KINDS = ("invoke", "ok", "fail", "info")
LARGEST = (1 << 63) - 1
NEMESIS = "nemesis"
"""The process of events that are no client's."""
NOT_OWNER = frozenset({"not-held", "not-owner", "not_owner", "lease-not-found"})
"""Errors of a failed release that mean: this client does not hold."""


def event_of(fields: Mapping[str, Hashable], line: int) -> Event | None:
    """The event, or None if it is not a client's (`nemesis`); Malformed if a type is wrong.

    `fields` has names without colons. Known: process, type, f; key or lock, value, time, token,
    attempt, mode, error, lease_ns. Others are ignored.
    """
    if _bare(fields.get("process")) == NEMESIS:
        return None
    for name in ("process", "type", "f"):
        if fields.get(name) is None:
            raise Malformed(line, f"missing {name} in this event")
    process = process_of(fields["process"], line)
    kind = kind_of(fields["type"], line)
    keyed = "key" in fields or "lock" in fields
    return Event(
        line=line,
        process=process,
        kind=kind,
        f=word_of(fields["f"], "f", line),
        key=fields.get("key", fields.get("lock")),
        keyed=keyed,
        value=fields.get("value"),
        time=_whole(fields.get("time"), "time", line, 0),
        token=_or(_whole(fields.get("token"), "token", line, NO_TOKEN), NO_TOKEN),
        attempt=_attempt(fields.get("attempt"), line),
        shared=is_shared(fields.get("mode"), line),
        not_owner=means_not_owner(fields.get("error")),
        lease_ns=_or(_whole(fields.get("lease_ns"), "lease_ns", line, 0), 0),
    )


def _bare(value: Hashable) -> str:
    return value.lstrip(":") if isinstance(value, str) else ""


def means_not_owner(error: object) -> bool:
    """Whether the error of a failed release means that this client does not hold."""
    return isinstance(error, str) and error.lstrip(":") in NOT_OWNER


def kind_of(value: Hashable, line: int) -> str:
    """One of KINDS."""
    kind = word_of(value, "type", line)
    if kind not in KINDS:
        raise Malformed(line, f"invalid type {_shown(kind)}: expected one of {', '.join(KINDS)}")
    return kind


def word_of(value: Hashable, name: str, line: int) -> str:
    """A text that is not empty, without the colon of a keyword; `name` is its field."""
    word = _bare(value)
    if not word:
        raise Malformed(line, f"invalid {name} {_shown(value)}: expected a word")
    return word


def _whole(value: Hashable, name: str, line: int, least: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not least <= value <= LARGEST:
        raise Malformed(
            line,
            f"invalid {name} {_shown(value)}: expected a whole number from {least} to {LARGEST}",
        )
    return value


def process_of(value: Hashable, line: int) -> int | str:
    """A process: a whole number or a word."""
    if isinstance(value, str):
        return word_of(value, "process", line)
    number = _whole(value, "process", line, 0)
    assert number is not None
    return number


def _attempt(value: Hashable, line: int) -> int | str | None:
    return value if isinstance(value, str) else _whole(value, "attempt", line, 0)


def is_shared(value: Hashable, line: int) -> bool:
    """Whether a mode is that of a reader."""
    if value is None:
        return False
    word = word_of(value, "mode", line)
    if word not in ("shared", "exclusive"):
        raise Malformed(line, f"invalid mode {_shown(word)}: expected shared or exclusive")
    return word == "shared"


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _shown(value: Hashable) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def frozen(value: object) -> Hashable:
    """A JSON value in a hashable form. RecursionError if it is nested too deeply."""
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((name, frozen(each)) for name, each in value.items())
    assert isinstance(value, Hashable)
    return value
