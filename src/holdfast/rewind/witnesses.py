"""Steps of the witnesses of a finding."""

from __future__ import annotations

from holdfast.clusters.backends.sim.observed.steps import NONE, Kind, Recorded, Step
from holdfast.harness.verdicts.judged import Event
from holdfast.rewind.execution import Execution


def edge(done: Execution, one: Event, *, returned: bool) -> int:
    """The step that recorded the call or the return of a witness."""
    if not 0 <= one.row < len(done.history.rows):
        return NONE
    row = done.history.rows[one.row]
    writer = done.history.writers[int(row["writer"])]
    return done.edges.get(Recorded(writer, int(row["row"]), returned), NONE)


def message_of(done: Execution, number: int) -> Step | None:
    """The message that led to a step at the same instant on its node."""
    step = done.steps[number]
    while step.kind is Kind.CALLBACK and step.cause != NONE:
        before = done.steps[step.cause]
        if (before.node, before.t_ns) != (step.node, step.t_ns):
            return None
        step = before
    return step if step.kind is Kind.MESSAGE else None
