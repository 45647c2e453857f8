"""A run drawn with matplotlib: who held which lock when, faults, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.harness.core import extras
from holdfast.harness.core.clock import SECOND

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.api.run import Run

FAULT, FINDING = "#d9d9d9", "#c0392b"


def draw(run: Run, ax: Axes | None, between: tuple[float, float] | None, lanes: str) -> Axes:
    """See `Run.plot`."""
    pyplot = extras.load("matplotlib.pyplot", "a plot")
    ax = pyplot.subplots(figsize=(10, 3))[1] if ax is None else ax
    end = (run.case.end_ns - run.case.start_ns) / SECOND
    first, last = between or (0.0, end)
    holds, faults = run.holds(), run.faults()
    holds = holds[(holds["to"] >= first) & (holds["from"] <= last)]
    for fault in faults[faults["effective"].fillna(False)].itertuples():
        ax.axvspan(max(fault[5], first), min(fault[6], last), color=FAULT, zorder=0)
    bars = "lock" if lanes == "client" else "client"
    colours = {name: f"C{n % 10}" for n, name in enumerate(sorted(holds[bars].unique()))}
    names = sorted(holds[lanes].unique(), reverse=True)
    for n, lane in enumerate(names):
        mine = holds[holds[lanes] == lane]
        begins = mine["from"].clip(lower=first)
        spans = list(zip(begins, mine["to"].clip(upper=last) - begins, strict=True))
        ax.broken_barh(spans, (n - 0.35, 0.7), facecolors=[colours[name] for name in mine[bars]])
    for finding in run.findings().itertuples():
        if first <= finding.t <= last:
            ax.axvline(finding.t, color=FINDING, linewidth=1)
    ax.set_yticks(range(len(names)), names)
    ax.set_xlim(first, last)
    ax.set_xlabel("seconds since the workload began")
    ax.set_title(f"{run.system}, seed {run.seed}: {run.verdict}")
    return ax
