"""Rows of a table about the trend of each cell: first violation, rate, flakiness, runs in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from holdfast.harness.campaigns.trend import ENVIRONMENT, CellTrend, TrendRun
from holdfast.reports.pictures.run_strip import run_strip
from holdfast.reports.text.formatting import listed, percent

SEEDS_NAMED = 4


def trend_rows(trends: Sequence[CellTrend]) -> list[dict[str, object]]:
    """One row per cell, in the order of the trends."""
    return [_row(trend, number) for number, trend in enumerate(trends)]


def flaky_words(trend: CellTrend) -> str:
    """Whether the cell is flaky, and how that is known; "" if it is not."""
    if not trend.flaky:
        return ""
    seeds = [str(seed) for seed in trend.unsteady_seeds[:SEEDS_NAMED]]
    if not seeds:
        return "flaky: some seeds only"
    more = "…" if len(trend.unsteady_seeds) > SEEDS_NAMED else ""
    return f"flaky: seed {listed(seeds)}{more} broke a promise in one run and kept it in another"


def _row(trend: CellTrend, number: int) -> dict[str, object]:
    low, high = trend.rate
    broken, failed = trend.broken, sum(one.state == ENVIRONMENT for one in trend.seen)
    rate = f"{percent(low)} to {percent(high)}" if broken else f"below {percent(high)}"
    if not trend.judged:
        rate = "unknown: no conclusive run"
    return {
        "cell": trend.cell,
        "runs": len(trend.seen),
        "judged": trend.judged,
        "opportunities": trend.opportunities,
        "failed": failed,
        "broken": len(broken),
        "rate": rate,
        "first": _moment(broken[0]) if broken else None,
        "last": _moment(broken[-1]) if broken else None,
        "flaky": flaky_words(trend),
        "strip": run_strip(trend, number),
    }


def _moment(seen: TrendRun) -> Mapping[str, str]:
    when = f"{datetime.fromtimestamp(seen.at, UTC):%Y-%m-%d %H:%M}" if seen.at else ""
    return {"when": when, "seed": str(seen.seed), "id": seen.id, "link": quote(seen.id, safe="")}
