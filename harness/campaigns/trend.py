"""The runs of each cell in the order in which they were made: first violation, rate, flakiness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.results import Result, failed
from holdfast.harness.core.statistics import clopper_pearson
from holdfast.harness.core.verdict import Verdict

BROKEN, LIMIT, HOLDS, UNKNOWN, ENVIRONMENT = "VIOLATED", "LIMIT", "HOLDS", "UNKNOWN", "ENVIRONMENT"
CONCLUSIVE = (BROKEN, LIMIT, HOLDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendRun:
    """One run of a cell. at: when it was made, seconds since the epoch, 0 if unknown; id: its name,
    or its directory; opportunities: of its promises, None if it counted none."""

    state: str
    seed: int
    id: str = ""
    at: float = 0.0
    opportunities: int | None = None

    @property
    def conclusive(self) -> bool:
        """Whether it broke a promise, or would have shown a lock that breaks one: where
        opportunities are counted, a run that kept all of what it exercised and had one."""
        if self.state in (BROKEN, LIMIT) or self.opportunities is None:
            return self.state in CONCLUSIVE
        return self.opportunities > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CellTrend:
    """The runs of one cell, the oldest first."""

    cell: str
    seen: tuple[TrendRun, ...]

    @property
    def broken(self) -> tuple[TrendRun, ...]:
        """The runs that broke a promise."""
        return tuple(one for one in self.seen if one.state == BROKEN)

    @property
    def judged(self) -> int:
        """Number of conclusive runs: those that broke a promise and those that kept all."""
        return sum(one.conclusive for one in self.seen)

    @property
    def opportunities(self) -> int:
        """Number of opportunities in all runs."""
        return sum(one.opportunities or 0 for one in self.seen)

    @property
    def rate(self) -> tuple[float, float]:
        """95% confidence interval of the share of conclusive runs that break a promise."""
        return clopper_pearson(len(self.broken), self.judged)

    @property
    def flaky(self) -> bool:
        """Whether some runs broke a promise and others kept all."""
        return 0 < len(self.broken) < self.judged

    @property
    def unsteady_seeds(self) -> tuple[int, ...]:
        """Seeds that broke a promise in one run and kept all in another."""
        broken = {one.seed for one in self.broken}
        return tuple(
            sorted({one.seed for one in self.seen if one.state in (HOLDS, LIMIT)} & broken)
        )


def state_of(result: Result) -> str:
    """The state of one run in one word: a documented limit is not a broken promise."""
    if failed(result):
        return ENVIRONMENT
    if result.exit_code != 0:
        return {1: BROKEN, 3: UNKNOWN}.get(result.exit_code, ENVIRONMENT)
    violated = any(one.verdict is Verdict.VIOLATED for one in result.properties.values())
    return LIMIT if violated else HOLDS


def trends(runs: Iterable[tuple[Result, str, float]]) -> list[CellTrend]:
    """The trend of each cell from (result, id, time) in the order of the runs; broken cells first,
    then those with a run that could not be judged, then the others; within each by name."""
    cells: dict[str, list[TrendRun]] = {}
    for result, ident, at in runs:
        one = TrendRun(
            state=state_of(result),
            seed=result.seed,
            id=ident,
            at=at,
            opportunities=sums.opportunities(result),
        )
        cells.setdefault(result.cell, []).append(one)
    made = [CellTrend(cell=cell, seen=tuple(seen)) for cell, seen in cells.items()]
    return sorted(made, key=_rank)


def _rank(trend: CellTrend) -> tuple[int, float, str]:
    states = [one.state for one in trend.seen]
    worst: Sequence[str] = (BROKEN, ENVIRONMENT, UNKNOWN, LIMIT, HOLDS)
    place = next(n for n, state in enumerate(worst) if state in states)
    return place, -len(trend.broken) / len(states), trend.cell
