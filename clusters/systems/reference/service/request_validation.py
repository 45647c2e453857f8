"""Validates requests of clients: nothing malformed ever reaches the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.clusters.systems.reference.locks import hierarchy
from holdfast.clusters.systems.reference.locks.admission import PRIORITIES
from holdfast.clusters.systems.reference.locks.state import EXCLUSIVE, PERMITS

MAX_TEXT = 512
MAX_NS = 24 * 3600 * 1_000_000_000
"""the longest lease and the longest wait: a day"""
MAX_PERMITS = 1 << 16

_BIG = 1 << 63


def whole(low: int, high: int) -> Callable[[object], bool]:
    """Checks for an integer, low <= n < high."""
    return lambda value: type(value) is int and low <= value < high


def text(value: object) -> bool:
    """Whether it is a name: a text that is neither empty nor too long."""
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT


def _hold(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return text(value[0]) and all(whole(-_BIG, _BIG)(number) for number in value[1:])


def list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    """Checks for a list, not too long, of valid items."""
    return lambda value: isinstance(value, list) and len(value) <= 4096 and all(map(check, value))


def _terms(value: object) -> bool:
    """Whether these are terms of an acquire, or None for the defaults."""
    if value is None:
        return True
    if not isinstance(value, dict) or not all(
        name in _TERMS and _TERMS[name](entry) for name, entry in value.items()
    ):
        return False
    return bool(value.get("permits", 1) <= value.get("limit", 1))


_COUNT = whole(0, _BIG)
_LEASE = whole(1, MAX_NS)
_NUMBERED = {"session": _COUNT, "seq": _COUNT, "done": _COUNT}
_HELD = {"lock": text, "attempt": whole(-_BIG, _BIG), "token": whole(-1, _BIG)}
_TERMS: dict[str, Callable[[object], bool]] = {
    "mode": whole(EXCLUSIVE, PERMITS + 1),
    "permits": whole(1, MAX_PERMITS),
    "limit": whole(1, MAX_PERMITS),
    "metadata": text,
    "reenter": lambda value: type(value) is bool,
    "newest": whole(-1, _BIG),
    "priority": whole(0, PRIORITIES),
}

REQUESTS: dict[str, dict[str, Callable[[object], bool]]] = {
    "open": {"ttl_ns": whole(0, MAX_NS)},
    "beat": {"session": _COUNT},
    "close": {"session": _COUNT},
    "acquire": {
        **_NUMBERED,
        "lock": text,
        "attempt": whole(-_BIG, _BIG),
        "ttl_ns": _LEASE,
        "wait_ns": whole(-1, MAX_NS),
        "owner": text,
        "terms": _terms,
    },
    "renew": {**_NUMBERED, **_HELD, "ttl_ns": _LEASE},
    "release": {**_NUMBERED, **_HELD},
    "cancel": {**_NUMBERED, "target": _COUNT, "drop": lambda value: type(value) is bool},
    "force": {"lock": text, "token": whole(-1, _BIG)},
    "holder": {"lock": text, "attempt": whole(-_BIG, _BIG)},
    "check": {"sequencer": text},
    "ask": {"session": _COUNT, "holds": list_of(_hold), "waits": list_of(_COUNT)},
    "status": {},
}
"""op -> its fields, each with its check. Times in ns; wait_ns 0 is a try, -1 has no bound; terms as
`operations.Terms`, only those that differ from the defaults, optional."""

UNLOGGED = ("ask", "status")
"""answered from memory: a leader's own view, which may be older than a newer leader's"""


def command(
    frame: Mapping[str, Any],
    requests: Mapping[str, Mapping[str, Callable[[object], bool]]] = REQUESTS,
) -> tuple[dict[str, Any], str]:
    """(the command of a request, "") or ({}, what is wrong with it)."""
    op = frame.get("op")
    wanted = requests.get(op) if isinstance(op, str) else None
    if wanted is None:
        return {}, f"no such request: {op!r:.80}"
    asked: dict[str, Any] = {"op": op}
    for name, fits in wanted.items():
        value = frame.get(name)
        if not fits(value):
            return {}, f"{op}: {name} is {value!r:.80}"
        if value is not None or name in frame:
            asked[name] = value
    terms = asked.get("terms") or {}
    if hierarchy.is_path(asked.get("lock", "")) and terms.get("mode", EXCLUSIVE) != EXCLUSIVE:
        return {}, f"{op}: {asked['lock']!r:.80} is a path, and a path is held alone"
    return asked, ""
