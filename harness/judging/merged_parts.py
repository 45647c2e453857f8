"""One property over the parts of a history: counts, needs and findings of the whole run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


OPEN = "it was exercised in rows only that two parts have"


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
    missing: tuple[str, ...]


@dataclass(slots=True)
class Merged:
    """One property over all parts so far.

    lacks, kinds   per need and per kind of fault what the first part lacked, () if a part met it
    doubts         what speaks against HOLDS in any part
    found          by what makes a finding the same in two parts: it, and the key of its faults
    unsure         findings that may rest on rows that no part has
    """

    counts: dict[str, int] = field(default_factory=dict)
    under_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    lacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    doubts: dict[str, None] = field(default_factory=dict)
    aside: str = ""
    unproved: str = ""
    found: dict[tuple[object, ...], tuple[Finding, str]] = field(default_factory=dict)
    notes: dict[tuple[object, ...], Finding] = field(default_factory=dict)
    unsure: int = 0

    def count(self, verdict: PropertyVerdict, sign: int) -> None:
        """Adds the counts of a part, or takes off those of what it takes over."""
        _add(self.counts, verdict.exercised, sign)
        for kind, one in verdict.under.items():
            _add(self.under_counts.setdefault(kind, {}), one.exercised, sign)

    def cover(self, verdict: PropertyVerdict, met: Exercise | None, again: Exercise | None) -> None:
        """What one part exercised counts for the whole run, what it lacks only if all lack it.

        again: what is exercised by the rows that the next part has too. It does not count yet: what
        looks like a wait behind another at the end of a part may turn out to be none.
        """
        if met is None:
            self.doubts[verdict.reason] = None
            return
        _cover(self.lacks, _lacks(met), None if again is None else _lacks(again))
        kinds = {kind: one.missing for kind, one in met.kinds.items()}
        later = None if again is None else {k: one.missing for k, one in again.kinds.items()}
        _cover(self.kinds, kinds, later)
        self.doubts.update(dict.fromkeys(met.doubts))
        self.aside = met.aside or self.aside
        if verdict.verdict is Verdict.UNKNOWN and verdict.findings:
            self.unproved = verdict.reason

    def lacking(self, doubt: str) -> str:
        """Why no kind of fault can be HOLDS, "" if it can."""
        lacks = (reason for reasons in self.lacks.values() for reason in reasons)
        return "; ".join(dict.fromkeys(filter(None, (doubt, *self.doubts, *lacks))))

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
        uncovered = {kind: lacks for kind, lacks in self.kinds.items() if lacks}
        told = f"no violation found in {parts} parts"
        if uncovered:
            kept = ", ".join(kind for kind, lacks in self.kinds.items() if not lacks)
            why = "; ".join(f"{kind} ({', '.join(lacks)})" for kind, lacks in uncovered.items())
            told += f" under {kept}; not exercised under {why}"
        if places:
            verdict, reason = Verdict.VIOLATED, f"{len(found)} finding{'s' * (len(found) != 1)}"
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
                why = lacking or "; ".join(self.kinds.get(kind, ()))
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


def _cover(
    known: dict[str, tuple[str, ...]],
    part: Mapping[str, tuple[str, ...]],
    later: Mapping[str, tuple[str, ...]] | None,
) -> None:
    """Adds what a part lacks to what all before it lacked. later: what the rows lack that the next
    part has too, None for the last part."""
    for what, lacks in part.items():
        before, soon = known.get(what), ("",) if later is None else later[what]
        if before == () or (not lacks and soon):
            known[what] = ()
        elif not lacks or before == (OPEN,):
            known[what] = (OPEN,)
        else:
            total = _summed(before, lacks, +1) if before is not None else lacks
            known[what] = total if later is None else _summed(total, soon, -1)


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
