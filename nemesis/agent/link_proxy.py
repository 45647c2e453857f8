"""Network cuts for nodes without own networks: one TCP forwarder per directed link.

A client on `src` reaches `dst` by an address that this process listens on. While one direction of a
link is cut, its data is held back, in order, and continues after the heal, like TCP
retransmissions; a new connection, which needs both directions, is accepted and then hangs. (With a
real cut the connect itself hangs; without a listening server it is refused, and here it is closed
after REFUSED_S; and a cut does not stop the acknowledgements of the other direction, so a one-way
cut slows the other direction later than on a network.)
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence

from holdfast.nemesis.agent.request_errors import Refused

Way = tuple[str, str]
"""(receiving node, sending node)"""

CHUNK_BYTES = 65536
BOUND_S = 2.0
REFUSED_S = 0.2
"""Time until a connection to a missing server is closed."""


class Proxies:
    """All forwarders of this agent, on an event loop in its own thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: set[Way] = set()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._stopped: dict[Way, asyncio.Event] = {}
        self.held: Counter[Way] = Counter()

    def add(self, src: str, dst: str, listen: str, to: str, ports: Sequence[int]) -> None:
        """Forwards listen:port to to:port for each port. Errors: Refused."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        for port in ports:
            try:
                self._call(self._serve(src, dst, listen, to, port))
            except OSError as error:
                raise Refused(f"proxy {src} to {dst}: {listen}:{port}: {error.strerror}") from error
        self._links.add((dst, src))

    def gate(self, node: str, names: Mapping[str, str]) -> Gate | None:
        """The packet filter of a node with links; `names` by address."""
        return Gate(self, node, names) if any(node in way for way in self._links) else None

    def joins(self, way: Way) -> bool:
        """Whether a link carries this direction, as requests or as replies."""
        return way in self._links or way[::-1] in self._links

    def stopped(self, way: Way) -> bool:
        """Whether this direction is cut now."""
        return way in self._stopped

    def stop(self, ways: Iterable[Way]) -> None:
        """Cuts these directions."""
        self._call(self._change(list(ways), []))

    def open(self, ways: Iterable[Way]) -> None:
        """Restores these directions; forwards the data held back."""
        self._call(self._change([], list(ways)))

    def _call(self, work: Coroutine[object, None, None]) -> None:
        assert self._loop is not None, "a link is added before it is stopped"
        asyncio.run_coroutine_threadsafe(work, self._loop).result(BOUND_S)

    async def _change(self, stop: list[Way], open_: list[Way]) -> None:
        for way in stop:
            self._stopped[way] = asyncio.Event()
            self.held[way] = 0
        for way in open_:
            self._stopped.pop(way).set()

    async def _serve(self, src: str, dst: str, listen: str, to: str, port: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await self._join(reader, writer, (dst, src), to, port)
            finally:
                self._connections.discard(task)
                writer.transport.abort()

        self._servers.append(await asyncio.start_server(accept, listen, port))

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Way,
        to: str,
        port: int,
    ) -> None:
        for direction in (way, way[::-1]):
            await self._pass(direction)
        try:
            far_reader, far_writer = await asyncio.open_connection(to, port)
        except OSError:
            # A network refuses the connect, and clients then wait before they try again. Ours was
            # accepted long ago: ended at once, it would be made anew a thousand times a second, by
            # everybody, and leave no time for anything else.
            await asyncio.sleep(REFUSED_S)
            return
        there = asyncio.create_task(self._pump(reader, far_writer, way))
        back = asyncio.create_task(self._pump(far_reader, writer, way[::-1]))
        await asyncio.wait((there, back))

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        """Forwards one direction to its end; an end or a reset is held back like data."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self._pass(way)
                writer.write(data)
                await writer.drain()
            await self._pass(way)
            writer.write_eof()
        except OSError:
            await self._pass(way)
            writer.transport.abort()

    async def _pass(self, way: Way) -> None:
        while way in self._stopped:
            self.held[way] += 1
            await self._stopped[way].wait()


class Gate:
    """The packet filter of one node behind proxies; maps addresses to names."""

    def __init__(self, proxies: Proxies, node: str, names: Mapping[str, str]) -> None:
        self._proxies = proxies
        self._node = node
        self._names = names

    @property
    def dropping(self) -> set[str]:
        """Source addresses that are dropped now."""
        return {
            address
            for address, name in self._names.items()
            if self._proxies.stopped((self._node, name))
        }

    def drop(self, sources: Iterable[str]) -> None:
        """Cuts these directions. Errors: Refused if one has no proxy."""
        ways = [self._way(source) for source in sources]
        if ways:
            self._proxies.stop(ways)

    def admit(self, sources: Iterable[str]) -> None:
        """Restores these directions."""
        ways = [self._way(source) for source in sources]
        if ways:
            self._proxies.open(ways)

    def counts(self) -> dict[str, int]:
        """Source address -> number of pieces and connections held back since it was cut."""
        return {
            source: self._proxies.held[self._node, self._names[source]] for source in self.dropping
        }

    def _way(self, source: str) -> Way:
        way = (self._node, self._names.get(source, source))
        if not self._proxies.joins(way):
            raise Refused(f"cut: no proxy for traffic from {source} to {self._node}")
        return way
