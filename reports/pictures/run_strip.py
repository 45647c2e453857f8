"""Draws the runs of a cell in their order: a mark per run, tall and red where a promise broke."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from holdfast.harness.campaigns.trend import BROKEN, ENVIRONMENT, HOLDS, LIMIT, UNKNOWN, CellTrend
from holdfast.reports.pictures.svg import add, markup, picture
from holdfast.reports.text.formatting import count, listed

MOST_RUNS, STEP_PX, TALL_PX = 60, 6.0, 20.0
SHAPES = {
    BROKEN: ("broken", TALL_PX),
    LIMIT: ("limit", 12.0),
    HOLDS: ("holds", 7.0),
    UNKNOWN: ("unknown", 7.0),
    ENVIRONMENT: ("failed", 3.0),
}
"""State -> style and height: the height tells states apart without colour."""
WORDS = {
    BROKEN: "broke a promise",
    LIMIT: "reached a limit",
    HOLDS: "held",
    UNKNOWN: "inconclusive",
    ENVIRONMENT: "not executed",
}


def run_strip(trend: CellTrend, number: int) -> Markup:
    """The last MOST_RUNS runs, the newest on the right; `number` is unique on the page."""
    shown = trend.seen[-MOST_RUNS:]
    counts = Counter(one.state for one in shown)
    states = listed(f"{n} {WORDS[state]}" for state, n in counts.items())
    title = f"{count(len(shown), 'run')}, the newest on the right"
    root = picture(f"strip-{number}", TALL_PX + 1, title, f"{title}: {states}")
    root.set("class", "picture strip")
    root.set("width", f"{STEP_PX * len(shown):g}")
    add(
        root,
        "line",
        x1=0,
        x2=STEP_PX * len(shown),
        y1=TALL_PX + 0.5,
        y2=TALL_PX + 0.5,
        class_="base",
    )
    for n, one in enumerate(shown):
        style, tall = SHAPES[one.state]
        y = TALL_PX - tall
        add(root, "rect", x=n * STEP_PX, y=y, width=STEP_PX - 1, height=tall, class_=f"run-{style}")
    return markup(root)
