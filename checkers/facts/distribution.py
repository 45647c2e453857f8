"""Distribution of durations for reports: quantiles and a histogram of at most 40 bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdfast.harness.verdicts.evidence import Dist, Histogram

MAX_BINS = 40
PER_DECADE = 10


def dist(values: Sequence[int] | npt.NDArray[np.int64]) -> Dist:
    """The distribution of durations in ns.

    Without values, only n and an empty histogram. Edges are logarithmic, ten per decade or as many
    as 40 bins allow; linear if a duration is <= 0.
    """
    spans = np.asarray(values, np.int64)
    if not len(spans):
        return Dist(histogram=Histogram())
    p50, p90, p99 = (int(q) for q in np.percentile(spans, (50, 90, 99), method="higher"))
    edges = _edges(int(spans.min()), int(spans.max()))
    counts, _ = np.histogram(spans, edges)
    return Dist(
        n=len(spans),
        min=int(spans.min()),
        p50=p50,
        p90=p90,
        p99=p99,
        max=int(spans.max()),
        mean=round(float(spans.mean())),
        histogram=Histogram(edges_ns=tuple(edges.tolist()), counts=tuple(counts.tolist())),
    )


def _edges(low: int, high: int) -> npt.NDArray[np.int64]:
    """Whole, strictly increasing edges; every duration lies between the first and the last."""
    if low <= 0:
        edges = np.linspace(low, high + 1, 21)
    else:
        bins = int(np.ceil(PER_DECADE * np.log10((high + 1) / low)))
        edges = np.geomspace(low, high + 1, min(max(bins, 1), MAX_BINS) + 1)
    whole = np.unique(np.floor(edges).astype(np.int64))
    whole[0], whole[-1] = low, high + 1
    return whole
