"""The verdict of a property under each kind of fault: held, violated, or not exercised.

A kind is judged by its own windows: missing coverage of another kind does not affect it. A finding
is attributed to the kinds that were active when it arose, and to none of them alone if there were
several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.checkers.holds.history_index import Bools, Ints, column
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import CALM, Finding, PlanChange, Seen, Under, Verdict

STROKE = "stroke"
"""The condition that a run staged an opportunity of its own: it replaces those that every kind of
fault has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Met:
    """Coverage by the windows of one kind of fault.

    unmet       condition -> why it is not met; with "effect" or "target" the others were not
                looked at
    vacuous     conditions that no window had to meet
    conditions  the others, besides "effect" and "target"
    seen        opportunities by the row of the table
    changes     of the plan, after which conditions without a row would be met
    """

    counts: Mapping[str, int]
    unmet: Mapping[str, str] = field(default_factory=dict)
    vacuous: frozenset[str] = frozenset()
    conditions: tuple[str, ...] = ("asked", "edge", "grant", "after")
    seen: Mapping[str, Seen] = field(default_factory=dict)
    changes: tuple[PlanChange, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Why it does not suffice."""
        return tuple(self.unmet.values())


def under(
    case: Case, findings: Mapping[int, Finding], met: Mapping[str, Met], lacking: str
) -> dict[str, Under]:
    """The verdict per kind of fault that was requested, and per kind or kinds of a finding.

    findings   those that count as violations, by their index in the verdict
    met        by kind, in the order of the plan
    lacking    why no kind can be HOLDS, "" if kinds can
    """
    found: dict[str, list[int]] = {}
    for place, finding in findings.items():
        found.setdefault(at_work(case, finding), []).append(place)
    told = {
        key: Under(
            verdict=Verdict.VIOLATED,
            exercised=met[key].counts if key in met else {},
            findings=tuple(places),
            seen=met[key].seen if key in met else {},
        )
        for key, places in found.items()
    }
    kinds: Mapping[str, Met] = met or {CALM: Met(counts={})}
    for kind, windows in kinds.items():
        if kind in told:
            continue
        amid = next((key for key in found if kind in key.split("+")), "")
        missing = [lacking] if lacking else list(windows.missing)
        if amid:
            others = amid.replace("+", " and ")
            missing = [f"violated under {others} at once: which of them is needed is not known"]
        elif CALM in found:
            missing = ["violated without any fault"]
        # Opportunities of other runs make up for missing ones, and for nothing else.
        own = bool(missing) and missing == list(windows.missing)
        alone = bool(windows.seen) and set(windows.unmet) <= {"stroke", *windows.seen}
        told[kind] = Under(
            verdict=Verdict.UNKNOWN if missing else Verdict.HOLDS,
            reason="; ".join(missing),
            exercised=windows.counts,
            seen=windows.seen,
            short=own and alone,
            changes=windows.changes if missing else (),
        )
    return {key: told[key] for key in (*kinds, *(key for key in told if key not in kinds))}


def at_work(case: Case, finding: Finding) -> str:
    """The kinds of fault that may have contributed to a finding, joined by "+"; `CALM` for none.

    If no window is near enough, every kind that began before counts: a violation is attributed to
    `CALM` only if no fault had been requested.
    """
    witnesses = np.array(finding.witnesses, np.intp)
    inv = column(case, "t_inv")[witnesses] if len(witnesses) else np.array([finding.t_ns])
    from_ns = min(int(inv.min()), finding.t_ns)
    times = np.array([from_ns]), np.array([finding.t_ns])
    before = [w for w in case.windows if _acted(w) and w.earliest_ns <= finding.t_ns]
    close = {w.do for w in before if near(case, w, *times).any()}
    return "+".join(sorted(close or {window.do for window in before})) or CALM


def near(case: Case, window: Window, from_ns: Ints, t_ns: Ints) -> Bools:
    """Which of several events a fault may have contributed to: each was seen at t_ns, and the first
    of its rows was called at from_ns."""
    return np.asarray((t_ns >= window.earliest_ns) & (_reaches(case, window) >= from_ns))


def near_any(case: Case, windows: Sequence[Window], from_ns: Ints, t_ns: Ints) -> Bools:
    """Which of these events any of the faults may have contributed to, as `near` says of one.

    t_ns   ascending: the faults are few, and each is looked up once
    """
    if not windows:
        return np.zeros(len(t_ns), bool)
    began = np.array([window.earliest_ns for window in windows])
    reach = np.array([_reaches(case, window) for window in windows])
    order = np.argsort(began, kind="stable")
    # Faults from 3 to 9 and from 5 to 7: whichever began before an event, one reached to 9.
    reach = np.append(-INF, np.maximum.accumulate(reach[order]))
    # Of events at 2 4 6 8 none is before the first fault, one before the second, two after both.
    edges = np.searchsorted(t_ns, began[order], "left")
    counts = np.diff(edges, prepend=0, append=len(t_ns))
    return np.asarray(np.repeat(reach, counts) >= from_ns)


def _reaches(case: Case, window: Window) -> int:
    """Until when a fault may contribute to later calls: forever, if its effect does not pass."""
    if not window.traits.passes:
        return INF
    lasts_ns = case.promises.recovery_ns + case.promises.lasting_ns(case.lease_ns)
    return window.to_ns + lasts_ns


def _acted(window: Window) -> bool:
    """Whether it took effect, or may have: without an observed heal, it was never measured."""
    return window.effective or (bool(window.reason) and window.from_ns < window.to_ns)
