"""Coverage of one property over the parts of a run, merged to that of the whole run.

That is: its counts, needs and kinds of fault, from which `conclude` has the verdict
(docs/decisions/0045).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.checkers.coverage.requirements import Exercise, conclude
from holdfast.checkers.facts.verdicts_by_fault import STROKE, Met
from holdfast.checkers.holds.contradictions import asked_and_contradicted
from holdfast.harness.core.case import AcrossParts, Case
from holdfast.harness.core.verdict import Finding, PropertyVerdict

LARGEST = frozenset(
    {
        "overtakes of one wait",
        "grants beyond a queue",
        "slowest notice ms",
        "slowest grant notice ms",
        "mutual waits",
    }
)
"""Counts that are a maximum, or whether there is one, and not a sum."""

COUNTS = re.compile(r"\d+(?= (?:of|in) \d)|(?<= of )\d+|(?<=\d in )\d+")
"""The counts in a reason: 0 of 7, 0 in 3 windows."""

Judged = tuple[Case, PropertyVerdict]
Lacks = Mapping[str, tuple[str, ...]]
"""condition -> why it is not met"""


@dataclass(slots=True)
class _Covered:
    """Which of several conditions the rows of some part met.

    counts   of the whole run so far
    met      those that a part met in rows that the next part has no more
    lacks    why parts did not meet the others
    """

    counts: dict[str, int] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def count(self, counts: Mapping[str, int], sign: int) -> None:
        """Adds the counts of a part, or takes off those of what the next part has too."""
        for name, n in counts.items():
            if name in LARGEST:
                self.counts[name] = max(self.counts.get(name, 0), n)
            else:
                self.counts[name] = self.counts.get(name, 0) + sign * n

    def add(self, lacks: Lacks, met: set[str], again: set[str]) -> None:
        """One part. lacks: what it lacks; met: what it meets; again: in rows that the next has too.

        These do not count yet: what looks like a wait behind another at the end of a part may turn
        out to be none. If it is one, the next part meets it too, and the last has no next one.
        """
        self.met |= met - again
        for what, reasons in lacks.items():
            known = self.lacks.get(what)
            self.lacks[what] = reasons if known is None else _summed(known, reasons, +1)

    def less(self, again: Lacks) -> None:
        """Takes off the counts, in reasons, of the rows that the next part has too."""
        for what, reasons in again.items():
            if what in self.lacks:
                self.lacks[what] = _summed(self.lacks[what], reasons, -1)

    def unmet(self) -> dict[str, tuple[str, ...]]:
        """Why it does not suffice, empty if it does."""
        return {what: why for what, why in self.lacks.items() if what not in self.met}


@dataclass(slots=True)
class Merged:
    """What all parts so far exercised of a property.

    needs, kinds   the needs of the property, and the conditions of each kind of fault
    plain          per kind the conditions of parts that staged no row of its opportunities: they
                   do not count if another part did (`by_opportunity`)
    doubts         what speaks against HOLDS in any part; either: as "one of two"
    """

    prop: str
    needs: _Covered = field(default_factory=_Covered)
    kinds: dict[str, _Covered] = field(default_factory=dict)
    plain: dict[str, set[str]] = field(default_factory=dict)
    doubts: dict[str, None] = field(default_factory=dict)
    either: dict[str, None] = field(default_factory=dict)
    aside: str = ""

    def add(self, part: Judged, again: Judged | None, to_come: Collection[str]) -> None:
        """What one part exercised counts for the whole run, what it lacks only if all lack it.

        again     the rows that the next part has too, which count there; None after the last
        to_come   kinds of fault of which a window begins after the part: there is no grant yet
                  after the last one has healed
        """
        met, soon = _exercised(*part), None if again is None else _exercised(*again)
        for judged, coverage in ((part, met), (again, soon)):
            if judged is not None and coverage is None:
                self.doubts[judged[1].reason] = None
        if met is None:
            return
        self._count(met, +1)
        if soon is not None:
            self._count(soon, -1)
        lacks, less = _lacks(met), {} if soon is None else _lacks(soon)
        self.needs.add(
            {need: why for need, why in lacks.items() if why},
            {need for need, why in lacks.items() if not why},
            {need for need, why in less.items() if not why},
        )
        self.needs.less({need: why for need, why in less.items() if why})
        for kind, one in met.kinds.items():
            not_yet = {"after"} if kind in to_come else set[str]()
            later = set[str]() if soon is None else _conditions(soon.kinds[kind])
            unmet = {what: (why,) for what, why in one.unmet.items()}
            self.kinds[kind].add(unmet, _conditions(one) - not_yet, later - not_yet)
            plain = self.plain.setdefault(kind, set())
            plain |= set() if STROKE in one.conditions else set(one.conditions)
        self.doubts.update(dict.fromkeys(met.doubts))
        self.either.update(dict.fromkeys(met.either))
        self.aside = met.aside or self.aside

    def _count(self, coverage: Exercise, sign: int) -> None:
        self.needs.count(coverage.counts, sign)
        for kind, one in coverage.kinds.items():
            self.kinds.setdefault(kind, _Covered()).count(one.counts, sign)

    def conclude(
        self, case: Case, findings: Sequence[Finding], notes: Sequence[Finding], doubt: str
    ) -> PropertyVerdict:
        """The verdict on the whole run. doubt: why it cannot be HOLDS, whatever was exercised."""
        lacks = (why for reasons in self.needs.unmet().values() for why in reasons)
        whole = Exercise(
            counts=self.needs.counts,
            missing=tuple(dict.fromkeys(lacks)),
            kinds={kind: _met(one, self.plain.get(kind, ())) for kind, one in self.kinds.items()},
            doubts=tuple(dict.fromkeys(filter(None, (doubt, *self.doubts)))),
            either=tuple(self.either),
            aside=self.aside,
            merged=True,
        )
        return conclude(case, self.prop, findings, notes, whole)


ACROSS_PARTS = AcrossParts(asked_and_contradicted, Merged)


def _exercised(case: Case, verdict: PropertyVerdict) -> Exercise | None:
    """The coverage that a verdict of `conclude` on this case relies on.

    None of another verdict, as of a checker that crashed: only `conclude` has verdicts by fault.
    """
    found: Mapping[str, Exercise] = case.memo.get("exercises", {})
    return found.get(verdict.property) if verdict.under else None


def _lacks(met: Exercise) -> Lacks:
    """Per need what it lacks; "" is the need of one property alone."""
    shared = {reason for lacks in met.needs.values() for reason in lacks}
    return {**met.needs, "": tuple(reason for reason in met.missing if reason not in shared)}


def _met(covered: _Covered, plain: Collection[str]) -> Met:
    dropped = plain if STROKE in covered.met else ()
    lacks = {what: why for what, why in covered.unmet().items() if what not in dropped}
    unmet = {what: "; ".join(why) for what, why in lacks.items()}
    return Met(counts=covered.counts, unmet=unmet)


def _conditions(one: Met) -> set[str]:
    """The conditions of a kind of fault that are met."""
    if "effect" in one.unmet:
        return set()
    if "target" in one.unmet:
        return {"effect"}
    return {"effect", "target", *one.conditions} - set(one.unmet) - one.vacuous


def _summed(reasons: tuple[str, ...], more: tuple[str, ...], sign: int) -> tuple[str, ...]:
    """Reasons with the counts of both: "no acquire waited: 0 of 7" and 0 of 5 is 0 of 12. Where
    they differ in more than counts, the later ones."""
    texts = [COUNTS.sub("#", " | ".join(each)) for each in (reasons, more)]
    if texts[0] != texts[1]:
        return more if sign > 0 else reasons
    counts = [map(int, COUNTS.findall(" | ".join(each))) for each in (reasons, more)]
    totals = iter([str(a + sign * b) for a, b in zip(*counts, strict=True)])
    return tuple(COUNTS.sub(lambda _: next(totals), reason) for reason in reasons)
