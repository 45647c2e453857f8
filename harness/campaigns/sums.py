"""One property under one kind of fault, summed over runs: verdict, opportunities, bound.

Opportunities come in clusters (the best fifth of runs has half of them), so a bound counts the runs
that have at least one, never opportunities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.harness.campaigns.results import Outcome, Result, failed
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.left_unknown import LeftUnknown, Tried, once


@dataclass(slots=True)
class RowSum:
    """Opportunities of one row of the table over several runs.

    runs     with at least one opportunity; staged: that contain what the row is about
    count    number of opportunities; asked: as in `Tried`
    nearest  the nearest miss of the first run that staged the row and had no opportunity, else of
             the first run; command: of that run, which makes an opportunity; missed: whether it
             staged the row
    """

    sentence: str = ""
    runs: int = 0
    staged: int = 0
    count: int = 0
    asked: bool = False
    nearest: str = ""
    command: str = ""
    missed: bool = False

    def add(self, one: Tried, result: Result) -> None:
        """Count one run."""
        self.sentence = self.sentence or one.sentence
        self.runs += one.count > 0
        self.staged += one.staged
        self.asked |= one.asked
        self.count += one.count
        better = one.staged and not self.missed
        if not one.count and (better or not self.nearest):
            self.nearest, self.command = one.nearest, result.remedy or self.command
            self.missed = one.staged

    def plus(self, other: RowSum) -> RowSum:
        """The sum of both."""
        first, then = (other, self) if other.missed and not self.missed else (self, other)
        return RowSum(
            sentence=self.sentence or other.sentence,
            runs=self.runs + other.runs,
            staged=self.staged + other.staged,
            count=self.count + other.count,
            asked=self.asked or other.asked,
            nearest=first.nearest or then.nearest,
            command=first.command or then.command,
            missed=self.missed or other.missed,
        )


@dataclass(slots=True)
class FaultSum:
    """The runs of one property under one kind of fault, or without faults.

    held, violated   runs in which it was so
    unknown          runs in which it was not exercised; reason: of the first of them whose reason
                     is not a lack of opportunities; command: of the first that has one
    tried            runs that did not violate it and had an opportunity of any row
    rows             of the table of opportunities, {} if it has none for this kind
    """

    held: int = 0
    violated: int = 0
    unknown: int = 0
    tried: int = 0
    reason: str = ""
    command: str = ""
    rows: dict[str, RowSum] = field(default_factory=dict)

    def add(self, result: Result, one: Outcome, fault: str) -> None:
        """Count one run. fault: a kind, or kinds of a violation joined by "+"."""
        verdict = one.under.get(fault, Verdict.UNKNOWN if fault in one.lacks else one.verdict)
        # A violation stands; of an incomplete history the rest is not known.
        if result.problems and verdict is Verdict.HOLDS:
            verdict = Verdict.UNKNOWN
        self.add_as(result, one, verdict, (fault,))

    def add_as(self, result: Result, one: Outcome, verdict: Verdict, faults: Iterable[str]) -> None:
        """Count one run with this verdict, and its opportunities under these kinds of fault."""
        self.held += verdict is Verdict.HOLDS
        self.violated += verdict is Verdict.VIOLATED
        self.unknown += verdict is Verdict.UNKNOWN
        faults = list(faults)
        lacking = [kind for kind in faults if one.under.get(kind) is Verdict.UNKNOWN]
        short = bool(lacking) and all(kind in one.short for kind in lacking)
        if verdict is Verdict.UNKNOWN:
            self.command = self.command or result.remedy
            if not short or result.problems:
                why = next((one.lacks[kind] for kind in faults if kind in one.lacks), one.reason)
                self.reason = self.reason or why
                return
        seen = {
            row if len(faults) == 1 else f"{kind}: {row}": tried
            for kind in faults
            for row, tried in one.seen.get(kind, {}).items()
        }
        for row, tried in seen.items():
            self.rows.setdefault(row, RowSum()).add(tried, result)
        some = any(tried.count for tried in seen.values())
        self.tried += some and verdict is not Verdict.VIOLATED

    def plus(self, other: FaultSum) -> FaultSum:
        """The sum of both."""
        empty = RowSum()
        return FaultSum(
            held=self.held + other.held,
            violated=self.violated + other.violated,
            unknown=self.unknown + other.unknown,
            tried=self.tried + other.tried,
            reason=self.reason or other.reason,
            command=self.command or other.command,
            rows={
                name: self.rows.get(name, empty).plus(other.rows.get(name, empty))
                for name in (*self.rows, *(one for one in other.rows if one not in self.rows))
            },
        )

    @property
    def needed(self) -> Mapping[str, RowSum]:
        """The rows that any run staged, else all."""
        staged = {name: row for name, row in self.rows.items() if row.staged}
        return staged or self.rows

    @property
    def missing(self) -> Mapping[str, RowSum]:
        """The needed rows without an opportunity in any run."""
        return {name: row for name, row in self.needed.items() if not row.count}

    @property
    def unstaged(self) -> Mapping[str, RowSum]:
        """The rows that the plans are about and no run staged."""
        return {name: row for name, row in self.rows.items() if row.asked and not row.staged}

    @property
    def verdict(self) -> Verdict:
        """Violated if it is in any run. Held if each needed row has an opportunity in some run;
        without rows, if it held in any."""
        if self.violated:
            return Verdict.VIOLATED
        kept = not self.missing if self.rows else self.held > 0
        return Verdict.HOLDS if kept else Verdict.UNKNOWN

    @property
    def bounded(self) -> int:
        """Number of runs without a violation that a rate counts: without rows, those that held;
        else those with an opportunity, and if no run violated it those with one of the row that the
        fewest had."""
        if not self.rows:
            return self.held
        if self.violated:
            return self.tried
        return min((row.runs for row in self.needed.values()), default=0)

    @property
    def judged(self) -> int:
        """Number of runs of which `violated` is a share."""
        return self.violated + self.bounded

    @property
    def opportunities(self) -> int:
        """Number of opportunities, of all rows."""
        return sum(row.count for row in self.rows.values())

    def left_unknown(self, prop: str, fault: str, *, promised: bool) -> tuple[LeftUnknown, ...]:
        """Why it is UNKNOWN, () if it is not."""
        if self.verdict is not Verdict.UNKNOWN:
            return ()
        part = LeftUnknown(
            properties=(prop,), faults=(fault,) if fault else (), cause="", promised=promised
        )
        if not self.missing:
            why = self.reason or "no reason recorded"
            return (replace(part, cause=why.rstrip("."), command=self.command),)
        return tuple(
            replace(
                part,
                cause=row.nearest,
                rows=(name,),
                wanted=(row.sentence,),
                command=row.command or self.command,
            )
            for name, row in self.missing.items()
        )


@dataclass(slots=True)
class PropertySum:
    """One property over several runs.

    verdicts   verdict -> runs; reason: of the first that is UNKNOWN
    promised   whether it is in any run
    faults     the same under each kind of fault; wanted: those under which it is promised, as far
               as a run has shown by lacking one
    """

    verdicts: dict[Verdict, int] = field(default_factory=dict)
    reason: str = ""
    command: str = ""
    promised: bool = False
    faults: dict[str, FaultSum] = field(default_factory=dict)
    wanted: dict[str, None] = field(default_factory=dict)

    def add(self, result: Result, one: Outcome) -> None:
        """Count one run."""
        self.verdicts[one.verdict] = self.verdicts.get(one.verdict, 0) + 1
        self.promised = self.promised or one.promised
        if one.verdict is Verdict.UNKNOWN:
            self.reason = self.reason or one.reason
            self.command = self.command or result.remedy
        self.wanted.update(dict.fromkeys(one.lacks))
        for fault in {**one.under, **one.lacks}:
            self.faults.setdefault(fault, FaultSum()).add(result, one, fault)

    @property
    def open(self) -> bool:
        """Whether no run violated or kept it, and neither does the sum under any kind."""
        decided = {Verdict.HOLDS, Verdict.VIOLATED}
        return not (decided & {*self.verdicts, *(one.verdict for one in self.faults.values())})

    @property
    def opportunities(self) -> int:
        """Number of opportunities, under all kinds of fault."""
        return sum(one.opportunities for one in self.faults.values())

    @property
    def tried(self) -> bool:
        """Whether each kind of fault that it lacks had an opportunity of some row at least."""
        return bool(self.wanted) and all(self.faults[kind].tried for kind in self.wanted)

    def lacking(self) -> list[str]:
        """The kinds of fault under which it is promised and UNKNOWN, summed over the runs."""
        return [one for one in self.wanted if self.faults[one].verdict is Verdict.UNKNOWN]

    def left_unknown(self, prop: str) -> list[LeftUnknown]:
        """What the runs leave unknown of it, each cause by itself."""
        lacking = self.lacking()
        if self.open and not any(self.faults[kind].missing for kind in lacking):
            why = self.reason.rstrip(".") or "no reason recorded"
            return [
                LeftUnknown(
                    properties=(prop,),
                    faults=(),
                    cause=why,
                    promised=self.promised,
                    command=self.command,
                )
            ]
        return [
            part
            for kind in lacking
            for part in self.faults[kind].left_unknown(prop, kind, promised=self.promised)
        ]


def of_properties(results: Iterable[Result]) -> dict[str, PropertySum]:
    """Each property over these runs, without those that could not be executed."""
    sums: dict[str, PropertySum] = {}
    for result in results:
        if failed(result):
            continue
        for prop, one in result.properties.items():
            sums.setdefault(prop, PropertySum()).add(result, one)
    return sums


def left_unknown(results: Iterable[Result]) -> tuple[LeftUnknown, ...]:
    """What runs of one system leave unknown of its promises, each cause once."""
    return once(
        part
        for prop, one in of_properties(results).items()
        if one.promised
        for part in one.left_unknown(prop)
    )


def least_tried(results: Iterable[Result]) -> tuple[str, str, FaultSum] | None:
    """The promise and the kind of fault with opportunities in the fewest runs of a system, None if
    the table has no rows for any that held."""
    systems: dict[str, list[Result]] = {}
    for result in results:
        systems.setdefault(result.system, []).append(result)
    held = [
        (prop, fault, one)
        for runs in systems.values()
        for prop, each in of_properties(runs).items()
        if each.promised
        for fault, one in each.faults.items()
        if one.rows and one.verdict is Verdict.HOLDS
    ]
    return min(held, key=lambda row: row[2].bounded, default=None)


def opportunities(result: Result) -> int | None:
    """Number of opportunities of a run's promises that count, alone or with those of other runs;
    None if the table has no rows for any of its kinds of fault."""
    if failed(result) or result.problems:
        return 0
    counts = [
        tried.count
        for one in result.properties.values()
        for fault, rows in one.seen.items()
        if one.promised and (one.under.get(fault) is not Verdict.UNKNOWN or fault in one.short)
        for tried in rows.values()
    ]
    concerned = any(one.seen for one in result.properties.values() if one.promised)
    return sum(counts) if concerned else None
