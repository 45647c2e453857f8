"""What a client may ask, checked at the door: nothing malformed ever reaches the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MAX_TEXT = 256
MAX_NS = 24 * 3600 * 1_000_000_000
"""the longest lease and the longest wait: a day"""

_BIG = 1 << 63


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value < high


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT


def _hold(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _text(value[0])
        and _whole(-1, _BIG)(value[1])
    )


def _list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) <= 4096 and all(map(check, value))


_COUNT = _whole(0, _BIG)
_LEASE = _whole(1, MAX_NS)
_NUMBERED = {"session": _COUNT, "seq": _COUNT, "done": _COUNT}
_HELD = {"lock": _text, "attempt": _whole(-_BIG, _BIG), "token": _whole(-1, _BIG)}

REQUESTS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "open": {"ttl_ns": _whole(0, MAX_NS)},
    "beat": {"session": _COUNT},
    "close": {"session": _COUNT},
    "acquire": {
        **_NUMBERED,
        "lock": _text,
        "attempt": _whole(-_BIG, _BIG),
        "ttl_ns": _LEASE,
        "wait_ns": _whole(-1, MAX_NS),
        "owner": _text,
    },
    "renew": {**_NUMBERED, **_HELD, "ttl_ns": _LEASE},
    "release": {**_NUMBERED, **_HELD},
    "cancel": {**_NUMBERED, "target": _COUNT, "drop": lambda value: type(value) is bool},
    "force": {"lock": _text, "token": _whole(-1, _BIG)},
    "holder": {"lock": _text, "attempt": _whole(-_BIG, _BIG)},
    "ask": {"session": _COUNT, "holds": _list_of(_hold), "waits": _list_of(_COUNT)},
    "status": {},
}
"""op -> its fields, each with its check. Times in ns; wait_ns 0 is a try, -1 has no bound."""

UNLOGGED = ("ask", "status")
"""answered from memory: a leader's own view, which may lag behind a newer leader's"""


def command(frame: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """(the command of a request, "") or ({}, what is wrong with it)."""
    op = frame.get("op")
    wanted = REQUESTS.get(op) if isinstance(op, str) else None
    if wanted is None:
        return {}, f"no such request: {op!r:.80}"
    for name, fits in wanted.items():
        if not fits(frame.get(name)):
            return {}, f"{op}: {name} is {frame.get(name)!r:.80}"
    return {"op": op, **{name: frame[name] for name in wanted}}, ""
