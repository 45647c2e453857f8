"""A small simulated world: a few nodes with loops, and frames that they exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.network import Network, Weather
from holdfast.clusters.backends.sim.node_clock import NodeClock
from holdfast.clusters.backends.sim.scheduler import START_NS, Engine
from holdfast.clusters.systems.reference.wire.frames import Frame, Framed

MS = 1_000_000
SECOND = 1000 * MS
PORT = 7400


class Small:
    """Nodes "a" and "b", `a` a listener on port 7400 that notes what it gets, with the time."""

    def __init__(self, seed: int = 1, weather: Weather | None = None, drift_ppm: int = 0) -> None:
        self.engine = Engine()
        self.network = Network(self.engine, seed, weather or Weather())
        self.clocks = {name: NodeClock(0, drift_ppm) for name in ("a", "b")}
        self.loops = {name: self._loop(name) for name in ("a", "b")}
        self.got: list[tuple[int, Frame]] = []
        self.ended: list[tuple[int, str, str]] = []
        self.server: Framed | None = None

    def _loop(self, name: str) -> NodeLoop:
        self.network.place(name, f"address {name}", server=True)
        return NodeLoop(name, self.engine, self.clocks[name], self.network)

    def since_ns(self) -> int:
        """How much time has passed."""
        return self.engine.now_ns - START_NS

    def run(self, for_ns: int) -> None:
        """Let so much time pass."""
        self.engine.run(self.engine.now_ns + for_ns)

    def start(self, node: str, work: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
        """Begin something on a node; the list holds its task once it has begun."""
        loop, begun = self.loops[node], list[asyncio.Task[Any]]()
        loop.call_soon(lambda: begun.append(loop.create_task(work)))
        return begun

    def listen(self) -> None:
        """Node a takes connections and notes frames."""

        def made() -> Framed:
            self.server = Framed(
                lambda wire, frame: self.got.append((self.since_ns(), frame)),
                lambda wire, reason: self.ended.append((self.since_ns(), "a", reason)),
            )
            return self.server

        self.start("a", self.loops["a"].create_server(made, "address a", PORT))

    async def connect(self) -> Framed:
        """From the running node to a."""
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(
            lambda: Framed(
                lambda wire, frame: None,
                lambda wire, reason: self.ended.append((self.since_ns(), "b", reason)),
            ),
            "address a",
            PORT,
        )
        return wire

    def connected(self) -> Framed:
        """Node a listens, and b is connected to it."""
        self.listen()
        work = self.start("b", self.connect())
        self.run(SECOND)
        wire: Framed = work[0].result()
        return wire

    def numbers(self) -> list[int]:
        """The frames that a got, by their numbers."""
        return [frame["n"] for _, frame in self.got]
