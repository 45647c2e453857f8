"""The requests of the agent: names, arguments and descriptions, and how they are validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from holdfast.nemesis.agent.client_proxy import KINDS as DISTURBANCES
from holdfast.nemesis.agent.links.link_faults import ACTS as LINK_ACTS
from holdfast.nemesis.agent.links.rules import ALL_PPM, ANSWERS
from holdfast.nemesis.agent.request_errors import Refused
from holdfast.nemesis.agent.tracing.call_tracer import ACTS
from holdfast.nemesis.agent.tracing.failpoints import HOLDS, THENS
from holdfast.nemesis.agent.tracing.watched_calls import CALLS

MISSING = object()


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
    "cut": Form(
        says="Drops packets from these addresses to the node. `nodes` is for the record.",
        takes={
            "fault": FAULT,
            "links": ('[{"node", "from": [IPv4 addresses]}]', MISSING),
            "nodes": ("names", None),
        },
    ),
    "link": Form(
        says=f"Disturbs packets from these addresses to the node. act: {', '.join(LINK_ACTS)};"
        " share_ppm: of which packets (loss, duplicate, corrupt, reorder); by_ns, jitter_ns: how"
        " long they are late (delay, reorder); byte: which byte of the data (corrupt); bytes: the"
        " largest packet that passes (mtu); rate: bits in a second (bandwidth); answer:"
        f" {' or '.join(ANSWERS)} (refuse). For act=neighbour it is packets from the node to these"
        " addresses.",
        takes={
            "fault": FAULT,
            "links": ('[{"node", "from": [IPv4 addresses]}]', MISSING),
            "nodes": ("names", None),
            "act": ("a name", MISSING),
            "share_ppm": ("a whole number", ALL_PPM),
            "by_ns": ("a whole number", 0),
            "jitter_ns": ("a whole number", 0),
            "byte": ("a number from 1 to 1000", 1),
            "bytes": ("a whole number", 576),
            "rate": ("a whole number", 0),
            "answer": ("a name", "reset"),
        },
    ),
    "pause": Form(
        says="SIGSTOP to all processes of the nodes; responds when every thread has stopped.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "suspend": Form(
        says="SIGSTOP to all processes of the nodes, as pause; the heal puts their monotonic clocks"
        " back by the time for which they were stopped, for good, before it resumes them.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "cpu-quota": Form(
        says="SIGSTOP and SIGCONT to all processes of the nodes in turn, so that they run for the"
        " share `share_ppm` of each period.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "share_ppm": ("a whole number", 100_000),
            "period_ns": ("a whole number", 100_000_000),
        },
    ),
    "open-files": Form(
        says="Lowers the limit of open files of all processes of the nodes, so that each may open"
        " `spare` files more.",
        takes={"fault": FAULT, "nodes": NODES, "spare": ("a whole number", 0)},
    ),
    "memory-limit": Form(
        says="Moves all processes of the nodes into a control group, in which they get `spare`"
        " bytes more than what is charged there. The kernel reclaims, and kills if it has to.",
        takes={"fault": FAULT, "nodes": NODES, "spare": ("a whole number", 0)},
    ),
    "kill": Form(
        says="SIGKILL to all processes of the nodes; responds when they have exited.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "set_clock": Form(
        says="Moves the wall clock of all processes of the nodes, never the monotonic one: by a"
        " step, a rate, or a step that toggles every strobe_ns.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "step_ns": ("whole nanoseconds", 0),
            "rate_ppm": ("whole parts per million", 0),
            "strobe_ns": ("whole nanoseconds", 0),
        },
    ),
    "tap": Form(
        says="In the network of a node, listens on listen:port and forwards to to:port, so that"
        " this traffic can be disturbed. Adopt the node before.",
        takes={"node": ("a name", MISSING), "links": ('[{"listen", "to", "ports"}]', MISSING)},
    ),
    "disturb": Form(
        says=f"Disturbs traffic through taps of the nodes by `what`: {', '.join(DISTURBANCES)}.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "what": ("a name", MISSING),
            "count": ("a whole number", 1),
            "by_ns": ("whole nanoseconds", 0),
            "after": ("a whole number", 0),
        },
    ),
    "syscall": Form(
        says="Follows the nodes to a system call and acts on it there. call:"
        f" {', '.join(CALLS)} (on TCP sockets and on regular files); peers: only to these"
        f" addresses; file: only files of this name, * for any part. act: {', '.join(ACTS)};"
        " first: the first matching call that is acted on; count: how many, 0 for all;"
        " by_ns: how long a call is delayed; error: with which a call fails.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "call": ("a name", MISSING),
            "act": ("a name", MISSING),
            "peers": ("IPv4 addresses", ()),
            "file": ("text", ""),
            "first": ("a whole number", 1),
            "count": ("a whole number", 1),
            "by_ns": ("whole nanoseconds", 0),
            "error": ("a name", "EIO"),
        },
    ),
    "failpoint": Form(
        says="Holds the first thread that calls a function of the nodes' programs, alone or with"
        f" all others. hold: {', '.join(HOLDS)}.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "function": ("a name", MISSING),
            "hold": ("a name", HOLDS[0]),
            "then": ("a name", THENS[0]),
        },
    ),
    "freeze": Form(
        says="Each node stops inside its next send, which leaves when the fault heals.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "freeze-write": Form(
        says="Each node stops inside its next write to a file or sync of one.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "torn-write": Form(
        says="The next write to a file of more than 512 bytes is cut at a multiple of that, and"
        " then the node is killed.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "disk": Form(
        says="Gives a node a disk of its own: ext4 in memory, mounted at `path`, an absolute path."
        " The agent must be in a mount namespace of the run; what is mounted ends with it.",
        takes={
            "node": ("a name", MISSING),
            "path": ("a name", MISSING),
            "bytes": ("a whole number", MISSING),
        },
    ),
    "sync_disks": Form(says="Makes everything durable that is on the disks of the nodes by now."),
    "power": Form(
        says="Power loss of the nodes: what was not synced to their disks is lost, then SIGKILL to"
        " all their processes. Each node needs a disk.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "sync-lie": Form(
        says="Reports every fsync and fdatasync of the nodes as done without making it; the heal"
        " is a power loss. Each node needs a disk.",
        takes={"fault": FAULT, "nodes": NODES, "count": ("a whole number", 0)},
    ),
    "disk-hang": Form(
        says="Freezes the disks of the nodes: every write and sync waits until the heal.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "disk-full": Form(
        says="Takes all free space of the disks of the nodes.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    "disk-slow": Form(
        says="Delays every fsync and fdatasync of the nodes by `by_ns`.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "by_ns": ("whole nanoseconds", MISSING),
            "count": ("a whole number", 0),
        },
    ),
    "disk-error": Form(
        says="Calls of the nodes on regular files fail: `call` and `error` as for syscall.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "call": ("a name", "sync"),
            "error": ("a name", "EIO"),
            "count": ("a whole number", 0),
        },
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
        " process, thaws the disks of the run and removes neighbour entries. Rules of their"
        " networks are removed by adopt."
    ),
    "states": Form(says="Node -> pid -> state letter of every living process, `T` for stopped."),
}


def checked(request: object) -> tuple[str, dict[str, Any]]:
    """The request's name and its complete arguments. Errors: Refused, with all mistakes at once."""
    if not isinstance(request, dict):
        raise Refused('a request is a JSON object on one line: {"id": 1, "do": "hello"}')
    do = request.get("do")
    if not isinstance(do, str) or do not in REQUESTS:
        raise Refused(f"unknown request {do!r}: expected one of {', '.join(REQUESTS)}")
    takes = REQUESTS[do].takes
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
