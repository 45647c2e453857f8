"""A chosen system call of a running program is frozen, delayed, failed, skipped, torn or its last.

Models
    The worst moment of a pause (`call=send:resource`: the holder checked its lease and stops inside
    the write that it guards), a disk that reports an error or loses what it acknowledged
    (`call=sync,act=fail` or `skip`), a slow disk (`act=delay`), a crash between two sectors of a
    write (`call=write,act=tear`).
    call     send, receive (TCP), write, sync, disk (regular files); after a colon: to whom, as a
             target (`send:resource`, `send:n1`, `send:all`), or which file (`write:*.aof`)
    act      freeze: the node stops inside the call, which is made at the heal. delay: the calling
             thread waits for `by`. fail: the call is not made and returns `error`. skip: it is not
             made and returns success. tear: a write is cut at a multiple of 512 bytes, then the
             node is killed. kill: the node is killed before the call is made. In a run with
             skip no system is judged by its promises, for the kernel lies
    first    which matching call is the first that is acted on (1)
    count    how many calls are acted on (1; 0: all while the fault lasts)
    The holder is frozen in a send for 1.5 leases by default.
Needs
    syscall: processes whose system calls the fault agent may trace (x86-64 Linux). The program is
    not started again for it and may be written in any language; while it is traced, each
    of its system calls costs about 40 us more. The simulator has
    act=freeze at send and write, and act=tear; other faults fail there and are no evidence.
Heals
    A call that is frozen or delayed is made, all threads go on, and a node that has died is
    started again; if no such call came, the fault has no effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.agent.tracing.call_tracer import ACTS
from holdfast.nemesis.agent.tracing.system_calls import ERRORS
from holdfast.nemesis.agent.tracing.watched_calls import CALLS, ON_SOCKETS
from holdfast.nemesis.client_fault import whole
from holdfast.nemesis.node_fault import aimed
from holdfast.nemesis.options import one_of, unknown
from holdfast.nemesis.targets import resolve, unknown_parts


def place(text: str) -> tuple[str, str]:
    """("send", "resource") of "send:resource". Errors: ValueError."""
    call, _, where = text.partition(":")
    if call not in CALLS:
        raise ValueError(unknown("call", call, CALLS))
    wrong = unknown_parts(where) if where and call in ON_SOCKETS else []
    if wrong:
        raise ValueError("; ".join(wrong))
    return call, where


def _from_one(text: str) -> int:
    if not whole(text):
        raise ValueError("expected a number from 1")
    return int(text)


PARAMS: dict[str, Callable[[str], object]] = {
    "call": place,
    "act": one_of(*ACTS),
    "by": duration_ns,
    "error": one_of(*ERRORS),
    "first": _from_one,
    "count": whole,
}


class SystemCall:
    """Implements the port `Nemesis`. Options: target, call, act, by, error, first, count, every,
    for, lease."""

    agent = ("holdfast.nemesis.agent.tracing.system_calls:SYSCALL",)
    traits = Traits(kills_later=True, lies_if=("act", "skip"), pattern="pause")

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        return aimed("syscall", rng, options, span_ns, PARAMS, lambda n, rng: "holder")

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("syscall", fault.params, PARAMS)
        call, where = place(fault.params.get("call", "send"))
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "call": call,
            "act": fault.params.get("act", "freeze"),
            "first": int(fault.params.get("first", "1")),
            "count": int(fault.params.get("count", "1")),
            "by_ns": duration_ns(fault.params.get("by", "200ms")),
            "error": fault.params.get("error", "EIO"),
        }
        if call in ON_SOCKETS and where:
            address = {node.name: node.address for node in view.nodes}
            args["peers"] = [address[name] for name in resolve(where, view, rng)]
        elif where:
            args["file"] = where
        return [Request(do="syscall", args=args)]


NEMESIS = SystemCall()
