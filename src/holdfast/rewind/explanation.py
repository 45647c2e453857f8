"""Why a finding came about: the faults that it needs, and the shortest causal chain to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from holdfast.clusters.backends.sim.observed.steps import NONE, Recorded
from holdfast.engine import seed_search
from holdfast.engine.trials import simulated
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import UNKNOWN
from holdfast.harness.core.operations import Op
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judgement, ObservedFault, Shown
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve
from holdfast.reports.text.formatting import plain
from holdfast.rewind.causes import Link, affected, chain
from holdfast.rewind.client_steps import WrongStep, wrong_step
from holdfast.rewind.decided import decided_at_once
from holdfast.rewind.execution import Execution, without_fault
from holdfast.rewind.restarts import forgotten
from holdfast.rewind.unasked import first_unasked

MOST_FAULTS = 24
"""Faults of a plan that are left out one by one; each costs one execution."""
MOST_RULE = 200
"""Characters of a rule in a sentence of a chain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedFinding:
    """What is explained. prop "": a departure from the specification without a violation.

    step   that of its violation: recorded the witness row at its time; NONE: unknown
    shown  with its witnesses; None: a departure
    cause  number of the cause that it shows, from 1; 0: the first finding of its property
    """

    prop: str
    kind: str
    sentence: str
    promised: bool
    step: int
    shown: Shown | None = None
    cause: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Why a finding came about.

    named      the step to look at: that set what the departure goes by, else of the departure,
               else that in which a client or a restart went wrong, else of the finding; NONE:
               unknown
    faultless  whether the plan gives the finding without any fault; then none was left out singly
    needed     faults without which the plan does not give the finding; others: the rest that was
               tried; untried: the number of those that were not
    fault      that with which the chain begins, None: it begins with something else
    links      the chain to the finding, its first step first; [] if there is none. departing: the
               chain to the named step, where that is not part of the other one
    notes      what else is to be said about a step
    """

    finding: ExplainedFinding
    named: int
    faultless: bool
    needed: tuple[ObservedFault, ...]
    others: tuple[ObservedFault, ...]
    untried: int
    fault: ObservedFault | None
    links: tuple[Link, ...]
    departing: tuple[Link, ...]
    notes: dict[int, str]


def findings(done: Execution) -> list[ExplainedFinding]:
    """Every cause with the finding that it is shown by, as every output orders them; then every
    violated property with its first finding, promised ones first; then the departure."""
    rows = {row.property: row for row in done.judged.verdicts if row.verdict is Verdict.VIOLATED}
    listed = []
    for n, cause in enumerate(done.judged.causes, 1):
        prop, place = cause.first
        listed.append(_finding(done, rows[prop], rows[prop].findings[place], cause=n))
    for row in sorted(rows.values(), key=lambda row: not row.promised):
        first = min(row.findings, key=lambda one: one.t_ns, default=None)
        if first is not None:
            listed.append(_finding(done, row, first))
    if done.departure is not None:
        listed.append(
            ExplainedFinding(
                prop="",
                kind="departure",
                sentence=done.departure.sentence,
                promised=False,
                step=done.departed,
            )
        )
    return listed


def _finding(done: Execution, row: Judgement, shown: Shown, cause: int = 0) -> ExplainedFinding:
    return ExplainedFinding(
        prop=row.property,
        kind=shown.kind,
        sentence=shown.sentence,
        promised=row.promised,
        step=_step(done, shown),
        shown=shown,
        cause=cause,
    )


def _step(done: Execution, shown: Shown) -> int:
    """The step that recorded the edge of a witness nearest to the time of a finding, the resource's
    own rows first; NONE without one."""
    rows = done.history.rows
    edges = []
    for one in shown.witnesses:
        if not 0 <= one.row < len(rows):
            continue
        row = rows[one.row]
        writer, number = done.history.writers[int(row["writer"])], int(row["row"])
        served = int(row["f"]) in (Op.SERVED_READ, Op.SERVED_WRITE)
        for returned in (True, False):
            step = done.edges.get(Recorded(writer, number, returned))
            if step is not None:
                away_ns = abs(done.steps[step].t_ns - shown.t_ns)
                edges.append((away_ns, not served, -step))
    return -min(edges)[2] if edges else NONE


def explained(done: Execution, finding: ExplainedFinding) -> Explanation:
    """The explanation of one finding. Executes the plan without its faults, and if that does not
    give the finding, without each one."""
    faultless = _shows(replace(done.plan, faults=()), finding)
    needed: list[ObservedFault] = []
    others: list[ObservedFault] = []
    untried = 0
    if not faultless:
        needed, others, untried = _needed(done, finding)
    acts = {
        step: (fault, text)
        for fault in reversed(needed)
        for step, text in affected(done.steps, fault, done.traits.get(fault.do, UNKNOWN)).items()
    }
    apart = _apart(done, finding) if done.departed == NONE else None
    wrong = done.departed if apart is None else apart.step
    links, departing = _chains(done, finding, acts, wrong)
    first = acts.get(links[0].step) if links else None
    notes = {}
    if first is not None:
        notes[links[0].step] = f"{_fault(first[0])} acts here: {first[1]}"
    if done.departure is not None:
        notes[done.departed] = (
            "here the implementation departs from its specification:"
            f" {plain(done.departure.rule, MOST_RULE)}"
        )
    began = NONE if decided_at_once(done) else done.began
    if began != NONE and done.departure is not None:
        notes[began] = f"here {plain(done.departure.set_by, MOST_RULE)}"
    if apart is not None:
        notes[apart.step] = apart.says
    return Explanation(
        finding=finding,
        named=next((one for one in (began, wrong, finding.step) if one != NONE), NONE),
        faultless=faultless,
        needed=tuple(needed),
        others=tuple(others),
        untried=untried,
        fault=first[0] if first else None,
        links=tuple(links),
        departing=tuple(departing),
        notes=notes,
    )


def _apart(done: Execution, finding: ExplainedFinding) -> WrongStep | None:
    """The step that went wrong where no server departs from its specification."""
    unasked = first_unasked(done)
    if unasked != NONE:
        node = done.steps[unasked].node
        says = f"here a call returns ok although no message of a server reached {node} since"
        return WrongStep(step=unasked, says=f"{says} the call")
    if finding.shown is None:
        return None
    lost = forgotten(done, finding.shown)
    if lost is not None:
        return WrongStep(step=lost.step, says=lost.says)
    return wrong_step(done, finding.shown)


def _chains(
    done: Execution, finding: ExplainedFinding, acts: Collection[int], wrong: int
) -> tuple[list[Link], list[Link]]:
    """The chain to the finding, from the effect of a needed fault or from the wrong step, whichever
    is nearer, else from a call of a client; and that to the wrong step, if it is another one.

    wrong   the step of the departure, or in which a client or a restart went wrong; NONE: none
    """
    steps = done.steps

    def calls(number: int) -> bool:
        return any(not edge.returned for edge in steps[number].rows)

    def begins(number: int) -> bool:
        return number in acts or (number == wrong and number != finding.step)

    to_wrong: list[Link] = []
    if wrong != NONE:
        to_wrong = chain(steps, wrong, lambda one: one in acts or calls(one))
        to_wrong = to_wrong or chain(steps, wrong, lambda one: one == wrong)
    if finding.step in (NONE, wrong):
        return to_wrong, []
    links = chain(steps, finding.step, begins) if acts or wrong != NONE else []
    if not links:
        links = chain(steps, finding.step, lambda one: one != finding.step and calls(one))
    if links and links[0].step == wrong and to_wrong:
        return [*to_wrong, *links[1:]], []
    return links, to_wrong


def _needed(
    done: Execution, finding: ExplainedFinding
) -> tuple[list[ObservedFault], list[ObservedFault], int]:
    """Which effective faults the finding needs: the plan is executed without each.

    Faults that began after the finding are left out each time: they cannot have caused it, but
    might give another one of its kind.
    """
    until_ns = done.steps[finding.step].t_ns if finding.step != NONE else done.judged.end_ns
    seen = {one.id: one for one in done.judged.faults if one.effective and one.from_ns <= until_ns}
    earlier = replace(done.plan, faults=[one for one in done.plan.faults if one.id in seen])
    needed: list[ObservedFault] = []
    others: list[ObservedFault] = []
    for number, fault in enumerate(earlier.faults[:MOST_FAULTS]):
        kept = _shows(without_fault(earlier, number), finding)
        (others if kept else needed).append(seen[fault.id])
    return needed, others, max(0, len(earlier.faults) - MOST_FAULTS)


def _shows(plan: Plan, finding: ExplainedFinding) -> bool:
    """Whether a plan gives the same kind of finding."""
    if not finding.prop:
        manifest = prepare.manifest(resolve(plan), f"sim-{plan.seed}", "")
        try:
            return seed_search.in_memory(manifest, validated=True).departure is not None
        except EnvironmentFailed:
            return False
    try:
        trial = simulated(plan, [finding.prop])
    except EnvironmentFailed:
        return False
    return any((one.prop, one.kind) == (finding.prop, finding.kind) for one in trial.shown)


def _fault(fault: ObservedFault) -> str:
    """ "f2 (pause of c1)"."""
    return f"{fault.id} ({fault.do} of {', '.join(fault.nodes)})"
