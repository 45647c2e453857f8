"""What a node wrote and had lost after its restart, seen in its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.clusters.backends.sim.observed.states import Change
from holdfast.clusters.backends.sim.observed.steps import NONE, Step
from holdfast.harness.verdicts.judged import Shown
from holdfast.reports.text.formatting import plain
from holdfast.rewind.execution import Execution, execute
from holdfast.rewind.witnesses import edge

SERVED = ("served-read", "served-write")


@dataclass(frozen=True, kw_only=True, slots=True)
class Forgotten:
    """The last step of a start, and a value that was there before it and is another one after."""

    step: int
    change: Change

    @property
    def says(self) -> str:
        """In words."""
        path, before, after = self.change
        loss = f"{plain(path, 60)} was {plain(before, 30)} and is {plain(after, 30) or 'not there'}"
        return f"here the process has started again, and has lost a value: {loss}"


def forgotten(done: Execution, shown: Shown) -> Forgotten | None:
    """Where a finding has two accesses to the resource, and a restart between them lost what the
    first wrote. Executes the plan again with states, if there is such a restart."""
    steps = done.steps
    served = [edge(done, one, returned=True) for one in shown.witnesses if one.op in SERVED]
    served = sorted(one for one in served if one != NONE)
    if len(served) < 2:
        return None
    node, first, last = steps[served[0]].node, served[0], served[-1]
    starts = [one for one in range(first, last) if _starts(steps[one], node)]
    if not starts:
        return None
    seen = done if done.states is not None else execute(done.plan, done.lost, states=True)
    states = seen.states
    assert states is not None
    wrote = [path for path, _, _ in states.changed(node, first) if not path.endswith(".length")]
    for start in starts:
        loaded = _loaded(steps, start)
        before, after = states.at(node, start - 1), states.at(node, loaded)
        for path in wrote:
            if before.get(path, "") and after.get(path, "") != before[path]:
                return Forgotten(step=loaded, change=(path, before[path], after.get(path, "")))
    return None


def _starts(step: Step, node: str) -> bool:
    return step.node == node and step.before == NONE


def _loaded(steps: Sequence[Step], start: int) -> int:
    """The last step of its node at the instant of its start."""
    here = steps[start]
    last = start
    for step in steps[start:]:
        if step.t_ns != here.t_ns:
            break
        last = step.number if step.node == here.node else last
    return last
