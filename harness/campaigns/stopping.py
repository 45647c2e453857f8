"""Sequential stopping: a cell of a campaign needs no more runs once its properties are decided.

While its promises lack opportunities, and nothing else, it needs further ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.harness.campaigns.results import Result, failed
from holdfast.harness.campaigns.sums import FaultSum, PropertySum
from holdfast.harness.core.statistics import none_in

LEAST = 30
"""So many runs a cell has at least, so that what none of them exercised is hard to exercise."""


class Decided:
    """Which cells are decided, from the results so far.

    A property under a kind of fault is decided once a run violated it, or once so many runs held
    it that its violation rate is below the cell's bound (95 %); where opportunities are counted,
    so many runs with one of each row of the table. A cell is decided once it has
    LEAST runs and everything that they exercised is decided; one that exercised nothing is open.
    A run that had problems holds nothing; one that could not be executed does not count.

    bounds   cell -> bound of a rate; 0: never decided
    """

    def __init__(self, bounds: Iterable[float]) -> None:
        self._bounds = list(bounds)
        self._runs = [0] * len(self._bounds)
        self._sums: list[dict[tuple[str, str], FaultSum]] = [{} for _ in self._bounds]

    def add(self, cell: int, result: Result) -> None:
        """Count one finished run of a cell."""
        if failed(result):
            return
        self._runs[cell] += 1
        for prop, one in result.properties.items():
            for kinds in one.under or ("",):
                self._sums[cell].setdefault((prop, kinds), FaultSum()).add(result, one, kinds)

    def seen(self, cell: int) -> frozenset[str]:
        """The properties that a run of a cell violated; nothing of a cell without a bound."""
        if not self._bounds[cell]:
            return frozenset()
        return frozenset(prop for (prop, _), one in self._sums[cell].items() if one.violated)

    def __call__(self, cell: int) -> bool:
        """Whether a cell needs no more runs."""
        bound, known = self._bounds[cell], self._sums[cell].values()
        judged = [one for one in known if one.held or one.violated or one.tried]
        if not (bound > 0 and judged and self._runs[cell] >= LEAST):
            return False
        return all(one.violated or none_in(one.bounded) < bound for one in judged)


class Lacking:
    """Which cells lack opportunities, and nothing else, from the results so far.

    cells   their number
    """

    def __init__(self, cells: int) -> None:
        self._sums: list[dict[str, PropertySum]] = [{} for _ in range(cells)]
        self._broken = [False] * cells

    def add(self, cell: int, result: Result) -> None:
        """Count one finished run of a cell."""
        self._broken[cell] |= bool(result.broken())
        for prop, one in result.properties.items() if not failed(result) else ():
            self._sums[cell].setdefault(prop, PropertySum()).add(result, one)

    def __call__(self, cell: int) -> bool:
        """Whether further runs can answer what is unknown of its promises."""
        promised = [one for one in self._sums[cell].values() if one.promised]
        return not self._broken[cell] and any(
            one.faults[kind].missing for one in promised for kind in one.lacking()
        )
