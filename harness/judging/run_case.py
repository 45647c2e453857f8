"""The input of checkers for one run: its history, with what its other files say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from holdfast.harness.core.case import Case, Election, History, Planned, Window
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.history.reader import Recording
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.journal import ELECTED, FaultRow, Mark

LONGEST_NS = 366 * 24 * 3600 * 1_000_000_000


def case_of(
    manifest: Manifest,
    recording: Recording,
    times: Iterable[Mark],
    faults: Iterable[FaultRow],
) -> Case:
    """The input of checkers. times, faults: the rows of times.jsonl and faults.jsonl."""
    plan, history = manifest.plan, recording.history
    times = list(times)
    marks = {row.mark: row for row in times}
    order = [marks[name].t_ns for name in ("start", "stop", "end") if name in marks]
    if order != sorted(order):
        raise ValueError("the marks start, stop and end are out of order")
    if order and order[-1] - order[0] > LONGEST_NS:
        raise ValueError("the marks start and end are more than a year apart")
    problems = [*history.problems, *_problems(marks)]
    stamps = history.rows["t_inv"]
    last_ns = int(max(stamps.max(), history.rows["t_ret"].max())) if len(stamps) else 0
    first_ns = int(stamps.min()) if len(stamps) else 0
    stop_ns = marks["stop"].t_ns if "stop" in marks else last_ns
    end_ns = max(last_ns, marks["end"].t_ns) if "end" in marks else last_ns
    return Case(
        history=History(
            rows=history.rows,
            strings=history.strings,
            writers=history.writers,
            problems=tuple(problems),
        ),
        promises=manifest.promises,
        windows=_windows(faults, end_ns, manifest.traits),
        asked=tuple(manifest.asks),
        start_ns=marks["start"].t_ns if "start" in marks else first_ns,
        stop_ns=stop_ns,
        end_ns=end_ns,
        lease_ns=plan.lease_ns,
        error_ns=recording.error_ns,
        starved=recording.starved,
        elections=_elections(times),
        nodes=recording.nodes,
        kinds=kinds_of(plan),
        planned=_planned(plan, manifest.traits),
        options=options_of(manifest),
    )


def _elections(times: Iterable[Mark]) -> tuple[Election, ...]:
    return tuple(
        Election(t_ns=row.t_ns, leader=row.leader, term=row.term)
        for row in times
        if row.mark == ELECTED and row.leader
    )


def options_of(manifest: Manifest) -> dict[str, str]:
    """`Case.options` of a run."""
    return {
        "resource": manifest.plan.resource,
        "workload": manifest.plan.workload,
        "servers": str(manifest.plan.nodes),
        **manifest.options.workload,
    }


def kinds_of(plan: Plan) -> tuple[str, ...]:
    """The kinds of fault of a plan, including a nemesis that sampled no fault in the run."""
    drawn = [fault.do for fault in plan.faults]
    return tuple(dict.fromkeys((*drawn, *(name for name, _ in plan.nemeses))))


def _planned(plan: Plan, traits: Mapping[str, Traits]) -> dict[str, Planned]:
    """What a plan asks of its kinds of fault. An exact fault, as it was injected, names its own."""
    targets = {fault.do: fault.target for fault in plan.faults}
    targets |= {name: options.get("target", "") for name, options in plan.nemeses}
    return {
        kind: Planned(traits.get(kind, UNKNOWN), targets.get(kind, "")) for kind in kinds_of(plan)
    }


def _problems(marks: Mapping[str, Mark]) -> list[str]:
    why = f": {marks['failed'].reason}" if "failed" in marks else ""
    if "start" not in marks:
        return [f"the run ended during deployment, before its workload began{why}"]
    if "end" not in marks:
        return [f"the driver exited before the end of the run: no settle phase, no probe{why}"]
    return list(marks["end"].problems or ())


def _windows(rows: Iterable[FaultRow], end_ns: int, traits: Mapping[str, Traits]) -> list[Window]:
    """The observed faults of a run, in order of their beginning.

    A fault has up to three rows, which others may lie between: injected f1, injected f2, healed f1
    are the steps of f1 (injected, healed) and of f2 (injected).
    """
    steps: dict[str, dict[str, FaultRow]] = {}
    for row in rows:
        steps.setdefault(row.id, {})[row.event] = row
    windows = [_window(ident, events, end_ns, traits) for ident, events in steps.items()]
    found = sorted((w for w in windows if w is not None), key=lambda w: (w.from_ns, w.id))
    return [replace(window, reason=_why(window, found)) for window in found]


def _why(window: Window, windows: Sequence[Window]) -> str:
    """The recorded reason; else, of a fault that did not take effect, a kill of its nodes: a fault
    in a process needs a process."""
    if window.effective or window.reason or window.to_ns <= window.from_ns:
        return window.reason
    for kill in reversed(windows):
        nodes = [node for node in window.nodes if node in kill.nodes]
        meets = kill.from_ns <= window.to_ns and window.earliest_ns <= kill.to_ns
        if kill.id == window.id or not (kill.traits.kills and kill.effective and nodes and meets):
            continue
        by_ms = (window.from_ns - kill.from_ns) / MILLISECOND
        when = f"{by_ms:.0f} ms before" if by_ms >= 0 else f"{-by_ms:.0f} ms after it began"
        return f"{kill.id} had killed {', '.join(nodes)} {when}"
    return ""


def _window(
    ident: str, events: Mapping[str, FaultRow], end_ns: int, traits: Mapping[str, Traits]
) -> Window | None:
    """The span in which a fault was certainly in effect; None if the agent was asked for nothing.

    A fault that was skipped or failed has an empty one, [from, from]. One that the run ended in
    lasts up to the end of the run and does not count as effective: only a heal brings the evidence.
    """
    missed = events.get("skipped") or events.get("failed")
    injected, healed = events.get("injected"), events.get("healed")
    row = injected or missed
    if row is None:
        return None
    kind = traits.get(row.do, UNKNOWN)
    from_ns = row.time_ns()
    if injected is not None and kind.kills:
        # A killed process may be dead as soon as the kill is requested.
        from_ns = row.requested_ns()
    reason = (missed.reason or "") if missed else ""
    if injected is not None and healed is None and not reason:
        reason = "the run ended before the fault healed"
    return Window(
        id=ident,
        do=row.do,
        target=row.target,
        nodes=tuple(row.nodes or ()),
        from_ns=from_ns,
        to_ns=healed.time_ns() if healed else (end_ns if injected else from_ns),
        effective=bool(healed and healed.effective) and injected is not None,
        evidence={**(row.evidence or {}), **((healed and healed.evidence) or {})},
        holder=row.holder or "",
        leader=row.leader or "",
        term=row.term,
        reason=reason,
        traits=kind,
        requested_ns=-1 if row.before_ns is None else row.requested_ns(),
    )
