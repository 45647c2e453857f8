"""Cuts where nodes have no network of their own: one TCP forwarder per directed link.

A client on `src` reaches `dst` under an address that this process listens on. While one way of a
link is stopped, what comes that way is held back, in order, and goes on after the heal, as TCP
would send it again; a new connection, which needs both ways, is accepted and then hangs. (Under a
real cut the connect itself hangs; where no server listens it is refused, and here it is ended after
REFUSED_S; and a stopped way does not stop the acknowledgements of the other, so a one-way cut slows
the other way later than on a network.)
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from holdfast.nemesis.agent.request_errors import Refused

Way = tuple[str, str]
"""(node that hears, node that speaks)"""

CHUNK_BYTES = 65536
BOUND_S = 2.0
REFUSED_S = 0.2
"""How long a connection to a server that is not there stays open."""


class Proxies:
    """All forwarders of this agent, on an event loop in a thread of its own."""

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
        """The door of a node at which a link begins or ends; `names` by address."""
        return Gate(self, node, names) if any(node in way for way in self._links) else None

    def joins(self, way: Way) -> bool:
        """Whether a link carries this way, as requests or as replies."""
        return way in self._links or way[::-1] in self._links

    def stopped(self, way: Way) -> bool:
        """Whether this way is held back now."""
        return way in self._stopped

    def stop(self, ways: Iterable[Way]) -> None:
        """Holds back what comes these ways from now on."""
        self._call(self._change(list(ways), []))

    def open(self, ways: Iterable[Way]) -> None:
        """Lets go of what was held back, and of what follows."""
        self._call(self._change([], list(ways)))

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
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
        """Carries one direction to its end; an end or a reset is news too and is held back."""
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
    """The door of one node in a world of proxies; it knows the names behind addresses."""

    def __init__(self, proxies: Proxies, node: str, names: Mapping[str, str]) -> None:
        self._proxies = proxies
        self._node = node
        self._names = names

    @property
    def dropping(self) -> set[str]:
        """Addresses that the node does not hear from now."""
        return {
            address
            for address, name in self._names.items()
            if self._proxies.stopped((self._node, name))
        }

    def drop(self, sources: Iterable[str]) -> None:
        """Stops these ways. Errors: Refused where no proxy carries one."""
        ways = [self._way(source) for source in sources]
        if ways:
            self._proxies.stop(ways)

    def admit(self, sources: Iterable[str]) -> None:
        """Opens these ways again."""
        ways = [self._way(source) for source in sources]
        if ways:
            self._proxies.open(ways)

    def counts(self) -> dict[str, int]:
        """Source address -> pieces and connections held back since it was dropped."""
        return {
            source: self._proxies.held[self._node, self._names[source]] for source in self.dropping
        }

    def _way(self, source: str) -> Way:
        way = (self._node, self._names.get(source, source))
        if not self._proxies.joins(way):
            raise Refused(f"cut: no proxy carries what {source} sends to {self._node}")
        return way
