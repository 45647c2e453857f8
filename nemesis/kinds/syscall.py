"""A chosen system call of a running program is frozen, delayed, failed, skipped, torn or its last.

Models
    The worst moment of a pause (`call=send:resource`: the holder checked its lease and stops inside
    the write that it guards), a disk that reports an error or loses what it acknowledged
    (`call=sync,act=fail` or `skip`), a slow disk (`act=delay`), a crash between two sectors of a
    write (`call=write,act=tear`). A client that read whose a lock file is, and stops before it
    removes it (`call=unlink:*.lock`).
    call     send, receive (TCP), write, sync, disk (regular files), open, unlink, rmdir, rename,
             mkdir, link (names of files), flock, fcntl (locks of files); after a colon: to whom, as
             a target (`send:resource`, `send:n1`, `send:all`), or which file (`write:*.aof`), with
             a slash which path
    act      freeze: the node stops inside the call, which is made at the heal. delay: the calling
             thread waits for `by`. fail: the call is not made and returns `error`. skip: it is not
             made and returns success. tear: a write is cut at a multiple of 512 bytes, then the
             node is killed. kill: the node is killed before the call is made. In a run with
             skip no system is judged by its promises, for the kernel lies
    point    before the call is made (before), or after one that was made and succeeded (after):
             freeze, delay, fail and kill can be either; no other call counts for `first` then
    who      each node of the target at its own call (each), or only the one that makes such a call
             first (first)
    of       only within this call of a client (acquire, release, renew, read, write, heartbeat),
             from whose begin calls are counted; an acquire that does not wait is one too
    first    which matching call is the first that is acted on (1); with `first=1/2/3` the faults
             have these numbers in turn
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
from dataclasses import replace

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import IN_TURN, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.harness.recording.call_marks import WORDS
from holdfast.nemesis import options as read
from holdfast.nemesis.agent.tracing.call_tracer import ACTS, AFTER, BEFORE, NOT_AFTER, POINTS
from holdfast.nemesis.agent.tracing.system_calls import EACH, ERRORS, WHO
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


def _from_one(text: str) -> Sequence[int]:
    """The numbers that the faults have in turn. Errors: ValueError."""
    numbers = [whole(part) for part in text.split(IN_TURN)]
    if not all(numbers):
        raise ValueError("expected a number from 1")
    return numbers


PARAMS: dict[str, Callable[[str], object]] = {
    "call": place,
    "act": one_of(*ACTS),
    "by": duration_ns,
    "error": one_of(*ERRORS),
    "first": _from_one,
    "count": whole,
    "point": one_of(*POINTS),
    "who": one_of(*WHO),
    "of": one_of(*WORDS),
}


class SystemCall:
    """Implements the port `Nemesis`. Options: target, call, act, by, error, point, who, of,
    first, count, every, for, lease."""

    agent = ("holdfast.nemesis.agent.tracing.system_calls:SYSCALL",)
    traits = Traits(kills_later=True, lies_if=("act", "skip"), counts_calls=True, pattern="pause")

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        if options.get("point") == AFTER and options.get("act") in NOT_AFTER:
            raise UsageError(
                f"nemesis syscall: act={options['act']} acts on a call that is not made, so not"
                " with point=after"
            )
        faults = aimed("syscall", rng, options, span_ns, PARAMS, lambda n, rng: "holder")
        if "first" not in options:
            return faults
        firsts = options["first"].split(IN_TURN)
        return [
            replace(fault, params={**fault.params, "first": firsts[n % len(firsts)]})
            for n, fault in enumerate(faults)
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("syscall", fault.params, PARAMS)
        call, where = place(fault.params.get("call", "send"))
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "call": call,
            "act": fault.params.get("act", "freeze"),
            "first": _from_one(fault.params.get("first", "1"))[0],
            "count": int(fault.params.get("count", "1")),
            "by_ns": duration_ns(fault.params.get("by", "200ms")),
            "error": fault.params.get("error", "EIO"),
            "point": fault.params.get("point", BEFORE),
            "who": fault.params.get("who", EACH),
            "of": fault.params.get("of", ""),
        }
        if call in ON_SOCKETS and where:
            address = {node.name: node.address for node in view.nodes}
            args["peers"] = [address[name] for name in resolve(where, view, rng)]
        elif where:
            args["file"] = where
        return [Request(do="syscall", args=args)]


NEMESIS = SystemCall()
