"""The process of one node: sockets, files and clocks around `node.LockNode`.

Run as `python -S -m holdfast.clusters.systems.reference.service.server --config JSON`, where JSON
is {"name", "address", "port", "peers": {name: address}, "data": folder, "options": {...}, "seed"};
with "trace": file, it writes its steps there (`trace_file`).
Log lines go to stderr. It exits with 0 on SIGTERM, with 1 if its disk or folder fails.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.clusters.systems.reference.consensus.messages import (
    Durable,
    Message,
    Save,
    pack,
    unpack,
)
from holdfast.clusters.systems.reference.consensus.roles import Role
from holdfast.clusters.systems.reference.consensus.storage import Corrupt, Storage
from holdfast.clusters.systems.reference.options import read
from holdfast.clusters.systems.reference.service.node import (
    Asked,
    Input,
    Left,
    LockNode,
    NodeEffects,
)
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Frame, Framed, endpoint

CONNECT_S = 0.5
RETRY_S = 0.2


def boot_ns() -> int:
    """The clock that all processes of a host share and that cannot be set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(text: str) -> None:
    """One line of the node's log, flushed."""
    sys.stderr.write(f"{boot_ns()} {text}\n")
    sys.stderr.flush()


CLOCKS: Mapping[str, Callable[[], int]] = {
    "monotonic": time.monotonic_ns,
    "wall": time.time_ns,
    "run": boot_ns,
}


def node_type(mutant: str) -> type[LockNode]:
    """The node itself, or one with a planted bug. Raises Corrupt for an unknown bug."""
    if not mutant:
        return LockNode
    # A server as it is loads nothing of its planted bugs, and none writes a trace unasked.
    from holdfast.clusters.systems.reference.mutants.client import CLIENTS
    from holdfast.clusters.systems.reference.mutants.node import NODES

    if mutant in CLIENTS:
        return LockNode
    if mutant not in NODES:
        raise Corrupt(f"no mutant {mutant!r} of this service; there are: {', '.join(NODES)}")
    return NODES[mutant]


