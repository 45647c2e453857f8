"""Requests of the agent are executed here; `request_forms` describes them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import nft, processes, vdso
from holdfast.nemesis.agent.client_proxy import Taps
from holdfast.nemesis.agent.cuts import Cuts
from holdfast.nemesis.agent.halves import Half, loaded
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.parts import parts
from holdfast.nemesis.agent.request_errors import Evidence, Kind, Refused
from holdfast.nemesis.agent.request_forms import REQUESTS, Args, checked


class FaultAgent:
    """State of one agent. `serve` executes one request and never raises."""

    def __init__(self) -> None:
        self._world = World()
        self._cuts = self._world.part(Cuts)
        self._taps = self._world.part(Taps)
        self._parts = parts(self._world)
        self._asked = {do: part for part in self._parts for do in part.forms}
        self._own = REQUESTS | {do: part.forms[do] for do, part in self._asked.items()}
        self._forms = dict(self._own)
        self._halves: dict[str, Half] = {}
        self._kinds: dict[str, Kind] = {}
        self._active: dict[str, str] = {}
        self._healed: dict[str, Evidence] = {}
        self._kill_on_eof = False

    def serve(self, request: Any) -> dict[str, Json]:
        """The reply to one decoded line, whatever it was."""
        begun = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        number = request.get("id") if isinstance(request, dict) else None
        try:
            do, args = checked(request, self._forms)
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
            return {**abilities(), **_joined(part.abilities() for part in self._parts)}
        if do == "load":
            return self._load(args["halves"])
        if do == "adopt":
            return self._adopt(args)
        if do == "proxy":
            for link in args["links"]:
                self._world.link(**link)
            return {"links": len(args["links"])}
        if do == "tap":
            self._taps.tap(args["node"], args["links"])
            for link in args["links"]:
                self._world.fronts.setdefault((args["node"], link["to"]), set()).add(link["listen"])
            return {"links": len(args["links"])}
        if do in self._asked:
            return self._asked[do].answer(do, args)
        if do == "observe":
            return self._observe(args["fault"])
        if do == "heal":
            return self._heal(args["fault"])
        if do == "heal_all":
            return {fault: self._heal(fault) for fault in list(self._active)}
        if do == "recover":
            return self._recover()
        assert do == "states"
        return {
            name: {str(p.pid): processes.state(p) for p in self._world.living(name)}
            for name in self._world.nodes
        }

    def _load(self, halves: Iterable[str]) -> Evidence:
        """Makes the kinds of fault of these halves known. All or none. Errors: Refused."""
        asked = dict(self._halves)
        for half in map(loaded, halves):
            if half.request in self._own or asked.setdefault(half.request, half) is not half:
                raise Refused(f"load: two halves for the request {half.request}")
        for request, half in asked.items():
            if request not in self._halves:
                self._kinds[request] = half.make(self._world)
                self._forms[request] = half.form
        self._halves = asked
        return {"requests": [*asked]}

    def _adopt(self, args: Args) -> Evidence:
        self._cuts.leave(args["node"])
        for part in self._parts:
            part.leave(args["node"])
        node = self._world.adopt(args["node"], args["pid"], args["address"], args["processes"])
        for kind in self._kinds.values():
            kind.settle(node.name)
        shared = f"unknown: {node.unreadable}" if node.unreadable else "shared with the agent"
        network = "its own" if node.network else shared
        return {"network": network, "processes": [p.pid for p in self._world.living(node.name)]}

    def _recover(self) -> Evidence:
        living = [process for name in self._world.nodes for process in self._world.living(name)]
        stopped = [process for process in living if processes.state(process) == "T"]
        processes.resume(living)
        return {"continued": len(stopped), **_joined(part.recover() for part in self._parts)}

    def _observe(self, fault: str) -> Evidence:
        if fault in self._active:
            return self._kinds[self._active[fault]].observe(fault)
        if fault in self._healed:
            return self._healed[fault]
        raise Refused(f"observe: no fault {fault!r} was injected; active: {list(self._active)}")


def _joined(many: Iterable[Evidence]) -> Evidence:
    return {name: value for one in many for name, value in one.items()}


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
