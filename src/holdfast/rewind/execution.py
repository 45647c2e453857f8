"""Re-executes the plan of a run in the simulator with every step recorded, and compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.clusters.backends.sim.observed.observer import Observation, recorded
from holdfast.clusters.backends.sim.observed.states import States
from holdfast.clusters.backends.sim.observed.steps import NONE, Recorded, Step
from holdfast.engine import seed_search
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.history import reader
from holdfast.harness.history.diff import first_difference
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.version import VERSION
from holdfast.harness.verdicts.judged import Departure, Judged
from holdfast.planning import plan_source, prepare
from holdfast.planning.resolve import resolve
from holdfast.reports.text.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """One execution of a plan, with its steps.

    lost       numbers of the steps whose message was lost in it
    edges      which step recorded an edge of a row
    states     of the nodes after each step; None where they were not kept
    traits     what its kinds of fault do
    departed   the step at which a server departs from its specification, NONE for none
    began      the step that set the time by which that step should go, NONE for none
    digest     a hash of the history
    """

    plan: Plan
    lost: tuple[int, ...]
    steps: Sequence[Step]
    edges: dict[Recorded, int]
    states: States | None
    history: History
    judged: Judged
    traits: Mapping[str, Traits]
    departure: Departure | None
    departed: int
    began: int
    digest: str

    @property
    def start_ns(self) -> int:
        """Start of the workload, on the run's clock."""
        return self.judged.start_ns


def execute(
    plan: Plan,
    lost: Collection[int] = (),
    *,
    states: bool = False,
    tell: Callable[[int], object] | None = None,
) -> Execution:
    """Execute a complete simulated plan with its steps recorded.

    lost     numbers of steps whose message is lost
    states   keep the state of each node after each step
    tell     is called now and then with the time that the run has reached
    """
    observer = Observation(lost, states=states, tell=tell)
    manifest = prepare.manifest(resolve(plan), f"sim-{plan.seed}", "")
    ran = seed_search.in_memory(manifest, validated=True, observer=observer)
    return Execution(
        plan=plan,
        lost=tuple(sorted(lost)),
        steps=observer.steps,
        edges=recorded(observer.steps),
        states=observer.states,
        history=ran.case.history,
        judged=ran.verdicts,
        traits=manifest.traits,
        departure=ran.departure,
        departed=_step_of(observer.steps, ran.departed),
        began=_step_of(observer.steps, ran.departure.began if ran.departure else NONE),
        digest=ran.world.digest,
    )


def _step_of(steps: Sequence[Step], event: int) -> int:
    """The step that told an event of the trace. A step that waits for the disk tells it when the
    disk is done: then the step that began the write is meant."""
    tracing = next((step for step in steps if event in step.traced), None) if event >= 0 else None
    if tracing is None:
        return NONE
    return tracing.number if tracing.node else tracing.cause


def of_run(path: Path, *, states: bool = False) -> Execution:
    """Execute the plan of a recorded simulated run, or of a plan file, again.

    UsageError where the run was not simulated, or its history is not the one that its plan gives.
    """
    plan = plan_source.read_plan(path)
    if plan.backend not in VIRTUAL_TIME:
        raise UsageError(
            f"{path}: a run on backend {plan.backend}: only simulated runs can be executed again"
            " step by step; replay repeats it"
        )
    seed_search.warm()
    with Progress("execute again", "s of the run", plan.time_ns / SECOND) as far:
        far.update(0.0)
        done = execute(plan, states=states, tell=_since_the_first(far))
    run = plan_source.run_of(path)
    if run is not None:
        version = run.read_manifest().version
        differs = first_difference(reader.load(run.history).history, done.history)
        if differs:
            how = "" if version == VERSION else f" (by version {version}, this is {VERSION})"
            raise UsageError(
                f"{path}: its plan gives another history than the one recorded{how}; {differs}"
            )
    return done


def _since_the_first(far: Progress) -> Callable[[int], None]:
    """What shows the time that a run has reached, from its first time on: its clock does not begin
    at 0."""
    begun_ns = -1

    def tell(t_ns: int) -> None:
        nonlocal begun_ns
        begun_ns = t_ns if begun_ns < 0 else begun_ns
        far.update((t_ns - begun_ns) / SECOND)

    return tell


def without_fault(plan: Plan, number: int) -> Plan:
    """The plan without one of its faults."""
    return replace(plan, faults=(*plan.faults[:number], *plan.faults[number + 1 :]))