class Disk(Protocol):
    """Durable storage of a node: `storage.Storage`, or its counterpart in the simulator."""

    cut_bytes: int

    def load(self) -> Durable: ...

    def write(self, save: Save) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class PeerLink:
    """The connection to one peer, reopened whenever it ends.

    Messages sent while there is none are lost, which consensus tolerates.
    """

    def __init__(
        self,
        *,
        me: str,
        local: str,
        peer: str,
        address: str,
        port: int,
        say: Callable[[str], None] = say,
    ) -> None:
        self._me = me
        self._local = local
        self._peer = peer
        self._host, self._port = endpoint(address, port)
        self._say = say
        self._wire: Framed | None = None
        self._closed = asyncio.Event()

    def send(self, message: Message) -> None:
        """Sends if the connection accepts it now."""
        if self._wire is not None:
            self._wire.send({"message": message} if self._wire.objects else pack(message))

    async def run(self) -> None:
        """Keeps the connection open, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(CONNECT_S):
                    # From our own address, so that a link is identified by its two ends.
                    _, wire = await loop.create_connection(
                        self._make, self._host, self._port, local_addr=(self._local, 0)
                    )
            except (OSError, TimeoutError):
                await asyncio.sleep(RETRY_S)
                continue
            self._say(f"peer {self._peer}: connected")
            wire.send({"peer": self._me})
            self._wire = wire
            await self._closed.wait()

    def _make(self) -> Framed:
        self._closed.clear()
        return Framed(lambda wire, frame: wire.drop("a peer never answers here"), self._on_close)

    def _on_close(self, wire: Framed, reason: str) -> None:
        if self._wire is wire:
            self._say(f"peer {self._peer}: {reason}")
            self._wire = None
        self._closed.set()


class Server:
    """One running node. What arrives in one iteration of the loop is one step and one sync.

    disk, clocks ("monotonic", "wall" and "run", ns) and say are those of the host unless given.
    watched   makes the node one that tells its steps (`tracing`)
    elected   receives the term when this node has become leader
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        disk: Disk | None = None,
        clocks: Mapping[str, Callable[[], int]] = CLOCKS,
        say: Callable[[str], None] = say,
        watched: Callable[[type[LockNode]], Callable[..., LockNode]] | None = None,
        elected: Callable[[int], None] | None = None,
    ) -> None:
        self.say, self._elected = say, elected
        self._name = str(config["name"])
        self._address = str(config["address"])
        self._port = int(config.get("port", DEFAULT_PORT))
        peers: Mapping[str, str] = config["peers"]
        options, wrong = read(config.get("options", {}))
        if wrong:
            raise Corrupt("; ".join(wrong))
        self._storage = Storage(Path(config["data"])) if disk is None else disk
        durable = self._storage.load()
        if self._storage.cut_bytes:
            self.say(f"log: cut off {self._storage.cut_bytes} bytes of an unfinished write")
        self.now_ns, self.run_ns = clocks["monotonic"], clocks["run"]
        kind = node_type(options.mutant)
        self._node = (watched(kind) if watched else kind)(
            name=self._name,
            peers=list(peers),
            options=options,
            # Election timeouts must differ between nodes, and from one start to the next.
            rng=random.Random(f"{config.get('seed', 0)} {self._name} {durable.ballot.term}"),
            durable=durable,
            now_ns=self.now_ns(),
        )
        if options.mutant:
            self._node.clocks = clocks
        self._presses = self._node.presses
        self._over = False
        self._links = {
            peer: PeerLink(
                me=self._name,
                local=self._address,
                peer=peer,
                address=address,
                port=self._port,
                say=say,
            )
            for peer, address in peers.items()
            if peer != self._name
        }
        self._clients: dict[int, Framed] = {}
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        # A simulated loop that has nothing else to do runs the turn directly.
        self._soon = getattr(self._loop, "call_next", self._loop.call_soon)
        self._inbox: list[Input] = []
        self._turn_due: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = self._due_ns = 0
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._seen: tuple[str, int, str | None] = ("", 0, None)

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop` is set. Raises the error that made it impossible to continue."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: Connection(self).wire, self._address, self._port, reuse_address=True
        )
        self.say(f"{self._name} listens on {self._address}:{self._port}")
        tasks = [asyncio.create_task(link.run()) for link in self._links.values()]
        stopping = asyncio.create_task(stop.wait())
        self._turn()
        try:
            either: list[asyncio.Future[Any]] = [self._failed, stopping]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            listening.close()
            for task in [*tasks, stopping]:
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
            self._storage.close()

    def enter(self, wire: Framed) -> int:
        """A number for a new client's connection."""
        number = next(self._numbers)
        self._clients[number] = wire
        return number

    def leave(self, number: int) -> None:
        """A client's connection has ended."""
        del self._clients[number]
        self.put(Left(connection=number))

    def put(self, item: Input) -> None:
        """Adds an input for the next step, which runs at once unless the input can wait."""
        self._inbox.append(item)
        if self._turn_due is None and self._presses(item) and not self._over:
            self._turn_due = self._soon(self._turn)

    def _turn(self) -> None:
        self._turn_due = None
        if self._over:
            return
        inputs, self._inbox = self._inbox, []
        try:
            effects = self._node.step(self.now_ns(), inputs)
            if effects.saves:
                for save in effects.saves:
                    self._storage.write(save)
                self._storage.sync()
            self._emit(effects)
        except Exception as error:
            # A node with a failed disk, or an internal error, sends nothing more.
            self._over = True
            self._failed.set_exception(_as_failure(error))
            return
        # An earlier timer stays: else every message that postpones a deadline would cost one.
        self._due_ns = effects.due_ns
        if self._timer is None or effects.due_ns < self._timer_ns:
            self._wake(effects.due_ns)

    def _wake(self, due_ns: int) -> None:
        """Runs a turn then, at the latest."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        wait_ns = max(0, due_ns - self.now_ns())
        self._timer = self._loop.call_later(wait_ns / 1e9, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._inbox or self._over or not self._node.rests(self.now_ns()):
            self._turn()
        else:
            self._wake(self._due_ns)

    def _emit(self, effects: NodeEffects) -> None:
        for peer, message in effects.sends:
            self._links[peer].send(message)
        if effects.timed:
            # Only here, after the sync: in a cluster of one node the sync is the commit.
            now_ns = self.now_ns()
            for answer, proposed_ns in effects.timed:
                answer["commit_ns"] = now_ns - proposed_ns
        for number, frame in effects.replies:
            wire = self._clients.get(number)
            if wire is not None and not wire.send(frame):
                wire.drop("it does not read what it is sent")
        node = self._node.consensus
        seen = (node.role, node.term, node.leader)
        if seen != self._seen:
            self._seen = seen
            self.say(f"{node.role} in term {node.term}, leader {node.leader or 'unknown'}")
            if self._elected is not None and node.role is Role.LEADER:
                self._elected(node.term)


def _as_failure(error: Exception) -> Exception:
    """The error as a future takes it: StopIteration would end the coroutine that awaits it."""
    if not isinstance(error, StopIteration):
        return error
    failure = RuntimeError("StopIteration")
    failure.__cause__ = error
    return failure


class Connection:
    """One accepted connection: a peer, if its first frame says so, else a client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._put = server.put
        self._number = 0
        self._peer = ""
        self.wire = Framed(self._on_frame, self._on_close)

    def _on_frame(self, wire: Framed, frame: Frame) -> None:
        if self._peer and wire.objects:
            self._put(frame["message"])
        elif self._peer:
            try:
                self._put(unpack(frame))
            except ValueError as error:
                wire.drop(str(error))
        elif not self._number and "peer" in frame:
            self._peer = str(frame["peer"])
        else:
            self._number = self._number or self._server.enter(wire)
            came_ns, read_ns = self._server.now_ns(), self._server.run_ns()
            self._put(Asked(connection=self._number, frame=frame, came_ns=came_ns, read_ns=read_ns))

    def _on_close(self, wire: Framed, reason: str) -> None:
        if self._number:
            self._server.leave(self._number)
        who = f"from peer {self._peer:.80}" if self._peer else f"client {wire.peer}"
        self._server.say(f"{who}: {reason:.200}")


async def serve(config: Mapping[str, object]) -> None:
    """One node until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if "trace" not in config:
        await Server(config).run(stop)
        return
    from holdfast.clusters.systems.reference.service.trace_file import tracing

    files = Path(str(config["trace"])), Path(str(config["data"]))
    disk, watched = tracing(str(config["name"]), *files, boot_ns)
    await Server(config, disk=disk, watched=watched).run(stop)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line of a node; the exit code."""
    parser = argparse.ArgumentParser(description="one node of the reference lock service")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config = json.loads(parser.parse_args(argv).config)
    try:
        asyncio.run(serve(config))
    except (Corrupt, OSError) as error:
        say(f"cannot go on: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
