"""What many runs show, each failure once: the worst first, with the command that shows it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.results import Outcome, Result, failed, staged
from holdfast.harness.core.verdict import CALM, Kind, Verdict
from holdfast.harness.properties import PROPERTIES, kind
from holdfast.harness.verdicts.left_unknown import LeftUnknown
from holdfast.reports.text.formatting import count, listed


@dataclass(slots=True)
class Failure:
    """One kind of finding of one system.

    prop, kind  of the first property that the finding violates, in the order of PROPERTIES
    promised    whether a run of it breaks a promise
    also        other properties that the same cause violates
    faults      plans of faults under which it was seen -> None, in the order of the runs
    runs        those that show it; of: judged runs of the system under these faults
    early       so many of them show it only before their first fault
    """

    system: str
    prop: str
    kind: str
    promised: bool
    also: dict[str, None] = field(default_factory=dict)
    faults: dict[str, None] = field(default_factory=dict)
    runs: list[Result] = field(default_factory=list)
    of: int = 0
    early: int = 0

    @property
    def extent(self) -> str:
        """In how many runs it was seen, and under which faults."""
        share = f"{len(self.runs)} of {count(self.of, 'run')}"
        if self.early == len(self.runs) and [*self.faults] != [CALM]:
            return f"{share}, before their first fault."
        early = f", {self.early} of them before the first fault" if self.early else ""
        return f"{share} under {', '.join(self.faults)}{early}."

    @property
    def word(self) -> str:
        """Its state in one word."""
        return "VIOLATED" if self.promised else "LIMIT"

    @property
    def title(self) -> str:
        """What was violated, and how."""
        return f"{self.prop}: {self.kind}" if self.kind else self.prop

    @property
    def words(self) -> Kind:
        """What such a finding is called, and what to do."""
        return kind(self.kind)

    @property
    def blame(self) -> str:
        """Whether the lock is at fault: whose promise it was."""
        kept = [self.prop, *self.also]
        named = listed(prop.replace("-", " ") for prop in kept)
        if not self.promised:
            return f"not the lock's: {self.system} never promised {named}."
        # What followed from it is not the same in every run.
        rows = [run.properties for run in self.runs]
        broken = [p for p in kept if any(p in row and row[p].promised for row in rows)]
        named = listed(prop.replace("-", " ") for prop in broken)
        return f"the lock's: {self.system} broke its promise of {named}."

    @property
    def first(self) -> Result:
        """The first run that shows it."""
        return self.runs[0]

    @property
    def sentence(self) -> str:
        """What happened in the first run: its cause, if one is known."""
        one = self.first.properties[self.prop]
        return one.cause or one.sentence


def failures(results: Iterable[Result]) -> list[Failure]:
    """Each failure once: broken promises first, two holders and late writes before all else, then
    those that more runs show."""
    results = [one for one in results if not failed(one)]
    by_key: dict[tuple[str, str, str, bool], Failure] = {}
    for result in results:
        for (prop, one), also in _led(result):
            key = (result.system, prop, one.kind, one.promised)
            failure = by_key.setdefault(
                key, Failure(system=result.system, prop=prop, kind=one.kind, promised=one.promised)
            )
            failure.also.update(dict.fromkeys(also))
            failure.faults[_faults(result)] = None
            failure.runs.append(result)
            failure.early += _early(one, result)
    for failure in by_key.values():
        alike = (one for one in results if one.system == failure.system)
        failure.of = sum(_faults(one) in failure.faults for one in alike)
    return sorted(
        by_key.values(),
        key=lambda one: (not one.promised, _place(one.prop), -len(one.runs), one.system),
    )


def _place(prop: str) -> int:
    """Of a property in the order of PROPERTIES, which begins with the worst that can happen."""
    return list(PROPERTIES).index(prop) if prop in PROPERTIES else len(PROPERTIES)


def _early(one: Outcome, result: Result) -> bool:
    """Whether a run with faults violated a property only before the first of them."""
    under = [kind for kind, verdict in one.under.items() if verdict is Verdict.VIOLATED]
    return under == [CALM] and _faults(result) != CALM


def _faults(result: Result) -> str:
    return staged(result.scenario) if result.scenario else result.nemesis


def _led(result: Result) -> Iterator[tuple[tuple[str, Outcome], list[str]]]:
    """The violated properties of a run, each with the others of the same cause below it."""
    rows = [row for row in result.properties.items() if row[1].verdict is Verdict.VIOLATED]
    # Where a promise was broken, the property that was promised leads.
    rows.sort(key=lambda row: (not row[1].promised, _place(row[0])))
    groups: dict[str, list[tuple[str, Outcome]]] = {}
    for prop, one in rows:
        groups.setdefault(one.cause or f"{prop}: {one.kind}", []).append((prop, one))
    for group in groups.values():
        yield group[0], [prop for prop, _ in group[1:]]


def left_unknown(results: Sequence[Result]) -> list[tuple[str, LeftUnknown]]:
    """What the runs of each system together left unknown of its promises, each cause once."""
    systems: dict[str, list[Result]] = {}
    for result in results:
        systems.setdefault(result.system, []).append(result)
    return [(system, part) for system, runs in systems.items() for part in sums.left_unknown(runs)]
