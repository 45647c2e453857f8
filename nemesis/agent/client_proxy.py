"""Faults on connections between one client and its servers: a forwarder in the client's network.

The client gets an address on its own loopback for each server. Traffic there can be delayed,
dropped, or ended with a reset; a connection that has lost bytes is never used again. Connections
can also be closed gracefully, from both sides at once.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.nft import Namespace
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, NODES, Form

CHUNK_BYTES = 65536
BOUND_S = 2.0
KINDS = ("reply-loss", "reset", "delay", "black-hole", "hang-up")
RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class _Fault:
    """One active fault: its remaining budget, and its effect so far."""

    what: str
    nodes: Sequence[str]
    left: int
    by_s: float
    after: int
    seen: dict[str, int] = field(default_factory=dict)
    over: dict[str, asyncio.Event] = field(default_factory=dict)
    """by node, because each has its own event loop"""

    def count(self, what: str, n: int) -> None:
        self.seen[what] = self.seen.get(what, 0) + n


class Taps:
    """Faults of kind `disturb`, and their forwarders."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        self._faults: dict[str, _Fault] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: dict[str, set[asyncio.Event]] = {}
        """by node, one per open connection: if set, the connection is closed"""

    def tap(self, node: str, links: Sequence[Mapping[str, Any]]) -> None:
        """Forwards listen:port to to:port in the node's network. Errors: Refused."""
        adopted = self._world.node(node)
        network = adopted.network
        if network is None:
            raise Refused(f"tap: {adopted.without_network}; use local or docker")
        if node not in self._loops:
            self._loops[node] = _loop_inside(network)
        for link in links:
            for port in link["ports"]:
                self._call(node, self._serve(node, link["listen"], link["to"], port))

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Starts to disturb traffic through the taps of `nodes`. Errors: Refused."""
        if args["what"] not in KINDS:
            raise Refused(f"disturb: {args['what']!r} is not one of {', '.join(KINDS)}")
        for node in args["nodes"]:
            if node not in self._loops:
                raise Refused(f"disturb {node}: not tapped; send tap first")
        self._faults[fault] = _Fault(
            what=args["what"],
            nodes=args["nodes"],
            left=args["count"],
            by_s=args["by_ns"] / 1e9,
            after=args["after"],
            over={node: asyncio.Event() for node in args["nodes"]},
        )
        if args["what"] == "hang-up":
            for node in args["nodes"]:
                self._call(node, self._hang_up(node, self._faults[fault]))
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Its effect so far: dropped replies, requests and bytes, reset connections."""
        seen = dict(self._faults[fault].seen) if fault in self._faults else {}
        return {"effective": bool(set(seen) - {"passed bytes"}), **seen}

    def heal(self, fault: str) -> Evidence:
        """Later traffic passes; connections that have lost bytes are reset."""
        evidence = self.observe(fault)
        if fault in self._faults:
            for node, over in self._faults.pop(fault).over.items():
                self._loops[node].call_soon_threadsafe(over.set)
        return evidence

    def settle(self, node: str) -> None:
        """Nothing: a tap belongs to the network namespace, not to a process."""

    def _call(self, node: str, work: Coroutine[object, None, None]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(work, self._loops[node]).result(BOUND_S)
        except OSError as error:
            raise Refused(f"tap {node}: {error.strerror}") from error

    async def _hang_up(self, node: str, fault: _Fault) -> None:
        ends = self._ends.get(node, set())
        for end in ends:
            end.set()
        if ends:
            fault.count("connections ended", len(ends))

    async def _serve(self, node: str, listen: str, to: str, port: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._join(node, reader, writer, to, port)
            finally:
                self._tasks.discard(task)

        self._servers.append(await asyncio.start_server(accept, listen, port))

    async def _join(
        self,
        node: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to: str,
        port: int,
    ) -> None:
        """Forwards both directions until one ends, then closes the other end."""
        try:
            far_reader, far_writer = await asyncio.open_connection(to, port)
        except OSError:
            _reset(writer)
            return
        end = asyncio.Event()
        self._ends.setdefault(node, set()).add(end)
        there = asyncio.create_task(self._pump(node, reader, far_writer, reply=False))
        back = asyncio.create_task(self._pump(node, far_reader, writer, reply=True))
        ending = asyncio.create_task(end.wait())
        done, rest = await asyncio.wait((there, back, ending), return_when=asyncio.FIRST_COMPLETED)
        self._ends[node].discard(end)
        for task in rest:
            task.cancel()
        if all(task.result() for task in done):
            writer.close()
        else:
            _reset(writer)
        far_writer.close()

    async def _pump(
        self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, reply: bool
    ) -> bool:
        """Forwards one direction; returns whether it ended regularly."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                for fault in [f for f in self._faults.values() if node in f.nodes]:
                    if not await _passes(fault, node, len(data), reply):
                        return False
                writer.write(data)
                await writer.drain()
        except OSError:
            return False
        return True


async def _passes(fault: _Fault, node: str, size: int, reply: bool) -> bool:
    """Applies a fault to a piece of data; False: reset the connection, the piece is lost."""
    if fault.what == "hang-up":
        return True
    if fault.what == "black-hole":
        fault.count("swallowed bytes", size)
        await fault.over[node].wait()
        return False
    if fault.what == "delay":
        if reply:
            fault.count("delayed replies", 1)
            await asyncio.sleep(fault.by_s)
        return True
    if fault.left <= 0 or reply != (fault.what == "reply-loss"):
        return True
    fault.count("passed bytes", size)
    if fault.seen["passed bytes"] < fault.after:
        return True
    fault.left -= 1
    fault.count("swallowed bytes", size)
    fault.count("connections reset", 1)
    return False


def _reset(writer: asyncio.StreamWriter) -> None:
    plug = writer.get_extra_info("socket")
    if plug is not None:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


def _loop_inside(network: Namespace) -> asyncio.AbstractEventLoop:
    """An event loop in a thread in this network namespace: its sockets are created there."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    def run() -> None:
        network.enter()
        ready.set()
        loop.run_forever()

    threading.Thread(target=run, daemon=True).start()
    if not ready.wait(BOUND_S):
        raise Refused("tap: cannot enter the network namespace")
    return loop


DISTURB = Half(
    request="disturb",
    form=Form(
        says=f"Disturbs traffic through taps of the nodes by `what`: {', '.join(KINDS)}.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "what": ("a name", MISSING),
            "count": ("a whole number", 1),
            "by_ns": ("whole nanoseconds", 0),
            "after": ("a whole number", 0),
        },
    ),
    make=lambda world: world.part(Taps),
)
