"""Faults at a system call of a running program: `call_tracer` acts, `watched_calls` chooses."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from holdfast.harness.recording.call_marks import WORDS
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half, Part
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, NODES, Form
from holdfast.nemesis.agent.signals import worst
from holdfast.nemesis.agent.tracing import ptrace
from holdfast.nemesis.agent.tracing.call_tracer import (
    ACTS,
    AFTER,
    BEFORE,
    NOT_AFTER,
    POINTS,
    Act,
    CallTracer,
    FirstComer,
)
from holdfast.nemesis.agent.tracing.tracer import trace_all
from holdfast.nemesis.agent.tracing.watched_calls import CALLS, Watched

ERRORS = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EDQUOT": errno.EDQUOT,
    "EROFS": errno.EROFS,
    "EPIPE": errno.EPIPE,
    "ECONNRESET": errno.ECONNRESET,
    "ETIMEDOUT": errno.ETIMEDOUT,
    "EAGAIN": errno.EAGAIN,
    "EACCES": errno.EACCES,
    "EBUSY": errno.EBUSY,
    "EINTR": errno.EINTR,
    "ENFILE": errno.ENFILE,
    "ENOLCK": errno.ENOLCK,
}
EACH, FIRST = "each", "first"
WHO = (EACH, FIRST)
"""Which nodes of a fault are acted on: each one, or the one that makes such a call first."""
CAP_SYS_PTRACE = 19
DID: Mapping[str, str] = {
    "freeze": "stopped",
    "delay": "delayed",
    "fail": "failed",
    "skip": "skipped",
    "tear": "killed",
    "kill": "killed",
}
"""Act -> what it does to the node, or to its call."""
MOST_TOLD = 10
"""Calls that the evidence lists of each node; the others are counted."""
PRESETS: Mapping[str, Mapping[str, str]] = {
    "syscall": {},
    "freeze": {"call": "send", "act": "freeze"},
    "freeze-write": {"call": "disk", "act": "freeze"},
    "torn-write": {"call": "write", "act": "tear"},
    "disk-slow": {"call": "sync", "act": "delay"},
    "disk-error": {"act": "fail"},
    "sync-lie": {"call": "sync", "act": "skip"},
}
"""Request -> the arguments that it has by definition."""


class SystemCalls:
    """Faults of one request of PRESETS. A node that is started again meanwhile is not traced."""

    def __init__(self, world: World, request: str) -> None:
        self._world = world
        self._preset = PRESETS[request]
        self._tracers: dict[str, dict[str, CallTracer]] = {}
        self._acts: dict[str, Act] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Traces the nodes until one makes such a call. Errors: Refused."""
        args = {**args, **self._preset}
        _check(args)
        missing = unsupported()
        if missing:
            raise Refused(f"syscall: {missing}")
        self._acts[fault] = act = Act(
            do=args["act"],
            first=args.get("first", 1),
            count=1 if args["act"] in ("freeze", "tear", "kill") else args.get("count", 1),
            by_ns=args.get("by_ns", 0),
            error=ERRORS[args.get("error", "EIO")],
            point=args.get("point", BEFORE),
            of=args.get("of", ""),
        )
        turn = FirstComer() if args.get("who") == FIRST else None
        self._tracers[fault] = {
            name: CallTracer(
                roots=self._world.node(name).roots,
                watched=Watched(
                    calls=args["call"],
                    addresses=self._reached_by(name, args.get("peers", ())),
                    file=args.get("file", ""),
                ),
                act=act,
                turn=turn,
            )
            for name in self._world.up(args["nodes"])
        }
        trace_all(self._tracers[fault].values())
        return self.observe(fault)

    def _reached_by(self, node: str, addresses: Iterable[str]) -> frozenset[str]:
        """Addresses, and those of the proxies by which a node reaches them."""
        fronts = (self._world.fronts.get((node, address), set()) for address in addresses)
        return frozenset(addresses).union(*fronts)

    def observe(self, fault: str) -> Evidence:
        """The calls that were acted on. A freeze is effective while a node stands inside one."""
        traced = self._tracers.get(fault, {})
        living = {node: self._world.living(node) for node in traced}
        states = {node: worst(map(processes.state, on_node)) for node, on_node in living.items()}
        caught = {node: tracer.caught for node, tracer in traced.items() if tracer.caught}
        do = self._acts[fault].do
        if do == "freeze":
            effective = any(traced[node].frozen and states[node] == "T" for node in traced)
        elif do in ("tear", "kill"):
            effective = any(states[node] == "gone" for node in caught)
        else:
            effective = bool(caught)
        evidence: Evidence = {
            "effective": effective,
            "did": DID[do],
            "states": states,
            "calls": {node: len(calls) for node, calls in caught.items()},
            "caught": {
                node: [asdict(call) for call in calls[:MOST_TOLD]] for node, calls in caught.items()
            },
            "stops": sum(tracer.stops for tracer in traced.values()),
        }
        if self._acts[fault].of:
            evidence["within"] = self._acts[fault].of
        problems = {node: tracer.problem for node, tracer in traced.items() if tracer.problem}
        return {**evidence, "problems": problems} if problems else evidence

    def heal(self, fault: str) -> Evidence:
        """Everything goes on, a frozen call first; `restart` names the nodes that have died."""
        evidence = self.observe(fault)
        traced = self._tracers.pop(fault)
        for tracer in traced.values():
            tracer.end()
        dead = [node for node in traced if not self._world.living(node)]
        return {**evidence, "restart": dead}

    def traced(self, fault: str) -> Collection[str]:
        """The nodes of a fault."""
        return self._tracers.get(fault, {})

    def settle(self, node: str) -> None:
        """Nothing: the processes of a node that was started again are others."""


