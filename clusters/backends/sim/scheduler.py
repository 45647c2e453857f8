"""The engine: true time, one heap of what is due, one queue of what is ready.

Nothing here is random and nothing waits: time jumps from one event to the next. Callbacks run in
the order in which they became ready, as asyncio does it; chance comes in through latencies only.
"""

from __future__ import annotations

import gc
import itertools
from asyncio import events
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from holdfast.harness.core.errors import EnvironmentFailed

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.connection import End
    from holdfast.clusters.backends.sim.event_loop import NodeLoop

START_NS = 1_000_000_000_000
"""True time at the beginning: not 0, which is how a history writes "never"."""


MOST_EVENTS = 20_000_000
"""A run that needs more is one that does not end."""
MOST_WAITING = 50_000
"""So does one in which more than this is to come at once: something breeds, as the messages of a
broken consensus where each is answered and now and then doubled. Fifty clients need 640 at most."""


DRAIN = 5_000
"""Events between two looks at how many there were in all: about 0.1 s of CPU."""


class Handle:
    """One callback to come. Cancelled, or of a dead loop, it is passed over without a trace.

    Contexts are not entered: nothing that runs in the simulator has context variables.
    """

    __slots__ = ("args", "callback", "dead", "loop", "when_s")

    def __init__(
        self,
        loop: NodeLoop | WorldLoop,
        callback: Callable[..., object],
        args: tuple[object, ...],
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


class WorldLoop:
    """Stands for a loop where something happens to a node, not in it: nobody stops the world."""

    dead = False
    stopped = 0

    def park(self, handle: Handle) -> None:
        """Never asked."""
        raise AssertionError("only an explicit stop ends the world")


class Engine:
    """Runs all loops of one simulated run.

    now_ns   true time, the clock of the run
    events   callbacks that ran
    ready    what is ready, in order; whoever makes something ready appends to it
    heap     what is due: (true time, number, what, None), or with the end that sent it in place of
             "what" and a frame that arrives: most of what is due, and too much for a Handle each
    number   the next number: what is due together comes in the order of asking
    crowded  several things arrive in the callback that runs now
    over     set by `end`: the run stops after this instant
    """

    def __init__(self) -> None:
        self._world = WorldLoop()
        self.now_ns = START_NS
        self.events = 0
        self.ready: deque[Handle] = deque()
        self.crowded = False
        self.over = False
        self.number = itertools.count(1).__next__
        self.heap: list[tuple[int, int, Any, Any]] = []

    def now(self) -> int:
        """True time, ns: the clock of the run."""
        return self.now_ns

    def end(self) -> None:
        """Stop after this instant."""
        self.over = True

    def next(self, act: Callable[[], None]) -> None:
        """Do something before all that is ready; a signal handler may ask for it."""
        self.ready.appendleft(Handle(self._world, act, ()))

    def at(self, t_ns: int, handle: Handle) -> None:
        """Run it at a time, or now if that has passed; together means in the order of asking."""
        heappush(self.heap, (t_ns, self.number(), handle, None))

    def move(self, loop: NodeLoop, due_ns: Callable[[Handle], int]) -> None:
        """The timers of a loop are due at other times, together still in the order of asking."""
        for place, (t_ns, number, what, frame) in enumerate(self.heap):
            if frame is None and what.loop is loop and what.when_s:
                self.heap[place] = (max(t_ns, due_ns(what)), number, what, frame)
        heapify(self.heap)

    def later(self, wait_ns: int, act: Callable[..., None], *args: Any) -> None:
        """Do something to a node after a while, whatever state it is in."""
        handle = Handle(self._world, act, args)
        heappush(self.heap, (self.now_ns + wait_ns, self.number(), handle, None))

    def run(self, until_ns: int, look: Callable[[], None] = lambda: None) -> bool:
        """Let time pass until the `end`; False if `until_ns` came first. `look` is called now and
        then, between two events; it must not change anything."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            # What is ready at the end belongs to that instant, also where a drain stopped amid it.
            while not self.over or self.ready:
                if not self.ready and not self._advance(until_ns):
                    return False
                self._drain(until_ns)
                look()
                if self.events > MOST_EVENTS or len(self.heap) > MOST_WAITING:
                    raise EnvironmentFailed(
                        f"simulator: {self.events} events, {len(self.heap)} pending, no end;"
                        " a loop without progress in virtual time?"
                    )
            return True
        finally:
            events._set_running_loop(None)
            if collecting:
                gc.enable()

    def _advance(self, until_ns: int) -> bool:
        """Jump to the next instant at which something living is due."""
        heap = self.heap
        while heap and heap[0][2].dead:
            heappop(heap)
        if not heap or heap[0][0] > until_ns:
            self.now_ns = max(self.now_ns, until_ns)
            return False
        self.now_ns = max(self.now_ns, heap[0][0])
        self._gather(heap[0][0])
        return True

    def _gather(self, t_ns: int) -> None:
        """All that is due by then is ready, in order."""
        heap = self.heap
        while heap and heap[0][0] <= t_ns:
            _, _, what, frame = heappop(heap)
            self.ready.append(what if frame is None else _arrival(what, frame))

    def _drain(self, until_ns: int) -> None:
        """Runs what is ready, and goes on to later instants for a while: the loop of all loops."""
        ready, heap, running = self.ready, self.heap, None
        what: Any
        set_running: Callable[[Any], None] = events._set_running_loop
        for _ in range(DRAIN):
            if ready:
                what, frame = ready.popleft(), None
                if what.dead:
                    continue
            elif heap and not self.over:
                # As `_advance`, for the usual case: one thing is due, and nothing beside it.
                t_ns, number, what, frame = heappop(heap)
                if what.dead:
                    continue
                if t_ns > self.now_ns:
                    if t_ns > until_ns:
                        heappush(heap, (t_ns, number, what, frame))
                        break
                    self.now_ns = t_ns
                if heap and heap[0][0] <= t_ns:
                    self._gather(t_ns)
            else:
                break
            loop = what.loop if frame is None else what.target
            if loop.stopped:
                if not loop.dead:
                    loop.park(what if frame is None else _arrival(what, frame))
                continue
            if loop is not running:
                running = loop
                set_running(loop)
            self.events += 1
            if frame is None:
                what.callback(*what.args)
            else:
                what.arrive(frame)


def _arrival(end: End, frame: object) -> Handle:
    """A frame that cannot be taken in where it comes out of the heap."""
    return Handle(end.target, end.arrive, (frame,))
