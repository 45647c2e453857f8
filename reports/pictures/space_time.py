"""Draws a causal chain as a space-time diagram: a line per node, arrows for messages."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.harness.verdicts.judged import ObservedFault
from holdfast.reports.pictures.finding import fault_words, pattern
from holdfast.reports.pictures.svg import (
    Scale,
    add,
    by_order,
    markup,
    percent,
    picture,
    spot,
    wide,
)
from holdfast.reports.text.formatting import plain, seconds

LANE_PX, TOP_PX, LINE_PX = 44.0, 50.0, 17.0
WIDE_PX = 1000.0
DISC = 9.0
MOST_CHARACTERS, LINE_CHARACTERS = 400, 135
CLOSE_NS = 1_000_000
"""Times nearer to each other than this are shown in microseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A step of the chain. text: its sentence, without its time; guilty: drawn in red."""

    lane: str
    t_ns: int
    text: str
    guilty: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """What leads from one lane to another, or from a time of a lane to a later one.

    message   a message; else the node kept its state, or set a timer
    """

    source: str
    sent_ns: int
    target: str
    t_ns: int
    message: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagram:
    """A chain: its steps in order, its arrows, the faults that act in it.

    start_ns   of the run; times are shown since then
    """

    title: str
    points: Sequence[Point]
    arrows: Sequence[Arrow]
    faults: Sequence[ObservedFault]
    start_ns: int


def draw_space_time(diagram: Diagram) -> Markup:
    """The diagram with its sentences below; equal space between successive times."""
    lanes = list(
        dict.fromkeys(
            [point.lane for point in diagram.points]
            + [name for arrow in diagram.arrows for name in (arrow.source, arrow.target)]
        )
    )
    lanes.sort()
    heights = {name: TOP_PX + LANE_PX * (n + 0.5) for n, name in enumerate(lanes)}
    times = [point.t_ns for point in diagram.points]
    times += [arrow.sent_ns for arrow in diagram.arrows]
    scale = by_order(times)
    bottom = TOP_PX + LANE_PX * len(lanes)
    sentences = [
        f"{n}. {seconds(point.t_ns - diagram.start_ns, 6)} {point.text}"
        for n, point in enumerate(diagram.points, 1)
    ]
    lines = [
        (point.guilty, line)
        for point, text in zip(diagram.points, sentences, strict=True)
        for line in textwrap.wrap(plain(text, MOST_CHARACTERS), LINE_CHARACTERS)
    ]
    below = bottom + 46 + LINE_PX * len(lines)
    root = picture("space-time", below, diagram.title, "; ".join(sentences))
    root.set("class", "picture tone-broken")
    root.set("width", f"{WIDE_PX:g}")
    add(root, "text", diagram.title, x=0, y=14, class_="lane")
    for fault in diagram.faults:
        _draw_fault(root, fault, scale, heights, bottom)
    for name, y in heights.items():
        add(root, "text", plain(name, 13), x=0, y=y + 4, class_="lane")
        add(root, "line", x1=percent(0), x2=percent(1), y1=y, y2=y, class_="base")
    for arrow in diagram.arrows:
        _draw_arrow(root, arrow, scale, heights)
    _draw_points(root, diagram, scale, heights, bottom)
    for n, (guilty, line) in enumerate(lines):
        mark = "event guilty" if guilty else "event"
        add(root, "text", line, x=0, y=bottom + 46 + LINE_PX * n, class_=mark)
    return markup(root)


def _draw_fault(
    root: ET.Element, fault: ObservedFault, scale: Scale, heights: dict[str, float], bottom: float
) -> None:
    start, end = scale(fault.from_ns), scale(fault.to_ns)
    box = {"x": percent(start), "width": wide(end - start)}
    add(root, "rect", **box, y=TOP_PX - 8, height=bottom - TOP_PX + 8, class_="shade")
    for node in fault.nodes:
        if node in heights:
            fill = f"url(#hatch-{pattern(fault)})"
            y = heights[node] - LANE_PX / 2 + 4
            add(root, "rect", **box, y=y, height=LANE_PX - 8, fill=fill, class_="struck")
    words = spot(root, start, TOP_PX - 12)
    add(words, "text", fault_words(fault), x=4, y=0, class_="fault-name")


def _draw_arrow(root: ET.Element, arrow: Arrow, scale: Scale, heights: dict[str, float]) -> None:
    start, end = _place(scale, arrow.sent_ns), _place(scale, arrow.t_ns)
    y1, y2 = heights[arrow.source], heights[arrow.target]
    length = math.hypot(end - start, y2 - y1)
    if length <= 2 * DISC:
        return
    ux, uy = (end - start) / length, (y2 - y1) / length
    x1, y1 = start + ux * DISC, y1 + uy * DISC
    x2, y2 = end - ux * (DISC + 5), y2 - uy * (DISC + 5)
    kind = "call" if arrow.message else "call request"
    add(root, "line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)
    turn = math.degrees(math.atan2(uy, ux))
    tip = add(root, "g", transform=f"translate({x2:.1f} {y2:.1f}) rotate({turn:.0f})")
    add(tip, "path", d="M-3 -5L6 0L-3 5Z", class_="tip")


def _place(scale: Scale, t_ns: int) -> float:
    """A time in pixels: arrows need them, and the width of this picture is fixed."""
    return float(percent(scale(t_ns)).rstrip("%")) * WIDE_PX / 100


def _draw_points(
    root: ET.Element, diagram: Diagram, scale: Scale, heights: dict[str, float], bottom: float
) -> None:
    shown = dict[int, None]()
    times = sorted({point.t_ns for point in diagram.points})
    near = any(later - time < CLOSE_NS for time, later in pairwise(times))
    for n, point in enumerate(diagram.points, 1):
        x, y = _place(scale, point.t_ns), heights[point.lane]
        kind, name = ("dot guilty", "hold-name over") if point.guilty else ("hold", "hold-name")
        add(root, "circle", cx=x, cy=y, r=DISC, class_=kind)
        add(root, "text", str(n), x=x, y=y + 4, text_anchor="middle", class_=name)
        if point.t_ns not in shown:
            shown[point.t_ns] = None
            at = f"{(point.t_ns - diagram.start_ns) / 1e9:.{6 if near else 3}f}"
            level = bottom + 10 + 12 * (len(shown) % 2)
            add(root, "text", at, x=x, y=level, text_anchor="middle", class_="unit")
