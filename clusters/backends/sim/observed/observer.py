"""Observes a re-executed run: its steps, the rows and the trace that they tell, states of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from holdfast.clusters.backends.sim.backend import SimBackend
from holdfast.clusters.backends.sim.observed.scheduler import ObservedEngine
from holdfast.clusters.backends.sim.observed.states import States
from holdfast.clusters.backends.sim.observed.steps import NONE, Recorded, Step
from holdfast.clusters.backends.sim.recorder import SimRecorder
from holdfast.harness.core.operations import Op, Status


class Trace(list[object]):
    """The trace of the servers, which notes with each event the step that told it."""

    def __init__(self, engine: ObservedEngine) -> None:
        super().__init__()
        self._engine = engine

    def append(self, event: object) -> None:
        """One more event."""
        if self._engine.current != NONE:
            self._engine.steps[self._engine.current].traced.append(len(self))
        super().append(event)


TOLD_EVERY = 256
"""Steps between two calls of `tell`: about one in 20 ms."""


class Observation:
    """An `Observer` that keeps what it sees.

    lose     numbers of steps whose message is lost in this execution
    states   of the nodes after each step; None: not kept
    tell     is called with the time of every TOLD_EVERY-th step, on the run's clock
    """

    def __init__(
        self,
        lose: Collection[int] = (),
        *,
        states: bool = False,
        tell: Callable[[int], object] | None = None,
    ) -> None:
        self._tell = tell
        engine = self.engine = ObservedEngine(lose)
        self.trace = Trace(engine)
        self.states = States() if states else None
        self.recorder = _recording(engine)

    @property
    def steps(self) -> list[Step]:
        """All steps, by their numbers."""
        return self.engine.steps

    def sees(self, backend: SimBackend) -> None:
        """The nodes, before the run."""
        states, tell = self.states, self._tell
        if states is None and tell is None:
            return

        def after(step: Step) -> None:
            if states is not None:
                states.take(step, backend.hosts.get(step.node))
            if tell is not None and step.number % TOLD_EVERY == 0:
                tell(step.t_ns)

        self.engine.after = after


def _recording(engine: ObservedEngine) -> type[SimRecorder]:
    """The kind of recorder that tells which step recorded an edge of a row."""

    class Observed(SimRecorder):
        def invoke(self, f: Op, process: int, key: int, *, attempt: int = 0, **edges: int) -> int:
            number = super().invoke(f, process, key, attempt=attempt, **edges)
            self._notes(number, False)
            return number

        def complete(self, number: int, status: Status, **said: object) -> int:
            t_ns = super().complete(number, status, **said)
            self._notes(number, True)
            return t_ns

        def _notes(self, number: int, returned: bool) -> None:
            if not self.dead and number != NONE and engine.current != NONE:
                rows = engine.steps[engine.current].rows
                rows.append(Recorded(self.writer, number, returned))

    return Observed


def recorded(steps: Iterable[Step]) -> dict[Recorded, int]:
    """Which step recorded an edge of a row."""
    return {edge: step.number for step in steps for edge in step.rows}
