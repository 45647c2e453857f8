"""Packets of one node that wait in a queue of the kernel until this process lets them through.

For what nft rules cannot do: delay, reordering, bandwidth. If this process dies, the kernel lets
packets pass (`bypass`); what waits at that moment is lost, as on a network, and sent again.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from holdfast.nemesis.agent.links import netlink, rules
from holdfast.nemesis.agent.nft import LINK_TABLE, Namespace, NetworkFailed

SECOND_NS = 1_000_000_000
BOUND_S = 2.0


class Discipline(Protocol):
    """Decides when each packet leaves."""

    def due_ns(self, now_ns: int, source: str, size: int) -> int: ...


class Delay:
    """Each packet leaves later by `by_ns`, and by up to `jitter_ns` more; none overtakes another
    one of the same source."""

    def __init__(self, how: rules.Settings, rng: random.Random) -> None:
        self._by_ns = how.by_ns
        self._jitter_ns = how.jitter_ns
        self._rng = rng
        self._last: dict[str, int] = {}

    def due_ns(self, now_ns: int, source: str, size: int) -> int:
        """When it leaves."""
        due_ns = now_ns + self._by_ns + int(self._jitter_ns * self._rng.random())
        self._last[source] = max(due_ns, self._last.get(source, 0))
        return self._last[source]


class Reorder:
    """A share of the packets leaves later by `by_ns`; those behind them overtake them."""

    def __init__(self, how: rules.Settings, rng: random.Random) -> None:
        self._share = how.share_ppm / rules.ALL_PPM
        self._by_ns = how.by_ns
        self._rng = rng

    def due_ns(self, now_ns: int, source: str, size: int) -> int:
        """When it leaves."""
        return now_ns + (self._by_ns if self._rng.random() < self._share else 0)


class Bandwidth:
    """The packets of a source leave one after the other, `rate` bits in a second.

    Without a burst, so that the exchanges of lock clients, which are short, are slowed too.
    """

    def __init__(self, how: rules.Settings, rng: random.Random) -> None:
        self._rate = how.rate
        self._free: dict[str, int] = {}

    def due_ns(self, now_ns: int, source: str, size: int) -> int:
        """When the last bit of it has left."""
        begin_ns = max(now_ns, self._free.get(source, 0))
        self._free[source] = begin_ns + size * 8 * SECOND_NS // self._rate
        return self._free[source]


DISCIPLINES: Mapping[str, Callable[[rules.Settings, random.Random], Discipline]] = {
    "delay": Delay,
    "reorder": Reorder,
    "bandwidth": Bandwidth,
}
"""Act -> what decides when each packet leaves."""


class PacketQueue:
    """A queue in the network of one node, read by a thread of its own until it is closed.

    counts      source -> packets that waited; for `overtaking`, those that others overtook
    longest_ns  the longest that one has to wait
    """

    def __init__(
        self, network: Namespace, number: int, discipline: Discipline, *, overtaking: bool
    ) -> None:
        """Errors: NetworkFailed."""
        self.counts: Counter[str] = Counter()
        self.longest_ns = 0
        self._number = number
        self._discipline = discipline
        self._overtaking = overtaking
        self._waiting: list[tuple[int, int, str]] = []
        self._overtaken: set[int] = set()
        with network.inside():
            self._socket = netlink.opened()
        try:
            netlink.bind_queue(self._socket, number)
        except NetworkFailed:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._wake, self._wakes = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def fill(self, network: Namespace, chain: str, source: str) -> None:
        """Adds the rule that sends packets from an address here. Errors: NetworkFailed."""
        self.counts[source] = 0
        try:
            network.run(
                f"add rule ip {LINK_TABLE} {chain} ip saddr {source} counter"
                f" queue flags bypass to {self._number}"
            )
        except NetworkFailed:
            # A kernel without NFT_QUEUE has the target of xtables, as a rule of nftables.
            made = netlink.queue_rule(LINK_TABLE, chain, source, self._number)
            with network.inside():
                netlink.add_rule(made)

    def close(self) -> None:
        """Lets every packet through that waits. Its rule must be gone by now."""
        os.write(self._wakes, b"x")
        self._thread.join(BOUND_S)
        self._socket.close()
        os.close(self._wake)
        os.close(self._wakes)

    def _serve(self) -> None:
        while True:
            until_s = None
            if self._waiting:
                until_s = max(0.0, (self._waiting[0][0] - time.monotonic_ns()) / SECOND_NS)
            ready, _, _ = select.select([self._socket.fileno(), self._wake], [], [], until_s)
            self._read()
            if self._wake in ready:
                self._release(None)
                return
            self._release(time.monotonic_ns())

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while True:
                data = self._socket.recv(65536)
                now_ns = time.monotonic_ns()
                for kind, body in netlink.messages(data):
                    if kind == netlink.PACKET:
                        self._take(now_ns, *netlink.packet(body))

    def _take(self, now_ns: int, packet: int, source: str, size: int) -> None:
        due_ns = self._discipline.due_ns(now_ns, source, size)
        self.longest_ns = max(self.longest_ns, due_ns - now_ns)
        if due_ns > now_ns:
            heapq.heappush(self._waiting, (due_ns, packet, source))
            if not self._overtaking:
                self.counts[source] += 1
            return
        if self._overtaking:
            behind = {one for _, one, whose in self._waiting if whose == source} - self._overtaken
            self._overtaken |= behind
            self.counts[source] += len(behind)
        self._accept(packet)

    def _release(self, now_ns: int | None) -> None:
        while self._waiting and (now_ns is None or self._waiting[0][0] <= now_ns):
            _, packet, _ = heapq.heappop(self._waiting)
            self._overtaken.discard(packet)
            self._accept(packet)

    def _accept(self, packet: int) -> None:
        with suppress(OSError):
            self._socket.send(netlink.accepted(self._number, packet))
