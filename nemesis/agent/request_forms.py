"""The requests of the agent: names, arguments and descriptions, and how they are validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from holdfast.nemesis.agent.request_errors import Refused

MISSING = object()
Args = Mapping[str, Any]
"""The arguments of a request, complete and of the shapes of its form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """Form of a request: argument -> (shape, default or MISSING), and its description."""

    says: str
    takes: Mapping[str, tuple[str, object]] = field(default_factory=dict)


SHAPES: dict[str, Callable[[object], bool]] = {
    "a name": lambda value: isinstance(value, str) and bool(value),
    "an IPv4 address": lambda value: _is_address(value),
    "IPv4 addresses": lambda value: isinstance(value, list) and all(map(_is_address, value)),
    "text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a pid": lambda value: _is_whole(value) and value > 0,
    "pids": lambda value: isinstance(value, list) and all(map(SHAPES["a pid"], value)),
    "names": lambda value: bool(value) and _all_strings(value),
    "whole nanoseconds": lambda value: _is_whole(value),
    "whole parts per million": lambda value: _is_whole(value),
    '[{"node", "from": [IPv4 addresses]}]': lambda value: _are_records(
        value, node=SHAPES["a name"], **{"from": _are_addresses}
    ),
    '[{"src", "dst", "listen", "to", "ports"}]': lambda value: _are_records(
        value,
        src=SHAPES["a name"],
        dst=SHAPES["a name"],
        listen=_is_address,
        to=_is_address,
        ports=lambda ports: isinstance(ports, list) and all(map(_is_port, ports)),
    ),
    '[{"listen", "to", "ports"}]': lambda value: _are_records(
        value,
        listen=_is_address,
        to=_is_address,
        ports=lambda ports: isinstance(ports, list) and all(map(_is_port, ports)),
    ),
    "a number from 1 to 1000": lambda value: _is_whole(value) and 0 < value <= 1000,
    "a whole number": lambda value: _is_whole(value) and value >= 0,
}

FAULT = ("a name", MISSING)
NODES = ("names", MISSING)

REQUESTS: dict[str, Form] = {
    "hello": Form(
        says="Abilities of this host: each of cut, link, pause, kill, set_clock, syscall, disk,"
        " proxy is true or the reason why not. kill_on_eof: when the driver exits, kill all adopted"
        " processes too.",
        takes={"kill_on_eof": ("true or false", False)},
    ),
    "load": Form(
        says="Loads the halves of kinds of fault, `halves`: package.module:NAME. Their requests are"
        " known from then on. A half lies in the fault agent, or in a package that the run brings"
        " along.",
        takes={"halves": ("names", MISSING)},
    ),
    "adopt": Form(
        says="Adopts a node, again after each restart: the network is that of `pid`, signals"
        " and clocks go to `processes` and their descendants. Active cuts and clock faults are"
        " applied at once; an active pause is not.",
        takes={
            "node": ("a name", MISSING),
            "pid": ("a pid", MISSING),
            "address": ("an IPv4 address", MISSING),
            "processes": ("pids", ()),
        },
    ),
    "proxy": Form(
        says="Listens on listen:port and forwards to to:port, for nodes without their own"
        " networks; cuts between src and dst act on these links. Adopt both before cutting.",
        takes={"links": ('[{"src", "dst", "listen", "to", "ports"}]', MISSING)},
    ),
    "tap": Form(
        says="In the network of a node, listens on listen:port and forwards to to:port, so that"
        " this traffic can be disturbed. Adopt the node before.",
        takes={"node": ("a name", MISSING), "links": ('[{"listen", "to", "ports"}]', MISSING)},
    ),
    "observe": Form(says="The effect of the fault so far.", takes={"fault": FAULT}),
    "heal": Form(
        says="Undoes the fault and returns its effect; a second heal returns the same. `restart`"
        " names the killed nodes that the driver should start and adopt again.",
        takes={"fault": FAULT},
    ),
    "heal_all": Form(says="Undoes every active fault: fault -> evidence."),
    "recover": Form(
        says="Undoes what a previous agent left in the adopted nodes: resumes every"
        " process, removes neighbour entries, and whatever the agent's parts have to undo. Rules"
        " of their networks are removed by adopt."
    ),
    "states": Form(says="Node -> pid -> state letter of every living process, `T` for stopped."),
}
"""Requests of every agent. Those of its parts and of kinds of fault come with these."""


def checked(request: object, forms: Mapping[str, Form] = REQUESTS) -> tuple[str, dict[str, Any]]:
    """The request's name and its complete arguments. Errors: Refused, with all mistakes at once."""
    if not isinstance(request, dict):
        raise Refused('a request is a JSON object on one line: {"id": 1, "do": "hello"}')
    do = request.get("do")
    if not isinstance(do, str) or do not in forms:
        raise Refused(f"unknown request {do!r}: expected one of {', '.join(forms)}")
    takes = forms[do].takes
    problems = [
        f"unknown argument {name!r} (known: {', '.join(takes) or 'none'})"
        for name in request
        if name not in ("id", "do") and name not in takes
    ]
    args = {}
    for name, (shape, default) in takes.items():
        args[name] = request.get(name, default)
        if args[name] is MISSING:
            problems.append(f"missing argument {name!r} ({shape})")
        elif name in request and not SHAPES[shape](args[name]):
            problems.append(f"invalid argument {name!r}: expected {shape}")
    if problems:
        raise Refused(f"{do}: {'; '.join(problems)}")
    return do, args


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_port(value: object) -> bool:
    return _is_whole(value) and 0 < value < 65536


def _is_address(value: object) -> bool:
    parts = value.split(".") if isinstance(value, str) else []
    return len(parts) == 4 and all(
        part.isascii() and part.isdigit() and len(part) < 4 and int(part) < 256 for part in parts
    )


def _are_addresses(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_address, value))


def _all_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _are_records(value: object, **fields: Callable[[object], bool]) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(record, dict)
            and set(record) == set(fields)
            and all(check(record[name]) for name, check in fields.items())
            for record in value
        )
    )
