"""A connection of the simulated network: two ends that hand frames to each other."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import TYPE_CHECKING, Any

from holdfast.clusters.backends.sim.scheduler import Handle
from holdfast.harness.core.clock import MILLISECOND, SECOND

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.event_loop import NodeLoop
    from holdfast.clusters.backends.sim.network import Link, Network

RETRANSMIT_NS = 200 * MILLISECOND
STALL_NS = SECOND
KEEPALIVE_NS = 5 * SECOND
SPIKE = 1 / 200
"""the share of the frames that take much longer than others"""


def pair(
    network: Network, loops: tuple[NodeLoop, NodeLoop], way: tuple[Link, Link]
) -> tuple[End, End]:
    """The two ends of a new connection. way: the links from the first to the second, and back."""
    there, back = way
    ours = End(network, loops[0], there, back)
    theirs = End(network, loops[1], back, there)
    ours.peer, theirs.peer = theirs, ours
    ours.target, theirs.target = loops[1], loops[0]
    network.ends[loops[0].node][ours] = None
    network.ends[loops[1].node][theirs] = None
    return ours, theirs


class End:
    """One end: what a protocol knows as its transport. dead: as a handle has it, never."""

    dead = False
    __slots__ = (
        "_back",
        "_closed",
        "_engine",
        "_last_ns",
        "_link",
        "_marshal",
        "_network",
        "_opened",
        "_protocol",
        "_retry_ns",
        "_special",
        "_stalled",
        "_waiting",
        "loop",
        "peer",
        "receive",
        "target",
    )

    def __init__(self, network: Network, loop: NodeLoop, link: Link, back: Link) -> None:
        self.loop = loop
        self.peer: End
        self.target: NodeLoop
        self._network = network
        self._engine = network.engine
        self._marshal = network.weather.marshal
        self._special = self._marshal or link.loose
        self._link = link
        self._back = back
        self._protocol: Any = None
        self.receive: Callable[[Any], None]
        self._closed = False
        self._last_ns = 0
        self._opened = False
        self._waiting: deque[Any] = deque()
        self._retry_ns = 0
        self._stalled = False

    # What a protocol may ask of its transport

    def begin(self, protocol: Any) -> None:
        """The connection is made, as far as this end knows."""
        self._protocol = protocol
        # A protocol of bytes gets each write as one piece, as TCP may hand it over.
        framed = getattr(protocol, "frame_received", None)
        self.receive = protocol.data_received if framed is None else framed
        protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """ "frames": how to send a whole frame; "objects": it may hold any value; "peername"."""
        if name == "frames":
            return self.send
        if name == "objects":
            return not self._marshal
        return self.peer.loop.node if name == "peername" else default

    def is_closing(self) -> bool:
        """Whether it can no longer send."""
        return self._closed

    @property
    def link(self) -> Link:
        """What its frames travel on."""
        return self._link

    @property
    def disturbed(self) -> bool:
        """Whether a fault swallows frames now, here or on another connection."""
        return bool(self._network.disturbances)

    @property
    def waiting(self) -> Sequence[object]:
        """Frames that a cut holds up, in order."""
        return self._waiting

    @property
    def passes(self) -> bool:
        """Whether the other end gets what is sent now: both are open, and nothing is held up."""
        return not (self._closed or self.peer._closed or self._waiting or self._link.cuts)

    def get_write_buffer_size(self) -> int:
        """Nothing is ever queued here."""
        return 0

    def abort(self) -> None:
        """Ends it here at once, there when that gets through."""
        if not self._closed:
            self._end(None)
            self._tell_peer()

    close = abort

    def send(self, frame: Any) -> bool:
        """One frame on its way; held back where its node is stopped in the middle of a send.

        False where this end can no longer send.
        """
        if self._closed:
            return False
        if self.loop.held is not None:
            self.loop.hold(self, frame)
        elif self._special:
            self.transmit(frame)
        else:
            # As `transmit`, for the usual case: the commonest act of all.
            engine, link = self._engine, self._link
            u = link.random()
            arrival_ns = engine.now_ns + link.fast_ns + int(link.span_ns * u * u * u)
            if u < SPIKE or link.slow_ns or link.jitter_ns:
                arrival_ns += link.more_ns(u)
            if arrival_ns < self._last_ns:
                arrival_ns = self._last_ns
            else:
                self._last_ns = arrival_ns
            heappush(engine.heap, (arrival_ns, engine.number(), self, frame))
        return True

    def write(self, data: bytes) -> None:
        """Bytes on their way, as one frame."""
        self.send(bytes(data))

    # On the way

    def transmit(self, frame: Any) -> None:
        """Puts a frame on the link."""
        if self._closed:
            return
        engine, link = self._engine, self._link
        if self._marshal and not isinstance(frame, bytes):
            frame = json.loads(json.dumps(frame))
        arrival_ns = engine.now_ns + link.delay_ns()
        if link.loose and self._opened:
            chance, weather = link.random(), self._network.weather
            if chance < weather.loss:
                return
            if chance > 1 - weather.double:
                twice_ns = arrival_ns + link.delay_ns()
                heappush(engine.heap, (twice_ns, engine.number(), self, frame))
        elif arrival_ns < self._last_ns:
            arrival_ns = self._last_ns
        else:
            self._last_ns = arrival_ns
        # The first frame says who opened the connection: it is as sure as the opening itself.
        self._opened = True
        heappush(engine.heap, (arrival_ns, engine.number(), self, frame))

    def arrive(self, frame: Any) -> None:
        """A frame gets there: runs on the other node's loop."""
        peer = self.peer
        if self._link.cuts:
            self._link.dropped += 1
            if not self._link.loose:
                self._block(frame)
        elif self._waiting:
            self._waiting.append(frame)
        elif not peer._closed:
            network = self._network
            if network.disturbances and network.disturbed(self.loop.node, peer.loop.node, frame):
                self.lose()
                return
            peer.receive(frame)
            if self._back.cuts:
                self._back.dropped += 1
                self._stall()
        elif not self._closed:
            peer._tell_peer()

    def lose(self) -> None:
        """A frame is lost on its way: a link between servers may lose one, any other connection is
        reset, for a stream with a gap delivers nothing more."""
        peer = self.peer
        if not self._link.loose and not peer._closed:
            peer._end(ConnectionResetError("reset on the way"))
            peer._tell_peer()

    def _block(self, frame: Any) -> None:
        self._waiting.append(frame)
        if len(self._waiting) == 1:
            self._retry_ns = RETRANSMIT_NS
            self._retry_later()
            self._stall()

    def _retry_later(self) -> None:
        at_ns = self._engine.now_ns + self._retry_ns
        self._engine.at(at_ns, Handle(self.peer.loop, self.retry, ()))
        self._retry_ns *= 2

    def retry(self) -> None:
        if self._closed:
            return
        if self._link.cuts:
            self._link.dropped += 1
            self._retry_later()
            return
        waiting, self._waiting = self._waiting, deque()
        self._network.delayed_ns = max(self._network.delayed_ns, self._engine.now_ns)
        self._engine.crowded = True
        for frame in waiting:
            self.arrive(frame)
        self._engine.crowded = False

    def _stall(self) -> None:
        """Something is unacknowledged: in a second this end gives up, if the cut is still there."""
        if not self._stalled:
            self._stalled = True
            self._engine.at(self._engine.now_ns + STALL_NS, Handle(self.loop, self._stall_over, ()))

    def _stall_over(self) -> None:
        self._stalled = False
        if not self._closed and (self._link.cuts or self._back.cuts):
            self._end(TimeoutError("not acknowledged in time"))
            self._tell_peer()

    # The end

    def vanish(self) -> None:
        """This end's process is gone; its protocol learns nothing."""
        if not self._closed:
            self._closed = True
            self._forget()
            self._tell_peer()

    def _end(self, error: Exception | None) -> None:
        self._closed = True
        self._forget()
        if self._protocol is not None:
            self.loop.call_soon(self._protocol.connection_lost, error)

    def _forget(self) -> None:
        self._network.ends[self.loop.node].pop(self, None)

    def _tell_peer(self, since_ns: int = 0) -> None:
        """The other end gets a reset, as soon as one gets through, or its keepalive fails."""
        peer = self.peer
        if peer._closed:
            return
        now_ns = self._engine.now_ns
        since_ns = since_ns or now_ns
        at_ns = max(self._last_ns, now_ns + self._link.delay_ns())

        def reset() -> None:
            if peer._closed:
                return
            cut = self._link.cuts or self._back.cuts
            if cut and self._engine.now_ns - since_ns < KEEPALIVE_NS:
                again_ns = self._engine.now_ns + STALL_NS // 2
                self._engine.at(again_ns, Handle(peer.loop, reset, ()))
                return
            peer._end(ConnectionResetError("reset by the other end"))

        self._engine.at(at_ns, Handle(peer.loop, reset, ()))
