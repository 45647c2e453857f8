"""The engine: true time, one heap of what is due, one queue of what is ready.

Nothing here is random and nothing waits: time jumps from one event to the next. Callbacks run in
the order in which they became ready, as asyncio does it; chance comes in through latencies only.
"""

from __future__ import annotations

import gc
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.loop import NodeLoop

START_NS = 1_000_000_000_000
"""True time at the beginning: not 0, which is how a history writes "never"."""


class Handle:
    """One callback to come. Cancelled, or of a dead loop, it is passed over without a trace.

    Contexts are not entered: nothing that runs in the simulator has context variables.
    """

    __slots__ = ("args", "callback", "dead", "loop", "when_s")

    def __init__(
        self,
        loop: NodeLoop | World,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        when_s: float = 0.0,
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.when_s = when_s
        self.dead = False

    def cancel(self) -> None:
        """It will not run."""
        self.dead = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.dead

    def when(self) -> float:
        """When a timer is due, on its loop's clock."""
        return self.when_s


class World:
    """Stands for a loop where something happens to a node, not in it: nobody stops the world."""

    dead = False
    stopped = 0

    def park(self, handle: Handle) -> None:
        """Never asked."""
        raise AssertionError("nobody stops the world")


class Engine:
    """Runs all loops of one simulated run. `events` counts callbacks that ran."""

    def __init__(self) -> None:
        self._world = World()
        self.now_ns = START_NS
        self.events = 0
        self._serial = 0
        self._heap: list[tuple[int, int, Handle]] = []
        self._ready: deque[Handle] = deque()

    def now(self) -> int:
        """True time, ns: the clock of the run."""
        return self.now_ns

    def soon(self, handle: Handle) -> None:
        """Run it at this instant, after what is ready already."""
        self._ready.append(handle)

    def at(self, t_ns: int, handle: Handle) -> None:
        """Run it at a time, or now if that has passed; together means in the order of asking."""
        self._serial += 1
        heapq.heappush(self._heap, (t_ns, self._serial, handle))

    def later(self, wait_ns: int, act: Callable[[], None]) -> None:
        """Do something to a node after a while, whatever state it is in."""
        self.at(self.now_ns + wait_ns, Handle(self._world, act, ()))

    def run(self, done: Callable[[], bool], until_ns: int) -> bool:
        """Let time pass until `done`, asked after each instant; False if `until_ns` came first."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            while not done():
                if not self._ready and not self._advance(until_ns):
                    return False
                self._drain()
            return True
        finally:
            events._set_running_loop(None)
            if collecting:
                gc.enable()

    def _advance(self, until_ns: int) -> bool:
        """Jump to the next instant at which something living is due."""
        heap, ready = self._heap, self._ready
        while heap:
            t_ns, _, handle = heap[0]
            if handle.dead:
                heapq.heappop(heap)
                continue
            if t_ns > until_ns:
                break
            if t_ns > self.now_ns:
                self.now_ns = t_ns
            while heap and heap[0][0] <= t_ns:
                ready.append(heapq.heappop(heap)[2])
            return True
        self.now_ns = max(self.now_ns, until_ns)
        return False

    def _drain(self) -> None:
        ready = self._ready
        running = None
        set_running: Callable[[Any], None] = events._set_running_loop
        while ready:
            handle = ready.popleft()
            loop = handle.loop
            if handle.dead or loop.dead:
                continue
            if loop.stopped:
                loop.park(handle)
                continue
            if loop is not running:
                running = loop
                set_running(None)
                set_running(loop)
            self.events += 1
            handle.callback(*handle.args)
