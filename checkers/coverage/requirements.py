"""What a run must have exercised before a property HOLDS: nothing passes by default."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.checkers.coverage import (
    needs_of_holds,
    needs_of_queries,
    needs_of_requests,
    needs_of_waits,
)
from holdfast.checkers.coverage.by_opportunity import by_opportunity
from holdfast.checkers.coverage.lost_rows import could_explain
from holdfast.checkers.coverage.need import Met, Need, count
from holdfast.checkers.coverage.needs_of_requests import not_logged
from holdfast.checkers.coverage.offered_load import too_slow
from holdfast.checkers.coverage.plan_changes import changes, of_faults
from holdfast.checkers.facts import verdicts_by_fault
from holdfast.checkers.facts.fault_windows import coverage
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Exercise:
    """Coverage that a verdict relies on.

    counts   how often each event happened that the property is about
    missing  what the property needs and the run did not show, one reason each
    doubts   why the property cannot be HOLDS although it was exercised, one reason each
    either   doubts that the run proves as "one of two", of which not both are promised
    needs    the reasons of `missing` per need, () if it is met; others are needs of this property
             alone
    kinds    coverage of each requested kind of fault: HOLDS is limited to those with enough
    aside    a part of the property that was not exercised, reported if the rest holds
    merged   of all parts of a run: its kinds have been looked at, part by part
    """

    counts: Mapping[str, int]
    missing: tuple[str, ...]
    kinds: Mapping[str, verdicts_by_fault.Met]
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    aside: str = ""
    merged: bool = False


SLOW_NOT_MISSING = (" was not ready ", " was not idle ", " was not done ")
"""Problems of a run in which a process was late but recorded everything. The run cannot pass, but
its findings count: a client that hangs is what some properties are about."""


def exercise(case: Case, *, needs: Collection[str]) -> Exercise:
    """Whether a run met the named needs; KeyError for one that is not in NEEDS."""
    counts: dict[str, int] = {}
    slow = too_slow(case)
    by_need: dict[str, tuple[str, ...]] = {}
    known: dict[str, Met] = case.memo.setdefault("needs", {})
    for need in needs:
        _, met = NEEDS[need]
        found, lacks = known.get(need) or known.setdefault(need, met(case))
        counts.update(found)
        by_need[need] = tuple(lacks)
    missing = dict.fromkeys(reason for lacks in by_need.values() for reason in lacks)
    doubts = [slow] if slow else []
    return Exercise(
        counts=counts,
        missing=tuple(missing),
        needs=by_need,
        kinds=coverage(case) if "faults" in needs else {},
        doubts=(*doubts, *(not_logged(case) if "requests" in needs else ())),
    )


def conclude(
    case: Case,
    prop: str,
    findings: Sequence[Finding],
    notes: Sequence[Finding],
    exercise: Exercise,
) -> PropertyVerdict:
    """The verdict of one property: VIOLATED by a finding, UNKNOWN by missing coverage, else HOLDS.

    A log that lacks rows makes a finding UNKNOWN only if a lost row could explain it. A kind of
    fault with too little coverage is UNKNOWN (`under`); the property is only if every requested
    kind is.
    """
    if not exercise.merged:
        exercise = replace(exercise, kinds=by_opportunity(case, prop, exercise.kinds))
    kinds = {
        kind: replace(met, changes=of_faults(case, prop, kind, met.unmet))
        for kind, met in exercise.kinds.items()
    }
    problems = case.history.problems
    lost_rows = [p for p in problems if not any(words in p for words in SLOW_NOT_MISSING)]
    proved = {
        place: finding
        for place, finding in enumerate(findings)
        if not (lost_rows and could_explain(finding))
    }
    if proved:
        verdict, reason = Verdict.VIOLATED, count(len(findings), "finding")
    elif findings:
        verdict = Verdict.UNKNOWN
        reason = (
            f"{count(len(findings), 'finding')} that a lost row could explain,"
            f" and the history may be incomplete: {lost_rows[0]}"
        )
    elif problems:
        verdict, reason = Verdict.UNKNOWN, f"the history may be incomplete: {problems[0]}"
    else:
        verdict, reason = _without_findings(exercise)
    case.memo.setdefault("exercises", {})[prop] = exercise
    lacking = "; ".join((*exercise.either, *exercise.doubts, *exercise.missing))
    if problems or (findings and not proved):
        lacking = reason if not proved else f"the history may be incomplete: {problems[0]}"
    return PropertyVerdict(
        property=prop,
        verdict=verdict,
        reason=reason,
        exercised=dict(exercise.counts),
        findings=tuple(findings),
        notes=tuple(notes),
        under=verdicts_by_fault.under(case, proved, kinds, lacking),
        changes=changes(case, (need for need, why in exercise.needs.items() if why)),
        either=exercise.either,
    )


def _without_findings(exercise: Exercise) -> tuple[Verdict, str]:
    lacks = {kind: met.missing for kind, met in exercise.kinds.items() if met.missing}
    lacking = *exercise.either, *exercise.doubts, *exercise.missing
    if lacking or (lacks and len(lacks) == len(exercise.kinds)):
        every = [*lacking, *(reason for reasons in lacks.values() for reason in reasons)]
        return Verdict.UNKNOWN, "; ".join(dict.fromkeys(every))
    told = "no violation found"
    if lacks:
        kept = ", ".join(kind for kind in exercise.kinds if kind not in lacks)
        why = "; ".join(f"{kind} ({', '.join(reasons)})" for kind, reasons in lacks.items())
        told += f" under {kept}; not exercised under {why}"
    return Verdict.HOLDS, f"{told}; {exercise.aside}" if exercise.aside else told


def _faults(case: Case) -> Met:
    """Missing coverage is reported per kind (`Exercise.kinds`)."""
    return {name: n for met in coverage(case).values() for name, n in met.counts.items() if n}, []


NEEDS: Mapping[str, Need] = {
    **needs_of_waits.NEEDS,
    **needs_of_requests.NEEDS,
    **needs_of_holds.NEEDS,
    **needs_of_queries.NEEDS,
    "faults": (
        "per kind of fault in the plan: it took effect (aimed at the holder: while it held), with"
        " an opportunity of each row that the run staged, or requests inside and a hold at an edge",
        _faults,
    ),
}
"""Need -> what it requires of a run, and the function that counts it. Checkers name their needs."""
