"""What a run, or several runs, left unknown, in the words of every output.

That is: the properties, the kinds of fault, the cause in numbers, the one command that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Judgement

EXERCISE = "to exercise it"
"""Label of the command that exercises what is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """Opportunities of one row of the table in one run, as campaigns keep them: the fields of
    `judged.Opportunities`, without the witnesses.

    asked   whether the plan is about the row though the run may not have staged it: its faults
            strike any servers, and the row is about those that decide
    """

    count: int
    sentence: str = ""
    staged: bool = True
    nearest: str = ""
    asked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftUnknown:
    """Properties that are UNKNOWN for one cause.

    faults     the kinds of fault under which they are, () for all of them
    cause      what was missing, in numbers: the nearest miss of a row without opportunity
    rows       ids of the rows of the table of opportunities, () if the cause is another
    wanted     what an opportunity of these rows is, one clause each
    promised   whether the system promises one of them under one of these faults
    command    the command that exercises it, "" if none is known
    decided    False: it was tested, and the run proves that one of two things was violated
    """

    properties: tuple[str, ...]
    faults: tuple[str, ...]
    cause: str
    rows: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    promised: bool = False
    command: str = ""
    decided: bool = True

    @property
    def about(self) -> str:
        """The properties and the faults in words."""
        names = joined(one.replace("-", " ") for one in self.properties)
        return f"{names} under {joined(self.faults)}" if self.faults else names

    @property
    def sentence(self) -> str:
        """What is unknown and why, as two sentences."""
        how = "not tested" if self.decided else "not decided"
        return f"{capital(self.about)}: {how}. {capital(self.cause)}."

    def over(self, runs: int) -> str:
        """The same of a number of runs of a system whose name stands before."""
        under = f" under {joined(self.faults)}" if self.faults else ""
        all_ = f"any of {runs:,} runs" if runs != 1 else "the only run"
        return f"promised, but not tested{under} in {all_}: {self.cause}"

    def __str__(self) -> str:
        how = f" {EXERCISE.capitalize()}: {self.command}" if self.command else ""
        return f"{self.sentence}{how}"


def of_run(run: Judged) -> tuple[LeftUnknown, ...]:
    """What a run left unknown: each cause once, those of promised properties first.

    A property that it violated under one kind of fault is not listed.
    """
    parts = [
        part
        for row in run.verdicts
        if row.verdict is not Verdict.VIOLATED
        for part in _of_property(row)
    ]
    # The command is for what the system promises, and for the rest only if all of that is known.
    wanted = any(part.promised for part in parts)
    return once(
        replace(part, command=run.remedy if part.promised or not wanted else "") for part in parts
    )


def _of_property(row: Judgement) -> list[LeftUnknown]:
    """The causes of one property, one by one."""
    lacking = row.lacks()
    if row.either and row.verdict is Verdict.UNKNOWN:
        part = _part(row, (), row.either[0], promised=row.promised)
        return [replace(part, decided=False)]
    if row.verdict is Verdict.UNKNOWN and not _by_fault(row, lacking):
        return [_part(row, (), row.reason or "no reason recorded", promised=row.promised)]
    found = []
    for kind, reason in lacking.items():
        one = row.under[kind]
        told = one.promised and row.promised
        missing = [seen for seen in one.needed() if not seen.count] if one.short else []
        for seen in missing:
            part = _part(row, (kind,), seen.nearest, promised=told)
            found.append(replace(part, rows=(seen.row,), wanted=(seen.sentence,)))
        if not missing:
            found.append(_part(row, (kind,), reason, promised=told))
    return found


def _by_fault(row: Judgement, lacking: Mapping[str, str]) -> bool:
    """Whether what is missing under each kind of fault is all that a property lacks, and tells more
    than its own reason does."""
    own = set(row.reason.split("; "))
    short = any(row.under[kind].short for kind in lacking)
    differ = len(set(lacking.values())) > 1
    return (short or differ) and own == {
        part for why in lacking.values() for part in why.split("; ")
    }


def _part(row: Judgement, faults: tuple[str, ...], cause: str, *, promised: bool) -> LeftUnknown:
    return LeftUnknown(
        properties=(row.property,), faults=faults, cause=cause.rstrip("."), promised=promised
    )


def once(parts: Iterable[LeftUnknown]) -> tuple[LeftUnknown, ...]:
    """The same with each cause once, promised ones first.

    Causes of the same faults are one for all their properties, then those of the same properties
    one for all their faults.
    """
    merged = _merged(parts, lambda one: (one.cause, one.faults, one.command))
    merged = _merged(merged, lambda one: (one.cause, one.properties, not one.faults, one.command))
    return tuple(sorted(merged, key=lambda one: not one.promised))


def _merged(
    parts: Iterable[LeftUnknown], alike: Callable[[LeftUnknown], Hashable]
) -> list[LeftUnknown]:
    groups: dict[Hashable, list[LeftUnknown]] = {}
    for part in parts:
        groups.setdefault(alike(part), []).append(part)
    return [
        replace(
            group[0],
            properties=_each(part.properties for part in group),
            faults=_each(part.faults for part in group),
            rows=_each(part.rows for part in group),
            wanted=_each(part.wanted for part in group),
            promised=any(part.promised for part in group),
        )
        for group in groups.values()
    ]


def _each(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for part in parts for each in part))


def joined(items: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    names = list(items)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def capital(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]
