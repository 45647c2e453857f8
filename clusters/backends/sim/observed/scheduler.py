"""The engine of an observed run: runs the same callbacks in the same order, and records each.

The usual engine has no hook for this, so that a run that nobody observes pays nothing.
"""

from __future__ import annotations

import itertools
from asyncio import events
from collections import deque
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from types import BuiltinMethodType, FunctionType, MethodType

from holdfast.clusters.backends.sim.connection import End
from holdfast.clusters.backends.sim.observed.steps import NONE, Fate, Kind, Step, words
from holdfast.clusters.backends.sim.scheduler import DRAIN, Engine, Handle, WorldLoop


class _Ready(deque[Handle]):
    """The queue of what is ready, which tells who made it so."""

    tells: Callable[[Handle], None]

    def append(self, handle: Handle) -> None:
        self.tells(handle)
        super().append(handle)

    def appendleft(self, handle: Handle) -> None:
        self.tells(handle)
        super().appendleft(handle)


class _Scheduled:
    """What is known of a handle that is ready, or that waits on a node that stands still.

    cause    the step that scheduled it; released: that let its node go on
    parked_ns   since when it waits, 0: it does not
    """

    __slots__ = ("cause", "parked_ns", "released", "waited_ns")

    def __init__(self, cause: int) -> None:
        self.cause = cause
        self.released = NONE
        self.parked_ns = 0
        self.waited_ns = 0


class ObservedEngine(Engine):
    """As `Engine`.

    steps     what ran, in order
    current   the step that runs now, NONE between two
    lose      numbers of steps whose message is lost instead of delivered
    after     called after each step
    """

    def __init__(self, lose: Collection[int] = ()) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.current = NONE
        self.after: Callable[[Step], None] = lambda step: None
        self._lose = dict.fromkeys(lose)
        self._causes: dict[int, int] = {}
        self._scheduled: dict[Handle, _Scheduled] = {}
        self._last: dict[str, tuple[object, int]] = {}
        numbers = itertools.count(1)

        # Whatever is put on the heap asks for a number first: so its cause is known.
        def number() -> int:
            made = next(numbers)
            self._causes[made] = self.current
            return made

        self.number = number
        ready = _Ready()
        ready.tells = self._becomes_ready
        self.ready = ready

    def _becomes_ready(self, handle: Handle) -> None:
        known = self._scheduled.get(handle)
        if known is None:
            self._scheduled[handle] = _Scheduled(self.current)
        else:
            known.released = self.current
            known.waited_ns = self.now_ns - known.parked_ns

    def _gather(self, t_ns: int) -> None:
        heap = self.heap
        while heap and heap[0][0] <= t_ns:
            _, number, what, frame = heappop(heap)
            handle = what if frame is None else Handle(what.target, what.arrive, (frame,))
            self._scheduled[handle] = _Scheduled(self._causes.pop(number))
            deque.append(self.ready, handle)

    def _drain(self, until_ns: int) -> None:
        """As `Engine`, in the same order; a test compares the two."""
        ready, heap, running = self.ready, self.heap, None
        set_running = events._set_running_loop
        for _ in range(DRAIN):
            if ready:
                handle = ready.popleft()
                known = self._scheduled.pop(handle)
            elif heap and not self.over:
                t_ns, number, what, frame = heappop(heap)
                if t_ns > self.now_ns and not what.dead:
                    if t_ns > until_ns:
                        heappush(heap, (t_ns, number, what, frame))
                        break
                    self.now_ns = t_ns
                # A frame is due by itself; here it gets a handle as any other callback.
                handle = what if frame is None else Handle(what.target, what.arrive, (frame,))
                known = _Scheduled(self._causes.pop(number))
                if not handle.dead and heap and heap[0][0] <= self.now_ns:
                    self._gather(self.now_ns)
            else:
                break
            if handle.dead:
                continue
            loop = handle.loop
            if loop.stopped:
                if not loop.dead:
                    known.parked_ns = self.now_ns
                    self._scheduled[handle] = known
                    loop.park(handle)
                continue
            if loop is not running:
                running = loop
                set_running(loop)  # type: ignore[arg-type]
            self.events += 1
            self._run(handle, known)

    def _run(self, handle: Handle, known: _Scheduled) -> None:
        """One step."""
        loop, callback = handle.loop, handle.callback
        node = "" if isinstance(loop, WorldLoop) else loop.node
        boot, before = self._last.get(node, (None, NONE))
        step = Step(
            number=len(self.steps),
            t_ns=self.now_ns,
            node=node,
            kind=_kind(handle),
            cause=known.cause,
            released=known.released,
            waited_ns=known.waited_ns,
            before=before if boot is loop else NONE,
        )
        self.steps.append(step)
        self._last[node] = loop, step.number
        self.current = step.number
        end = callback.__self__ if isinstance(callback, MethodType) else None
        if isinstance(end, End) and callback == end.arrive:
            self._arrives(step, end, handle)
        elif isinstance(end, End) and callback == end.retry and end.waiting:
            self._retries(step, end, handle)
        else:
            step.text = _name(callback)
            callback(*handle.args)
        self.after(step)
        self.current = NONE

    def _arrives(self, step: Step, end: End, handle: Handle) -> None:
        """A frame arrives, or would."""
        step.kind, step.source = Kind.MESSAGE, end.loop.node
        step.text = words(handle.args[0])
        if end.peer.is_closing():
            step.fate = Fate.CLOSED
        elif end.link.cuts:
            step.fate = Fate.LOST if end.link.loose else Fate.BLOCKED
        elif end.waiting:
            step.fate = Fate.BLOCKED
        if step.number in self._lose:
            step.fate = Fate.CHOSEN
            end.lose()
            return
        open_before = not end.peer.is_closing()
        handle.callback(*handle.args)
        if open_before and end.peer.is_closing() and end.disturbed:
            step.fate = Fate.RESET

    def _retries(self, step: Step, end: End, handle: Handle) -> None:
        """A connection tries again to deliver what a cut held up."""
        step.kind, step.source = Kind.MESSAGE, end.loop.node
        first, *more = end.waiting
        step.text = words(first) + (f", and {len(more)} more" if more else "")
        handle.callback(*handle.args)
        if end.waiting:
            step.fate = Fate.BLOCKED


def _kind(handle: Handle) -> Kind:
    if isinstance(handle.loop, WorldLoop):
        return Kind.WORLD
    return Kind.TIMER if handle.when_s else Kind.CALLBACK


def _name(callback: Callable[..., object]) -> str:
    """A callback by its name in the code, one without a name by its type."""
    if isinstance(callback, BuiltinMethodType | FunctionType | MethodType):
        return callback.__qualname__
    return type(callback).__name__
