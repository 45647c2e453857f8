"""Requests of the agent: validated and executed here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import nft, processes, vdso
from holdfast.nemesis.agent.client_proxy import KINDS as DISTURBANCES
from holdfast.nemesis.agent.client_proxy import Taps
from holdfast.nemesis.agent.clocks import Clocks
from holdfast.nemesis.agent.cuts import Cuts
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, Kind, Refused
from holdfast.nemesis.agent.signals import Kills, Pauses

Args = Mapping[str, Any]
MISSING = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """Form of a request: argument -> (shape, default or MISSING), and its description."""

    says: str
    takes: Mapping[str, tuple[str, Any]] = field(default_factory=dict)


SHAPES: dict[str, Callable[[object], bool]] = {
    "a name": lambda value: isinstance(value, str) and bool(value),
    "an IPv4 address": lambda value: _is_address(value),
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
    "a whole number": lambda value: _is_whole(value) and value >= 0,
}

FAULT = ("a name", MISSING)
NODES = ("names", MISSING)

REQUESTS: dict[str, Form] = {
    "hello": Form(
        says="Abilities of this host: each of cut, pause, kill, set_clock, proxy is true or the"
        " reason why not. kill_on_eof: when the driver exits, kill all adopted processes too.",
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
    "pause": Form(
        says="SIGSTOP to all processes of the nodes; responds when every thread has stopped.",
        takes={"fault": FAULT, "nodes": NODES},
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
    "observe": Form(says="The effect of the fault so far.", takes={"fault": FAULT}),
    "heal": Form(
        says="Undoes the fault and returns its effect; a second heal returns the same. `restart`"
        " names the killed nodes that the driver should start and adopt again.",
        takes={"fault": FAULT},
    ),
    "heal_all": Form(says="Undoes every active fault: fault -> evidence."),
    "recover": Form(
        says="Undoes what a previous agent left in the adopted nodes: resumes every"
        " process. Their networks are restored by adopt."
    ),
    "states": Form(says="Node -> pid -> state letter of every living process, `T` for stopped."),
}


class Agent:
    """State of one agent. `serve` executes one request and never raises."""

    def __init__(self) -> None:
        self._world = World()
        self._cuts = Cuts(self._world)
        self._taps = Taps(self._world)
        self._kinds: dict[str, Kind] = {
            "cut": self._cuts,
            "pause": Pauses(self._world),
            "kill": Kills(self._world),
            "set_clock": Clocks(self._world),
            "disturb": self._taps,
        }
        self._active: dict[str, str] = {}
        self._healed: dict[str, Evidence] = {}
        self._kill_on_eof = False

    def serve(self, request: Any) -> dict[str, Json]:
        """The reply to one decoded line, whatever it was."""
        begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        number = request.get("id") if isinstance(request, dict) else None
        try:
            do, args = checked(request)
            evidence = self._inject(do, args) if do in self._kinds else self._other(do, args)
        except Refused as error:
            return {"id": number, "ok": False, "error": str(error)}
        except Exception as error:
            text = f"{request.get('do')}: {type(error).__name__}: {error}; see the agent's host"
            return {"id": number, "ok": False, "error": text}
        done = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return {
            "id": number,
            "ok": True,
            "t_ns": done,
            "took_ns": done - begun,
            "evidence": evidence,
        }

    def leave(self) -> list[str]:
        """Heals everything, kills the adopted processes if requested; returns failures."""
        problems = []
        for fault in list(self._active):
            try:
                self._heal(fault)
            except Exception as error:
                problems.append(f"heal {fault}: {type(error).__name__}: {error}")
        if self._kill_on_eof:
            processes.end([root for node in self._world.nodes.values() for root in node.roots])
        return problems

    def _inject(self, do: str, args: Args) -> Evidence:
        fault = args["fault"]
        if fault in self._active or fault in self._healed:
            raise Refused(f"{do}: fault id {fault!r} was used before; give each fault its own id")
        for node in args.get("nodes") or ():
            self._world.node(node)
        self._active[fault] = do
        try:
            return self._kinds[do].inject(fault, args)
        except BaseException:
            with suppress(Exception):
                self._kinds[do].heal(fault)
            del self._active[fault]
            raise

    def _heal(self, fault: str) -> Evidence:
        if fault in self._active:
            self._healed[fault] = self._kinds[self._active[fault]].heal(fault)
            del self._active[fault]
        if fault not in self._healed:
            raise Refused(f"heal: no fault {fault!r} was injected; active: {list(self._active)}")
        return self._healed[fault]

    def _other(self, do: str, args: Args) -> Evidence:
        if do == "hello":
            self._kill_on_eof = args["kill_on_eof"]
            return abilities()
        if do == "adopt":
            return self._adopt(args)
        if do == "proxy":
            for link in args["links"]:
                self._world.link(**link)
            return {"links": len(args["links"])}
        if do == "tap":
            self._taps.tap(args["node"], args["links"])
            return {"links": len(args["links"])}
        if do == "observe":
            return self._observe(args["fault"])
        if do == "heal":
            return self._heal(args["fault"])
        if do == "heal_all":
            return {fault: self._heal(fault) for fault in list(self._active)}
        if do == "recover":
            found = [process for name in self._world.nodes for process in self._world.living(name)]
            stopped = [process for process in found if processes.state(process) == "T"]
            processes.resume(found)
            return {"continued": len(stopped)}
        assert do == "states"
        return {
            name: {str(p.pid): processes.state(p) for p in self._world.living(name)}
            for name in self._world.nodes
        }

    def _adopt(self, args: Args) -> Evidence:
        self._cuts.leave(args["node"])
        node = self._world.adopt(args["node"], args["pid"], args["address"], args["processes"])
        for kind in self._kinds.values():
            kind.settle(node.name)
        network = "its own" if node.network else "shared with the agent"
        return {"network": network, "processes": [p.pid for p in self._world.living(node.name)]}

    def _observe(self, fault: str) -> Evidence:
        if fault in self._active:
            return self._kinds[self._active[fault]].observe(fault)
        if fault in self._healed:
            return self._healed[fault]
        raise Refused(f"observe: no fault {fault!r} was injected; active: {list(self._active)}")


def abilities() -> Evidence:
    """Abilities of this host, each tested: true, or the reason why not."""
    signals = True if hasattr(os, "pidfd_open") else "this Python has no pidfd; use Linux"
    return {
        "cut": nft.probe() or True,
        "pause": signals,
        "kill": signals,
        "set_clock": vdso.probe() or True,
        "proxy": True,
        "pid": os.getpid(),
    }


def checked(request: Any) -> tuple[str, dict[str, Any]]:
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


def _are_records(value: Any, **fields: Callable[[object], bool]) -> bool:
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