def _check(args: Mapping[str, object]) -> None:
    """Errors: Refused, with the words that are known."""
    words = {
        "call": tuple(CALLS),
        "act": ACTS,
        "error": tuple(ERRORS),
        "point": POINTS,
        "who": WHO,
        "of": ("", *WORDS),
    }
    for name, known in words.items():
        if name in args and args[name] not in known:
            raise Refused(f"syscall: unknown {name} {args[name]!r} (known: {', '.join(known)})")
    if args.get("point") == AFTER and args["act"] in NOT_AFTER:
        raise Refused(f"syscall: act {args['act']!r} is of a call that is not made: not after it")


@cache
class CallTracing(Part):
    """What every agent says of system calls."""

    def __init__(self, _: World) -> None:
        pass

    def abilities(self) -> Evidence:
        """Whether they can be traced here, or why not."""
        return {"syscall": unsupported() or True}


def unsupported() -> str | None:
    """Why system calls cannot be traced here, or None: tried on a child that waits to be killed."""
    reason = ptrace.unsupported() or _forbidden()
    if reason is not None:
        return reason
    # Not a fork, which other threads of this process would make unsafe. It reads from a pipe that
    # only we hold open, so that it ends with us.
    words = [sys.executable, "-S", "-P", "-c", "import os; os.read(0, 1)"]
    awaited, held = os.pipe()
    child = os.posix_spawn(
        words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, awaited, 0)]
    )
    try:
        ptrace.seize(child)
        ptrace.interrupt(child)
        ptrace.wait(child)
        ptrace.detach(child)
    except OSError as error:
        return f"processes may not be traced here: {error.strerror}"
    finally:
        os.close(awaited)
        os.close(held)
        os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
    return None


def traces_others() -> bool:
    """Whether this process may trace those of other users."""
    status = Path("/proc/self/status").read_text().splitlines()
    able = int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)
    return bool(able >> CAP_SYS_PTRACE & 1)


def _forbidden() -> str | None:
    """Why the kernel lets this user trace no process but its own children, or None."""
    with suppress(OSError, ValueError, StopIteration):
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
        if scope and not traces_others():
            return (
                f"kernel.yama.ptrace_scope is {scope}: only root may trace the processes of a node"
            )
    return None


SYSCALL = Half(
    request="syscall",
    form=Form(
        says="Follows the nodes to a system call and acts on it there. call:"
        f" {', '.join(CALLS)} (on TCP sockets, on regular files, on their names, and of"
        " their locks); peers: only to these addresses; file: only files of this name, * for any"
        f" part, or of this path. act: {', '.join(ACTS)}; first: the first matching call that is"
        " acted on; count: how many, 0 for all; by_ns: how long a call is delayed; error: with"
        f" which a call fails; point: {' or '.join(POINTS)} the call, and after it only if it"
        " succeeded; who: each node, or only the first one that makes such a call; of: only"
        f" within this call of a client ({', '.join(WORDS)}), from whose begin calls are counted.",
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
            "point": ("a name", BEFORE),
            "who": ("a name", EACH),
            "of": ("text", ""),
        },
    ),
    make=lambda world: SystemCalls(world, "syscall"),
)
FREEZE = Half(
    request="freeze",
    form=Form(
        says="Each node stops inside its next send, which leaves when the fault heals.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=lambda world: SystemCalls(world, "freeze"),
)
FREEZE_WRITE = Half(
    request="freeze-write",
    form=Form(
        says="Each node stops inside its next write to a file or sync of one.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=lambda world: SystemCalls(world, "freeze-write"),
)
TORN_WRITE = Half(
    request="torn-write",
    form=Form(
        says="The next write to a file of more than 512 bytes is cut at a multiple of that, and"
        " then the node is killed.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=lambda world: SystemCalls(world, "torn-write"),
)
DISK_SLOW = Half(
    request="disk-slow",
    form=Form(
        says="Delays every fsync and fdatasync of the nodes by `by_ns`.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "by_ns": ("whole nanoseconds", MISSING),
            "count": ("a whole number", 0),
        },
    ),
    make=lambda world: SystemCalls(world, "disk-slow"),
)
DISK_ERROR = Half(
    request="disk-error",
    form=Form(
        says="Calls of the nodes on regular files fail: `call` and `error` as for syscall.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "call": ("a name", "sync"),
            "error": ("a name", "EIO"),
            "count": ("a whole number", 0),
        },
    ),
    make=lambda world: SystemCalls(world, "disk-error"),
)
