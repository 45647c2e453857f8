"""The network: directed links with latency and cuts, connections over them, in memory.

A connection behaves like TCP with our own timeouts (`wire.STALL_MS`, its keepalive): frames arrive
in order; a cut delays them until a retransmission gets through, and ends the connection of a sender
who hears no acknowledgement for a second; the other end learns of it when it next gets through, or
by its keepalive. Links between servers may instead lose, double and reorder frames, which
consensus is made for. Every directed link has chance of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.clusters.backends.sim.connection import SPIKE, End, pair
from holdfast.clusters.backends.sim.scheduler import Engine, Handle
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.seeds import stream

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.event_loop import NodeLoop

SYN_RETRY_NS = SECOND


@dataclass(frozen=True, kw_only=True, slots=True)
class Weather:
    """What a network is like when no fault is active.

    fast_ns, slow_ns   a frame takes between these, mostly near the first
    spike_ns           a share SPIKE of the frames takes up to so much longer
    loose              links between servers lose, double and reorder frames
    loss, double       how often, 0 to 1, where they are loose
    marshal            frames go through JSON, which must change nothing
    """

    fast_ns: int = 100_000
    slow_ns: int = 2 * MILLISECOND
    spike_ns: int = 20 * MILLISECOND
    loose: bool = False
    loss: float = 0.0
    double: float = 0.0
    marshal: bool = False


class Link:
    """One direction between two nodes.

    fast_ns, span_ns   the least that a frame takes, and how much more it usually takes at most
    cuts, dropped      how many faults cut it, and frames that they stopped
    slow_ns, slowed    how much longer a frame takes by faults, and frames that took it
    jitter_ns          how much longer than that it takes at most, at random
    """

    __slots__ = (
        "cuts",
        "dropped",
        "fast_ns",
        "jitter_ns",
        "loose",
        "random",
        "slow_ns",
        "slowed",
        "span_ns",
        "spike_ns",
    )

    def __init__(self, rng: random.Random, weather: Weather, loose: bool) -> None:
        self.random = rng.random
        self.loose = loose
        self.cuts = 0
        self.dropped = 0
        self.slow_ns = 0
        self.jitter_ns = 0
        self.slowed = 0
        self.fast_ns = weather.fast_ns
        self.span_ns = weather.slow_ns - weather.fast_ns
        self.spike_ns = weather.spike_ns

    def delay_ns(self) -> int:
        """How long the next frame takes: near the least mostly, seldom much longer."""
        u = self.random()
        delay_ns = self.fast_ns + int(self.span_ns * u * u * u)
        if u < SPIKE or self.slow_ns or self.jitter_ns:
            delay_ns += self.more_ns(u)
        return delay_ns

    def more_ns(self, u: float) -> int:
        """How much longer it takes than usual, by bad luck or by a fault."""
        delay_ns = int(self.spike_ns * self.random()) if u < SPIKE else 0
        if self.slow_ns or self.jitter_ns:
            self.slowed += 1
            delay_ns += self.slow_ns
            if self.jitter_ns:
                delay_ns += int(self.jitter_ns * self.random())
        return delay_ns


class Disturbance(Protocol):
    """A fault that loses frames of single connections."""

    def swallows(self, source: str, target: str, frame: object) -> bool: ...


class Listener:
    """An open port of a node."""

    def __init__(self, network: Network, place: tuple[str, int], loop: NodeLoop) -> None:
        self._network = network
        self._place = place
        self.loop = loop

    def close(self) -> None:
        """Nobody connects here any more."""
        self._network.deaf(self._place)


class Network:
    """All nodes' addresses, links and open connections."""

    def __init__(self, engine: Engine, seed: int, weather: Weather, number: int = 0) -> None:
        self.engine = engine
        self.weather = weather
        self._seed = seed
        self._number = (number,) if number else ()
        self._names: dict[str, str] = {}
        self._servers: dict[str, None] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._listening: dict[tuple[str, int], tuple[Listener, Callable[[], Any]]] = {}
        self.ends: dict[str, dict[End, None]] = {}
        self.disturbances: list[Disturbance] = []
        """what swallows frames between a client and its servers, while it lasts"""
        self.delayed_ns = 0
        """the last time at which a frame arrived, or may arrive, that a fault had delayed"""
        self._routes: dict[tuple[str, str], tuple[int, End]] = {}

    def place(self, node: str, address: str, *, server: bool) -> None:
        """A node has an address."""
        self._names[address] = node
        self.ends[node] = {}
        if server:
            self._servers[node] = None

    def serves(self, node: str) -> bool:
        """Whether the node is a lock server."""
        return node in self._servers

    def settled_ns(self) -> int:
        """Since when each server has a connection to each other, with no frame held up on any; -1:
        that is not so now."""
        pairs = [(one, other) for one in self._servers for other in self._servers if one != other]
        routes = [self._routes[pair] for pair in pairs if pair in self._routes]
        if not pairs or len(routes) < len(pairs) or not all(end.passes for _, end in routes):
            return -1
        return max(self.delayed_ns, *(opened_ns for opened_ns, _ in routes))

    def disturbed(self, source: str, target: str, frame: Any) -> bool:
        """Whether a fault swallows this frame, after which its connection is reset."""
        return any(fault.swallows(source, target, frame) for fault in self.disturbances)

    def name(self, address: str) -> str:
        """Whose address it is."""
        return self._names[address]

    def link(self, source: str, target: str) -> Link:
        """The link from one node to another."""
        link = self._links.get((source, target))
        if link is None:
            both = source in self._servers and target in self._servers
            rng = stream(self._seed, "link", source, target, *self._number)
            link = Link(rng, self.weather, self.weather.loose and both)
            self._links[source, target] = link
        return link

    # Opening connections

    def listen(
        self, loop: NodeLoop, address: str, port: int, factory: Callable[[], Any]
    ) -> Listener:
        """Opens a port; OSError where it is open already."""
        place = (address, port)
        if place in self._listening:
            raise OSError(f"{address}:{port} is in use")
        listener = Listener(self, place, loop)
        self._listening[place] = (listener, factory)
        return listener

    def deaf(self, place: tuple[str, int]) -> None:
        """Closes a port."""
        self._listening.pop(place, None)

    async def connect(
        self, loop: NodeLoop, factory: Callable[[], Any], address: str, port: int
    ) -> tuple[Any, Any]:
        """A connection; waits through cuts for ever, ConnectionRefusedError if nobody listens."""
        opened = loop.create_future()
        there, back = self._way(loop.node, address)

        def knock() -> None:
            if opened.done():
                return
            cut = there if there.cuts else back
            if cut.cuts:
                cut.dropped += 1
                self._later(SYN_RETRY_NS, loop, knock)
                return
            entry = self._listening.get((address, port))
            if entry is None:
                self._later(back.delay_ns(), loop, refuse)
                return
            self._accept(loop, entry, (there, back), opened, factory)

        def refuse() -> None:
            if not opened.done():
                opened.set_exception(ConnectionRefusedError(f"nobody listens on port {port}"))

        self._later(there.delay_ns(), loop, knock)
        made: tuple[Any, Any] = await opened
        return made

    def _accept(
        self,
        loop: NodeLoop,
        entry: tuple[Listener, Callable[[], Any]],
        way: tuple[Link, Link],
        opened: Any,
        factory: Callable[[], Any],
    ) -> None:
        listener, answering = entry
        ours, theirs = pair(self, (loop, listener.loop), way)

        def connected() -> None:
            if opened.done():
                ours.abort()
                return
            protocol = factory()
            ours.begin(protocol)
            nodes = loop.node, listener.loop.node
            if self.serves(nodes[0]) and self.serves(nodes[1]):
                self._routes[nodes] = self.engine.now_ns, ours
            opened.set_result((ours, protocol))

        listener.loop.call_soon(lambda: theirs.begin(answering()))
        self._later(way[1].delay_ns(), loop, connected)

    def _way(self, node: str, address: str) -> tuple[Link, Link]:
        other = self._names[address]
        return self.link(node, other), self.link(other, node)

    def _later(self, wait_ns: int, loop: NodeLoop, act: Callable[[], None]) -> None:
        self.engine.at(self.engine.now_ns + wait_ns, Handle(loop, act, ()))

    # The end of a node's process

    def crash(self, node: str) -> None:
        """The process of a node is gone: its ports close, its connections are reset."""
        for place in [p for p, (_, _) in self._listening.items() if self._names[p[0]] == node]:
            self.deaf(place)
        for end in list(self.ends[node]):
            end.vanish()
