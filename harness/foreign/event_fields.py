"""Validates the fields of one event of any format and makes an Event of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.foreign.operations import Event, Malformed

KINDS = ("invoke", "ok", "fail", "info")
LARGEST = (1 << 63) - 1
NOT_OWNER = frozenset({"not-held", "not-owner", "not_owner", "lease-not-found"})
"""Errors of a failed release that mean: this client does not hold."""


def event_of(fields: Mapping[str, Hashable], line: int) -> Event | None:
    """The event, or None if it is not a client's (`nemesis`); Malformed if a type is wrong.

    `fields` has names without colons. Known: process, type, f; key or lock, value, time, token,
    attempt, mode, error, lease_ns. Others are ignored.
    """
    if _bare(fields.get("process")) == "nemesis":
        return None
    for name in ("process", "type", "f"):
        if fields.get(name) is None:
            raise Malformed(line, f"missing {name} in this event")
    process = _process(fields["process"], line)
    kind = _word(fields["type"], "type", line)
    if kind not in KINDS:
        raise Malformed(line, f"invalid type {_shown(kind)}: expected one of {', '.join(KINDS)}")
    keyed = "key" in fields or "lock" in fields
    return Event(
        line=line,
        process=process,
        kind=kind,
        f=_word(fields["f"], "f", line),
        key=fields.get("key", fields.get("lock")),
        keyed=keyed,
        value=fields.get("value"),
        time=_whole(fields.get("time"), "time", line, 0),
        token=_or(_whole(fields.get("token"), "token", line, NO_TOKEN), NO_TOKEN),
        attempt=_attempt(fields.get("attempt"), line),
        shared=_shared(fields.get("mode"), line),
        not_owner=_bare(fields.get("error")) in NOT_OWNER,
        lease_ns=_or(_whole(fields.get("lease_ns"), "lease_ns", line, 0), 0),
    )


def _bare(value: Hashable) -> str:
    return value.lstrip(":") if isinstance(value, str) else ""


def _word(value: Hashable, name: str, line: int) -> str:
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


def _process(value: Hashable, line: int) -> int | str:
    if isinstance(value, str):
        return _word(value, "process", line)
    number = _whole(value, "process", line, 0)
    assert number is not None
    return number


def _attempt(value: Hashable, line: int) -> int | str | None:
    return value if isinstance(value, str) else _whole(value, "attempt", line, 0)


def _shared(value: Hashable, line: int) -> bool:
    if value is None:
        return False
    word = _word(value, "mode", line)
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
