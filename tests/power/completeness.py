"""Whether each finding of a planted bug lies at an opportunity: if not, the table of opportunities
lacks a row, or the row is wrong, and a lock with that bug may be said to hold.

    python -m tests.power.completeness [FINDS [SEEDS [BUG ...]]]

A planted bug is searched in seeds of the swarm, as `holdfast sim` samples them, until so many have
a finding of a property with rows under a kind of fault. A bug that shows without faults as well may
show under one by chance: then the opportunity is that of the property's needs, which do not ask for
a fault. Whether it shows without faults is tried, with the same seeds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.checkers.opportunities.table import every_row
from holdfast.engine import seed_search, swarm
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judgement
from holdfast.planning import prepare

WITH_ROWS = frozenset(row.property for row in every_row())
WITHOUT_FAULTS = {
    "mutual-exclusion": "acquires during a judged hold",
    "token-order": "grants after another client's",
    "starvation-freedom": "waits with another behind",
    "bounded-bypass": "waits with another behind",
    "bounded-wait": "waits with another behind",
}
"""property -> the count of what could have shown it without a fault; the rows of others are about
the same places under any fault."""
OF_OTHER_PROPERTIES = frozenset({"deadlock", "livelock"})
"""Kinds of findings that violate starvation freedom too, and show where no queue is served."""
SYSTEMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "single": ("single", {}),
    "majority": ("majority", {}),
    "redlock": ("redlock", {"persistence": "none"}),
}
"""Locks that lose grants without a mutant: they keep them in the memory of their processes."""


@dataclass(slots=True)
class Counted:
    """One planted bug.

    finds   seeds with a finding where the table has a row
    met     findings at an opportunity of a row
    calm    others, at an opportunity that needs no fault, of a bug that shows without faults
    misses  the rest: "property under kinds of fault" -> seeds
    bare    the same where no row applies, such as a cut of one server only -> number
    """

    seeds: int = 0
    finds: int = 0
    met: int = 0
    calm: int = 0
    misses: dict[str, list[int]] = field(default_factory=dict)
    bare: dict[str, int] = field(default_factory=dict)


class Bug:
    """A planted bug, and its seeds."""

    def __init__(self, system: str, options: Mapping[str, str]) -> None:
        self._system, self._options = system, options
        self._calm: dict[str, bool] = {}

    def judged(self, seed: int, *, faults: bool = True) -> Sequence[Judgement]:
        """The verdicts of a seed, or of the same without its faults; () if nothing started."""
        nodes = catalogue.SYSTEMS[self._system].nodes
        plan: Plan = swarm.draw(seed, self._system, nodes, self._options)
        prepared = prepare.prepared(plan if faults else replace(plan, nemeses=()))
        try:
            ran = seed_search.in_memory(prepare.manifest(prepared, f"sim-{seed}", ""))
        except EnvironmentFailed:
            return ()
        verdicts = ran.verdicts.verdicts
        del ran
        gc.collect()
        return verdicts

    def shows_without_faults(self, prop: str, seeds: int = 40) -> bool:
        """Whether any of the first seeds violates a property without its faults."""
        if prop not in self._calm:
            self._calm[prop] = any(
                one.property == prop and one.verdict is Verdict.VIOLATED
                for seed in range(1, seeds + 1)
                for one in self.judged(seed, faults=False)
            )
        return self._calm[prop]


def planted() -> dict[str, Bug]:
    """All planted bugs that a property with rows can show."""
    named = {
        name: Bug(row.system, {"mutant": name})
        for name, row in MUTANTS.items()
        if row.breaks in WITH_ROWS
    }
    return {**named, **{name: Bug(*of) for name, of in SYSTEMS.items()}}


def places(verdicts: Iterable[Judgement]) -> Iterator[tuple[Judgement, str, list[int]]]:
    """Each property, the kinds of fault under which it is violated, and the number of opportunities
    of each row there."""
    for verdict in verdicts:
        for kinds, under in verdict.under.items():
            of = {verdict.findings[place].kind for place in under.findings}
            own = not of or of - OF_OTHER_PROPERTIES
            if under.verdict is Verdict.VIOLATED and kinds != "none" and own:
                yield verdict, kinds, _rows(verdict, kinds)


def _rows(verdict: Judgement, kinds: str) -> list[int]:
    """The number of opportunities of each row under some of these kinds, joined by "+"."""
    return [
        one.count
        for kind in kinds.split("+")
        if kind in verdict.under
        for one in verdict.under[kind].opportunities
    ]


def count(bug: Bug, seeds: Iterable[int], finds: int) -> Counted:
    """Judges seeds until so many have a finding of a property with rows."""
    counted = Counted()
    for seed in seeds:
        if counted.finds >= finds:
            break
        counted.seeds += 1
        some = False
        for verdict, kinds, rows in places(bug.judged(seed)):
            prop, where = verdict.property, f"{verdict.property} under {kinds}"
            without = verdict.exercised.get(WITHOUT_FAULTS.get(prop, ""), 0)
            some |= bool(rows)
            if not rows:
                counted.bare[where] = counted.bare.get(where, 0) + 1
            elif any(rows):
                counted.met += 1
            elif without and bug.shows_without_faults(prop):
                counted.calm += 1
            else:
                counted.misses.setdefault(where, []).append(seed)
        counted.finds += some
    return counted


def main(words: Sequence[str]) -> int:
    """Prints a line per planted bug; 1 if a finding has no opportunity."""
    finds, seeds = int(words[0]) if words else 10, int(words[1]) if words[1:] else 200
    every, missed = planted(), 0
    seed_search.warm()
    for name in words[2:] or every:
        counted = count(every[name], range(1, seeds + 1), finds)
        lost = sum(len(one) for one in counted.misses.values())
        missed += lost
        lines = [
            f"{name:24} {counted.seeds:4} seeds {counted.met:4} at rows {counted.calm:4} without"
            f" faults {lost:3} missed {sum(counted.bare.values()):3} where no row applies"
        ]
        lines += [f"    {where}: seeds {of}" for where, of in counted.misses.items()]
        lines += [f"    no row: {where} ({n})" for where, n in counted.bare.items()]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
