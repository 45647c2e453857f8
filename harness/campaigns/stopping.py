"""Sequential stopping: a cell of a campaign needs no more runs once its properties are decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.harness.campaigns.results import Result, failed
from holdfast.harness.core.statistics import none_in
from holdfast.harness.core.verdict import Verdict

LEAST = 30
"""So many runs a cell has at least, so that what none of them exercised is hard to exercise."""


class Decided:
    """Which cells are decided, from the results so far.

    A property under a kind of fault is decided once a run violated it, or once so many runs held
    it that its violation rate is below the cell's bound (95 %). A cell is decided once it has
    LEAST runs and everything that they exercised is decided; one that exercised nothing is open.
    A run that had problems holds nothing; one that could not be executed does not count.

    bounds   cell -> bound of a rate; 0: never decided
    """

    def __init__(self, bounds: Iterable[float]) -> None:
        self._bounds = list(bounds)
        self._runs = [0] * len(self._bounds)
        self._held: list[Counter[tuple[str, str]]] = [Counter() for _ in self._bounds]
        self._violated: list[set[tuple[str, str]]] = [set() for _ in self._bounds]

    def add(self, cell: int, result: Result) -> None:
        """Count one finished run of a cell."""
        if failed(result):
            return
        self._runs[cell] += 1
        for prop, one in result.properties.items():
            for kinds, verdict in (one.under or {"": one.verdict}).items():
                if verdict is Verdict.VIOLATED:
                    self._violated[cell].add((prop, kinds))
                elif verdict is Verdict.HOLDS and not result.problems:
                    self._held[cell][prop, kinds] += 1

    def seen(self, cell: int) -> frozenset[str]:
        """The properties that a run of a cell violated; nothing of a cell without a bound."""
        return frozenset(prop for prop, _ in self._violated[cell] if self._bounds[cell])

    def __call__(self, cell: int) -> bool:
        """Whether a cell needs no more runs."""
        bound, held, violated = self._bounds[cell], self._held[cell], self._violated[cell]
        enough = (none_in(runs) < bound for what, runs in held.items() if what not in violated)
        told = self._runs[cell] >= LEAST and bool(held or violated)
        return bound > 0 and told and all(enough)
