"""One event loop per boot of a node: stock asyncio tasks run on it and know whose they are.

Its `time()` is the node's own monotonic clock, with its offset and its drift. A stopped loop parks
what becomes ready and goes on with it in the order of arrival; a dead one never runs again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.clusters.backends.sim.network import Listener, Network
from holdfast.clusters.backends.sim.node_clock import MILLION, NodeClock
from holdfast.clusters.backends.sim.scheduler import Engine, Handle
from holdfast.harness.core.json_value import Json

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.connection import End

T = TypeVar("T")
DEAD = 1 << 30


class NodeLoop:
    """What tasks, futures, timeouts and connections need of asyncio's AbstractEventLoop.

    node     whose loop it is
    stopped  by how many faults it stands still; a dead one by more than can ever end
    frozen   whether one of them stopped it in the middle of a send
    held     None, or what it has sent since it was to stop in the middle of a send
    failed   what was raised where nobody could catch it, one line each
    """

    def __init__(self, node: str, engine: Engine, clock: NodeClock, network: Network) -> None:
        self.node = node
        self.clock = clock
        self.stopped = 0
        self.frozen = False
        self._parked: deque[Handle] = deque()
        self._due: deque[Handle] = deque()
        self._suspended = self._suspended_ns = 0
        self.held: list[tuple[End, Any]] | None = None
        self.failed: list[str] = []
        self._armed = False
        self._peers: Collection[str] = ()
        self._engine = engine
        self._ready = engine.ready.append
        self._network = network

    @property
    def dead(self) -> bool:
        """Whether it will never run again."""
        return self.stopped >= DEAD

    @dead.setter
    def dead(self, dead: bool) -> None:
        assert dead, "nothing comes back to life"
        self.stopped |= DEAD

    # Time and callbacks

    def time(self) -> float:
        """The node's monotonic clock, s."""
        clock = self.clock
        return (self._engine.now_ns * clock.rate // MILLION + clock.offset_ns) / 1e9

    def mono_ns(self) -> int:
        """The node's monotonic clock, ns."""
        return self.clock.mono_ns(self._engine.now_ns)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """As asyncio."""
        handle = Handle(self, callback, args)
        self._ready(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_next(self, callback: Callable[[], object]) -> Handle | None:
        """As `call_soon`, for the last act of a callback; at once where it would be next anyway."""
        engine = self._engine
        if engine.ready or engine.crowded or self.stopped:
            return self.call_soon(callback)
        callback()
        return None

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        """As asyncio; `when` is on this node's clock."""
        handle = Handle(self, callback, args, when)
        # A timer never fires before its time, not even by the rounding of a float: who looks at
        # the clock, sees that it is too early and sleeps again would never get on.
        now_ns = self.mono_ns()
        due_ns = int(when * 1e9) + 1
        if due_ns <= now_ns < when * 1e9:
            due_ns = now_ns + 1
        self._engine.at(self.clock.true_ns(due_ns), handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Handle:
        """As asyncio; whole nanoseconds, and one more: a timer never fires before its time."""
        engine, clock = self._engine, self.clock
        due_ns = engine.now_ns * clock.rate // MILLION + clock.offset_ns + 1
        if delay > 0:
            due_ns += int(delay * 1e9)
        handle = Handle(self, callback, args, due_ns / 1e9)
        engine.at(clock.true_ns(due_ns), handle)
        return handle

    # Futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio."""
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(
        self,
        work: Coroutine[object, None, T],
        *,
        name: str = "task",
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        """As asyncio; names of tasks are not counted, for a count would outlive the run."""
        return asyncio.Task(work, loop=self, name=name, context=context)  # type: ignore[arg-type]

    def is_running(self) -> bool:
        """A task may be made whenever this loop is the running one."""
        return not self.dead

    def is_closed(self) -> bool:
        """A dead node's loop is closed."""
        return self.dead

    # Never: it would make tasks remember where they were made. Asked for each future there is, and
    # so answered by what is built in: bool() is False.
    get_debug = bool

    def call_exception_handler(self, context: dict[str, Json]) -> None:
        """Notes what nobody caught; what a crash tore up is no news."""
        error = context.get("exception")
        if not self.dead and error is not None:
            self.failed.append(f"{type(error).__name__}: {error}")

    # Standing still

    def park(self, handle: Handle) -> None:
        """Something is ready, or due, and has to wait until the node goes on."""
        (self._due if handle.when_s else self._parked).append(handle)

    def stop(self) -> None:
        """What becomes ready from now on waits, until it `goes` as often as it was stopped."""
        self.stopped += 1

    def go(self) -> None:
        """Goes on: first leaves what was held back in a send, then runs what became ready."""
        self.stopped -= 1
        if self.stopped:
            return
        held, self.held = self.held, [] if self._armed else None
        if held:
            for end, frame in held:
                end.transmit(frame)
        # As asyncio after a stop: what has come is looked at before what is due.
        while self._parked:
            self._ready(self._parked.popleft())
        while self._due:
            self._ready(self._due.popleft())

    def suspend(self) -> None:
        """Stops, and the node's monotonic clock with it, until it is `resumed` as often."""
        if not self._suspended:
            self._suspended_ns = self.mono_ns()
        self._suspended += 1
        self.stop()

    def resumed(self) -> int:
        """Ends one suspension; for how long the clock stood still, by the last of them, else 0."""
        self._suspended -= 1
        stood_ns = 0 if self._suspended else self.mono_ns() - self._suspended_ns
        if stood_ns:
            self.clock.stood_still(stood_ns)
            self._rearm()
        self.go()
        return stood_ns

    def _rearm(self) -> None:
        """Timers are due at their times on the clock, which come later now."""
        self._engine.move(self, self._due_ns)
        while self._due:
            handle = self._due.popleft()
            self._engine.at(self._due_ns(handle), handle)

    def _due_ns(self, handle: Handle) -> int:
        return self.clock.true_ns(int(handle.when_s * 1e9) + 1)

    def stall(self, for_ns: int, then: Callable[[], None]) -> None:
        """Stand still in the middle of this callback, as in a write to a disk."""
        if self.held is None:
            self.held = []
        self.stopped += 1
        self._engine.later(for_ns, self._stalled, then)

    def _stalled(self, then: Callable[[], None]) -> None:
        """The end of a stall."""
        if self.stopped < DEAD:
            then()
            self.go()

    def freeze(self, peers: Collection[str] = ()) -> None:
        """Stop in the middle of the next send, which leaves when the node goes on.

        peers   only a send to one of these nodes; empty: to any
        """
        self._armed, self._peers = True, peers
        if self.held is None:
            self.held = []

    def thaw(self) -> None:
        """Go on, or send as before where no send came."""
        armed, self._armed = self._armed, False
        if self.frozen:
            self.frozen = False
            self.go()
        elif armed and not self.stopped:
            self.held = None

    def hold(self, end: End, frame: Any) -> None:
        """A send in which the node stands still, or one after it in the same callback."""
        assert self.held is not None, "only a node that stands still holds back"
        if (
            self._armed
            and not self.stopped
            and self._peers
            and end.peer.loop.node not in self._peers
        ):
            end.transmit(frame)
            return
        self.held.append((end, frame))
        if self._armed:
            self._armed, self.frozen = False, True
            self.stop()

    # Connections

    async def create_server(
        self, factory: Callable[[], Any], host: str, port: int, **options: Any
    ) -> Listener:
        """As asyncio: listens on an address of this node."""
        return self._network.listen(self, host, port, factory)

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int, **options: Any
    ) -> tuple[Any, Any]:
        """As asyncio. Raises ConnectionRefusedError where nobody listens; a cut waits for ever."""
        return await self._network.connect(self, factory, host, port)
