"""Charts: a distribution with its quantiles, fencing tokens in order of grants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from holdfast.harness.verdicts.evidence import Dist
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.pictures.svg import (
    Scale,
    add,
    full,
    linear,
    markup,
    percent,
    picture,
    place_labels,
    round_ticks,
    spot,
    wide,
)
from holdfast.reports.text.formatting import NS, seconds, span

LABELS_PX, BARS_PX, TOKENS_PX = 36, 74, 150
MOST_POINTS = 600
SMALL_PX = 330
"""Width of a distribution if two are side by side."""


def distribution(name: str, title: str, dist: Dist) -> Markup | None:
    """Bars over durations with lines at p50 and p99; None if there is nothing to draw."""
    bins = dist.histogram
    if bins is None or not dist.n or len(bins.edges_ns) != len(bins.counts) + 1:
        return None
    if not any(bins.counts) or list(bins.edges_ns) != sorted(bins.edges_ns):
        return None
    logarithmic = _logarithmic(bins.edges_ns)
    scale = linear(_room(bins.edges_ns[0], logarithmic), _room(bins.edges_ns[-1], logarithmic))
    quantiles = [(label, q) for label, q in (("p50", dist.p50), ("p99", dist.p99)) if q is not None]
    ticks = [(scale(_room(q, logarithmic)), f"{label} {span(q)}") for label, q in quantiles]
    placed = place_labels(ticks, SMALL_PX)
    bottom = LABELS_PX + BARS_PX
    words = f"{dist.n:,} values, " + ", ".join(f"{label} {span(q)}" for label, q in quantiles)
    whole = picture(name, bottom + 22, title, words)
    root = full(whole)
    peak = max(bins.counts)
    for n, (low, high) in zip(bins.counts, pairwise(bins.edges_ns), strict=True):
        if n:
            start, end = (scale(_room(edge, logarithmic)) for edge in (low, high))
            height = max(BARS_PX * n / peak, 1.5)
            box = {"x": percent(start), "width": wide(end - start)}
            add(root, "rect", **box, y=bottom - height, height=height, class_="bin")
    for label in placed:
        share, text = ticks[label.index]
        place = spot(root, share, 0)
        y = LABELS_PX - 8 - label.level * 16
        top = y + 3 if label.across else y - 9
        add(place, "line", x1=0, x2=0, y1=top, y2=bottom, class_="quantile")
        add(place, "text", text, x=label.dx, y=y, text_anchor=label.anchor, class_="event")
    add(root, "line", x1=percent(0), x2=percent(1), y1=bottom, y2=bottom, class_="axis")
    edges = ((0.0, "start", bins.edges_ns[0]), (1.0, "end", bins.edges_ns[-1]))
    for share, anchor, edge in edges:
        place = spot(root, share, bottom + 15)
        add(place, "text", span(edge), x=0, y=0, text_anchor=anchor, class_="unit")
    kind = "logarithmic axis" if logarithmic else "linear axis"
    place = spot(root, 0.5, bottom + 15)
    add(place, "text", kind, x=0, y=0, text_anchor="middle", class_="caption")
    return markup(whole)


def tokens(run: Judged) -> Markup | None:
    """Every logged grant as a point at its time and token; a decreasing token is a red triangle."""
    log = [entry for entry in run.evidence.tokens.log if entry[2] >= 0]
    if len(log) < 2:
        return None
    fallen = falls(log)
    scale = linear(run.start_ns, max(run.end_ns, run.start_ns + 1))
    values = [entry[2] for entry in log]
    height = linear(min(values), max(max(values), min(values) + 1))
    bottom = 14 + TOKENS_PX
    words = f"{len(log):,} grants, tokens {min(values)} to {max(values)}, {len(fallen)} steps down."
    root = picture("tokens", bottom + 40, "Fencing tokens in order of their grants", words)
    for value in round_ticks(min(values), max(values), 5):
        y = _up(height, value, bottom)
        add(root, "line", x1=percent(0), x2=percent(1), y1=y, y2=y, class_="base")
        add(spot(root, 0, y), "text", f"{value:g}", x=-8, y=4, text_anchor="end", class_="unit")
    stride = max(len(log) // MOST_POINTS, 1)
    for i, (t_ns, _, token, _) in enumerate(log):
        place_y = _up(height, token, bottom)
        if i in fallen:
            place = spot(root, scale(t_ns), place_y)
            add(place, "path", d="M-6 -5L6 -5L0 6Z", class_="fallen")
            text = f"token {token} at {seconds(run.at(t_ns))}"
            anchor, dx = ("start", 10) if scale(t_ns) < 0.7 else ("end", -10)
            add(place, "text", text, x=dx, y=10, text_anchor=anchor, class_="event guilty")
        elif i % stride == 0:
            add(root, "circle", cx=percent(scale(t_ns)), cy=place_y, r=2.4, class_="point")
    add(root, "line", x1=percent(0), x2=percent(1), y1=bottom, y2=bottom, class_="axis")
    for tick in round_ticks(0, run.at(run.end_ns) / NS, 10):
        place = spot(root, scale(run.start_ns + tick * NS), bottom)
        add(place, "text", f"{tick:g}", x=0, y=17, text_anchor="middle", class_="unit")
    caption = "fencing token over seconds since the start of the run"
    add(root, "text", caption, x=percent(1), y=bottom + 36, text_anchor="end", class_="caption")
    return markup(root)


def falls(log: Sequence[tuple[int, str, int, int]]) -> set[int]:
    """Indices of grants whose token is not larger than its predecessor on the same lock."""
    highest: dict[str, int] = {}
    fallen = set()
    for i, (_, lock, token, _) in enumerate(log):
        if token >= 0 and token <= highest.get(lock, -1):
            fallen.add(i)
        highest[lock] = token
    return fallen


def _logarithmic(edges: Sequence[float]) -> bool:
    """Whether the widths of bins differ so much that a logarithmic axis is needed."""
    return edges[0] > 0 and edges[-1] - edges[-2] > 2 * (edges[1] - edges[0])


def _room(value: float, logarithmic: bool) -> float:
    return math.log10(max(value, 1e-9)) if logarithmic else value


def _up(height: Scale, value: float, bottom: float) -> float:
    return bottom - 6 - (TOKENS_PX - 12) * height(value)
