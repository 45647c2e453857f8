"""Faults at a function of a running program: the first thread that calls it is held there.

A breakpoint (int3) is written over the first byte of the function, through /proc/PID/mem, and taken
away as soon as a thread has met it. The program runs at full speed until then.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, NODES, Form
from holdfast.nemesis.agent.tracing import ptrace
from holdfast.nemesis.agent.tracing.functions import NotAProgram, in_process
from holdfast.nemesis.agent.tracing.system_calls import unsupported
from holdfast.nemesis.agent.tracing.tracer import Caught, Tracer, trace_all

BREAKPOINT = b"\xcc"
HOLDS = ("thread", "all")
THENS = ("resume", "kill")


@dataclass(slots=True, kw_only=True)
class FunctionTracer(Tracer):
    """Holds the first thread that calls a function, or with it all threads of the node."""

    function: str = ""
    hold: str = "thread"
    held: int = 0
    """the thread that is held, 0 for none yet"""
    meets_calls: ClassVar[bool] = False
    _whole_name: str = ""
    _address: int = 0
    _bytes: dict[int, bytes] = field(default_factory=dict)
    """process -> the byte that the breakpoint has replaced"""

    def _prepare(self) -> None:
        for process in processes.tree(self.roots):
            try:
                name, address = in_process(process.pid, self.function)
                before = _swap(process.pid, address, BREAKPOINT)
            except (OSError, NotAProgram) as error:
                self._refused = str(error)
                continue
            self._whole_name, self._address = name, address
            self._bytes[process.pid] = before
        if self._bytes:  # Its children may be other programs.
            self._refused = ""
        else:
            self._ending.set()

    def _trapped(self, thread: int, number: int) -> bool:
        if number != signal.SIGTRAP:
            return False
        if ptrace.word(thread, ptrace.INSTRUCTION) != self._address + 1:
            return False
        ptrace.set_word(thread, ptrace.INSTRUCTION, self._address)
        self._restore()
        if self.held:
            return True  # It had met the breakpoint too, before that was taken away.
        self.held = thread
        self.caught.append(
            Caught(
                thread=thread,
                call=self._whole_name,
                target=f"{self._address:#x}",
                t_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            )
        )
        if self.hold == "all":
            self._freeze()
        return True

    def _resume(self, thread: int) -> None:
        if thread != self.held:
            Tracer._resume(self, thread)

    def _restore(self) -> None:
        for pid, before in list(self._bytes.items()):
            with suppress(OSError):  # It may have exited.
                _swap(pid, self._address, before)
            del self._bytes[pid]


class Failpoints:
    """Faults of kind `failpoint`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tracers: dict[str, dict[str, FunctionTracer]] = {}
        self._then: dict[str, str] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Sets the breakpoint in each node. Errors: Refused."""
        if args["hold"] not in HOLDS:
            raise Refused(f"failpoint: unknown hold {args['hold']!r} (known: {', '.join(HOLDS)})")
        if args["then"] not in THENS:
            raise Refused(f"failpoint: unknown then {args['then']!r} (known: {', '.join(THENS)})")
        missing = unsupported()
        if missing:
            raise Refused(f"failpoint: {missing}")
        for name in args["nodes"]:
            # Read before its threads are stopped: the program would stand still for so long.
            for process in processes.tree(self._world.node(name).roots):
                with suppress(OSError, NotAProgram):
                    in_process(process.pid, args["function"])
        self._then[fault] = args["then"]
        self._tracers[fault] = {
            name: FunctionTracer(
                roots=self._world.node(name).roots, function=args["function"], hold=args["hold"]
            )
            for name in self._world.up(args["nodes"])
        }
        trace_all(self._tracers[fault].values())
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """The threads that are held; effective while one is, or all where that was asked for."""
        held = self._held(fault)
        caught: dict[str, Evidence] = {
            node: {
                "function": tracer.caught[0].call,
                "thread": tracer.held,
                "t_ns": tracer.caught[0].t_ns,
            }
            for node, tracer in self._tracers.get(fault, {}).items()
            if node in held
        }
        return {"effective": any(held.values()), "held": held, "caught": caught}

    def _held(self, fault: str) -> dict[str, bool]:
        """Node -> whether it is stopped as asked for, of those that have called the function."""
        held: dict[str, bool] = {}
        for node, tracer in self._tracers.get(fault, {}).items():
            if not tracer.held:
                continue
            letters = [processes.state(one) for one in self._world.living(node)]
            stopped = _letter(tracer.held) in processes.STOPPED
            if tracer.hold == "all":
                stopped = stopped and set(letters) <= {"T", "gone"}
            held[node] = stopped
        return held

    def heal(self, fault: str) -> Evidence:
        """The held threads go on, or are killed with their nodes, and the breakpoints are gone;
        `restart` names the nodes that died.

        A node without a held thread is not killed. Its tracer lives on until it has reaped the
        threads, which would keep the ports of the program otherwise.
        """
        held = self._held(fault)
        evidence = self.observe(fault)
        traced = self._tracers.pop(fault)
        if self._then.pop(fault) == "kill":
            killed = {
                node: {str(one.pid): state for one, state in processes.end(tracer.roots).items()}
                for node, tracer in traced.items()
                if held.get(node)
            }
            states = {state for node in killed.values() for state in node.values()}
            evidence |= {"killed": killed, "effective": states == {"gone"}}
        for tracer in traced.values():
            tracer.end()
        return {**evidence, "restart": [one for one in traced if not self._world.living(one)]}

    def settle(self, node: str) -> None:
        """Nothing: the processes of a node that was started again are others."""


def _swap(pid: int, address: int, new: bytes) -> bytes:
    """Writes into a process's memory, whatever its protection; what was there before."""
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        before = os.pread(memory.fileno(), len(new), address)
        os.pwrite(memory.fileno(), new, address)
    return before


def _letter(thread: int) -> str:
    try:
        with open(f"/proc/{thread}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1].decode()
    except OSError:
        return ""


FAILPOINT = Half(
    request="failpoint",
    form=Form(
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
    make=Failpoints,
)
