"""One property over the parts of a history: counts, needs and findings of the whole run."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.harness.core.verdict import CALM, Finding, PropertyVerdict, Under, Verdict

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


class Exercise(Protocol):
    """`checkers.coverage.requirements.Exercise`."""

    missing: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    kinds: Mapping[str, _Met]
    doubts: tuple[str, ...]
    aside: str


class _Met(Protocol):
    unmet: Mapping[str, str]
    vacuous: frozenset[str]


LATER = ("asked", "edge", "grant", "after")
"""Conditions of a kind of fault that are looked at only if a window took effect and, aimed at the
holder, found it holding."""


@dataclass(slots=True)
class _Covered:
    """Which of several conditions the rows of some part met.

    met      those that a part met in rows that the next part has no more
    lacks    why parts did not meet the others
    """

    met: set[str] = field(default_factory=set)
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, part: Mapping[str, tuple[str, ...]], met: set[str], again: set[str]) -> None:
        """One part. part: what it lacks; met: what it meets, again: in rows that the next part has.

        These do not count yet: what looks like a wait behind another at the end of a part may turn
        out to be none. If it is one, the next part meets it too, and the last has no next one.
        """
        self.met |= met - again
        for what, reasons in part.items():
            known = self.lacks.get(what)
            self.lacks[what] = reasons if known is None else _summed(known, reasons, +1)

    def less(self, again: Mapping[str, tuple[str, ...]]) -> None:
        """Takes off the counts of the rows that the next part has too."""
        for what, reasons in again.items():
            if what in self.lacks:
                self.lacks[what] = _summed(self.lacks[what], reasons, -1)

    def missing(self) -> list[str]:
        """Why it does not suffice, empty if it does."""
        return [why for what, each in self.lacks.items() if what not in self.met for why in each]


@dataclass(slots=True)
class Merged:
    """One property over all parts so far.

    needs, kinds   the needs of the property, and the conditions of each kind of fault
    doubts         what speaks against HOLDS in any part
    found          by what makes a finding the same in two parts: it, and the key of its faults
    unsure         findings that may rest on rows that no part has
    more           whether there were more findings than are kept
    """

    counts: dict[str, int] = field(default_factory=dict)
    under_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    needs: _Covered = field(default_factory=_Covered)
    kinds: dict[str, _Covered] = field(default_factory=dict)
    doubts: dict[str, None] = field(default_factory=dict)
    aside: str = ""
    unproved: str = ""
    found: dict[tuple[object, ...], tuple[Finding, str]] = field(default_factory=dict)
    notes: dict[tuple[object, ...], Finding] = field(default_factory=dict)
    unsure: int = 0
    more: bool = False

    def count(self, verdict: PropertyVerdict, sign: int) -> None:
        """Adds the counts of a part, or takes off those of what it takes over."""
        _add(self.counts, verdict.exercised, sign)
        for kind, one in verdict.under.items():
            _add(self.under_counts.setdefault(kind, {}), one.exercised, sign)

    def cover(
        self,
        verdict: PropertyVerdict,
        met: Exercise | None,
        again: Exercise | None,
        to_come: Collection[str],
    ) -> None:
        """What one part exercised counts for the whole run, what it lacks only if all lack it.

        again     what is exercised by the rows that the next part has too, None for the last
        to_come   kinds of fault of which a window begins after the part: there is no grant yet
                  after the last one has healed
        """
        if met is None:
            self.doubts[verdict.reason] = None
            return
        lacks, soon = _lacks(met), {} if again is None else _lacks(again)
        self.needs.add(
            {need: why for need, why in lacks.items() if why},
            {need for need, why in lacks.items() if not why},
            {need for need, why in soon.items() if not why},
        )
        self.needs.less({need: why for need, why in soon.items() if why})
        for kind, one in met.kinds.items():
            covered = self.kinds.setdefault(kind, _Covered())
            not_yet = {"after"} if kind in to_come else set[str]()
            later = set[str]() if again is None else _conditions(again.kinds[kind])
            unmet = {what: (why,) for what, why in one.unmet.items()}
            covered.add(unmet, _conditions(one) - not_yet, later - not_yet)
        self.doubts.update(dict.fromkeys(met.doubts))
        self.aside = met.aside or self.aside
        if verdict.verdict is Verdict.UNKNOWN and verdict.findings:
            self.unproved = verdict.reason

    def lacking(self, doubt: str) -> str:
        """Why no kind of fault can be HOLDS, "" if it can."""
        reasons = (doubt, *self.doubts, *self.needs.missing())
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    def verdict(self, prop: str, parts: int, doubt: str) -> PropertyVerdict:
        """The verdict of the property. doubt: why none can be HOLDS, whatever was exercised."""
        found = [finding for finding, _ in self.found.values()]
        places: dict[str, list[int]] = {}
        for n, (_, key) in enumerate(self.found.values()):
            if key:
                places.setdefault(key, []).append(n)
        if self.unsure:
            doubt = (
                f"{self.unsure} findings may rest on rows that no part has: judge the history at"
                " once, on a larger machine"
            )
        lacking = self.lacking(doubt)
        missing = {kind: covered.missing() for kind, covered in self.kinds.items()}
        uncovered = {kind: lacks for kind, lacks in missing.items() if lacks}
        told = f"no violation found in {parts} parts"
        if uncovered:
            kept = ", ".join(kind for kind in self.kinds if kind not in uncovered)
            why = "; ".join(f"{kind} ({', '.join(lacks)})" for kind, lacks in uncovered.items())
            told += f" under {kept}; not exercised under {why}"
        if places:
            verdict, reason = Verdict.VIOLATED, f"{len(found)} finding{'s' * (len(found) != 1)}"
            reason += ", and more that are not kept" * self.more
        elif found:
            verdict, reason = Verdict.UNKNOWN, self.unproved
        elif lacking or (uncovered and len(uncovered) == len(self.kinds)):
            lacks = (reason for reasons in uncovered.values() for reason in reasons)
            every = dict.fromkeys(filter(None, (lacking, *lacks)))
            verdict, reason = Verdict.UNKNOWN, "; ".join(every)
        else:
            verdict, reason = Verdict.HOLDS, f"{told}; {self.aside}" if self.aside else told
        return PropertyVerdict(
            property=prop,
            verdict=verdict,
            reason=reason,
            exercised=self.counts,
            findings=tuple(found),
            notes=tuple(self.notes.values()),
            under=self._under(places, lacking),
        )

    def _under(self, places: Mapping[str, Sequence[int]], lacking: str) -> dict[str, Under]:
        """As `facts.verdicts_by_fault.under` has it for one history."""
        kinds = list(self.kinds) or [CALM]
        told = {
            key: Under(
                verdict=Verdict.VIOLATED,
                exercised=self.under_counts.get(key, {}),
                findings=tuple(which),
            )
            for key, which in places.items()
        }
        for kind in kinds:
            if kind in told:
                continue
            amid = next((key for key in places if kind in key.split("+")), "")
            if amid:
                others = amid.replace("+", " and ")
                why = f"violated under {others} at once: which of them is needed is not known"
            elif CALM in places:
                why = "violated without any fault"
            else:
                why = lacking or ("; ".join(self.kinds[kind].missing()) if self.kinds else "")
            told[kind] = Under(
                verdict=Verdict.UNKNOWN if why else Verdict.HOLDS,
                reason=why,
                exercised=self.under_counts.get(kind, {}),
            )
        return {key: told[key] for key in (*kinds, *(key for key in told if key not in kinds))}


def _lacks(met: Exercise) -> dict[str, tuple[str, ...]]:
    """Per need what it lacks; "" is the need of one property alone."""
    shared = {reason for lacks in met.needs.values() for reason in lacks}
    return {**met.needs, "": tuple(reason for reason in met.missing if reason not in shared)}


def _conditions(one: _Met) -> set[str]:
    """The conditions of a kind of fault that are met."""
    if "effect" in one.unmet:
        return set()
    if "target" in one.unmet:
        return {"effect"}
    return {"effect", "target", *LATER} - set(one.unmet) - one.vacuous


def _summed(reasons: tuple[str, ...], more: tuple[str, ...], sign: int) -> tuple[str, ...]:
    """Reasons with the counts of both: "no acquire waited: 0 of 7" and 0 of 5 is 0 of 12. Where
    they differ in more than counts, the later ones."""
    texts = [COUNTS.sub("#", " | ".join(each)) for each in (reasons, more)]
    if texts[0] != texts[1]:
        return more if sign > 0 else reasons
    counts = [map(int, COUNTS.findall(" | ".join(each))) for each in (reasons, more)]
    totals = iter([str(a + sign * b) for a, b in zip(*counts, strict=True)])
    return tuple(COUNTS.sub(lambda _: next(totals), reason) for reason in reasons)


def _add(counts: dict[str, int], more: Mapping[str, int], sign: int) -> None:
    for name, n in more.items():
        if name in LARGEST:
            counts[name] = max(counts.get(name, 0), n)
        else:
            counts[name] = counts.get(name, 0) + sign * n
