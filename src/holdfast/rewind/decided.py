"""Whether a step that ends something too early goes by a time, or decided so by itself."""

from __future__ import annotations

from holdfast.clusters.backends.sim.observed.steps import NONE, Kind
from holdfast.rewind.execution import Execution


def decided_at_once(done: Execution) -> bool:
    """Whether the departure is an end before its time that no time has caused: its step is no
    timer, its node was not paused, and did other steps since the time was set. So what set the
    time was not wrong."""
    wrong = done.departure
    if wrong is None or not wrong.early_ns or NONE in (done.began, done.departed):
        return False
    step = done.steps[done.departed]
    if step.kind is Kind.TIMER or step.waited_ns:
        return False
    between = done.steps[done.began + 1 : done.departed]
    return any(one.traced and one.node == step.node for one in between)
