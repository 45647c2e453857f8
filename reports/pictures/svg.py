"""SVG without a library: elements, a time scale, labels that do not collide, files.

Horizontal positions are percentages of the picture and vertical ones pixels, so that a picture
scales with the page while its text keeps its size.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.reports.text.formatting import plain

GUTTER, RIGHT = 0.12, 0.985
"""Begin and end of the plot, as fractions of the width of a picture."""

NARROW_PX = 519
"""Width of the plot on the narrowest page without horizontal scrolling."""

CHAR_PX = 6.5
GAP_PX = 6
"""Between a tick and its label."""

FEW = 4


def picture(name: str, height: float, title: str, description: str) -> ET.Element:
    """An empty picture with texts for screen readers; `name` is unique on a page."""
    root = ET.Element(
        "svg",
        {
            "class": "picture",
            "width": "100%",
            "height": f"{height:g}",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
        },
    )
    add(root, "title", title, id=f"{name}-title")
    add(root, "desc", description, id=f"{name}-desc")
    return root


def add(parent: ET.Element, tag: str, text: str = "", **attributes: str | float) -> ET.Element:
    """A child element; `class_` is class, `font_size` font-size; text is escaped."""
    element = ET.SubElement(
        parent,
        tag,
        {
            name.rstrip("_").replace("_", "-"): (
                value if isinstance(value, str) else f"{value:.3f}".rstrip("0").rstrip(".")
            )
            for name, value in attributes.items()
        },
    )
    if text:
        element.text = plain(text, 2000)
    return element


def spot(parent: ET.Element, share: float, y: float) -> ET.Element:
    """A group at a fraction of the plot whose children are drawn in pixels around it."""
    return add(parent, "svg", x=percent(share), y=y, overflow="visible")


def full(root: ET.Element) -> ET.Element:
    """A plot without space for names on its left."""
    width = 1 / (RIGHT - GUTTER)
    return add(
        root,
        "svg",
        x=f"{-100 * GUTTER * width:.3f}%",
        width=f"{100 * width:.3f}%",
        height="100%",
        overflow="visible",
    )


def percent(share: float) -> str:
    """A fraction of the plot (0 left, 1 right) as a position in the picture."""
    return f"{100 * (GUTTER + (RIGHT - GUTTER) * share):.3f}%"


def wide(share: float) -> str:
    """A fraction of the plot as a width."""
    return f"{100 * (RIGHT - GUTTER) * max(share, 0):.3f}%"


def markup(root: ET.Element) -> Markup:
    """The finished picture; ElementTree has escaped all text."""
    return Markup(ET.tostring(root, encoding="unicode"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Maps time to a fraction of the plot, linear between knots; knots increase strictly."""

    times: tuple[float, ...]
    shares: tuple[float, ...]

    def __call__(self, t: float) -> float:
        if t <= self.times[0]:
            return self.shares[0]
        if t >= self.times[-1]:
            return self.shares[-1]
        i = bisect_right(self.times, t)
        low, high = self.times[i - 1], self.times[i]
        part = (t - low) / (high - low)
        return self.shares[i - 1] + part * (self.shares[i] - self.shares[i - 1])


def linear(low: float, high: float) -> Scale:
    """A linear scale; an empty range is widened."""
    return Scale(times=(low, high if high > low else low + 1), shares=(0.0, 1.0))


def by_order(times: Sequence[float]) -> Scale:
    """A scale with equal space between distinct times, with a margin at both ends."""
    knots = sorted(set(times))
    gap = max((knots[-1] - knots[0]) / max(len(knots) - 1, 1), 1)
    padded = [knots[0] - gap, *knots, knots[-1] + gap]
    return Scale(
        times=tuple(padded), shares=tuple(i / (len(padded) - 1) for i in range(len(padded)))
    )


def round_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """At most `most` round numbers (1, 2 or 5 times a power of ten) within [low, high]."""
    if high <= low:
        return [low]
    raw = (high - low) / most
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A placed label: beside its tick at `x`, `level` rows above it; across its tick where neither
    side has the room. low, high: the pixels that it covers."""

    index: int
    level: int
    anchor: str
    x: float
    low: float
    high: float

    @property
    def across(self) -> bool:
        """Whether it lies over its tick, which then begins below it."""
        return self.low < self.x < self.high

    @property
    def dx(self) -> float:
        """Pixels from the tick to where the text is anchored."""
        if self.across:
            return self.low - self.x + GAP_PX
        return GAP_PX if self.anchor == "start" else -GAP_PX


def place_labels(ticks: Sequence[tuple[float, str]], room: float = NARROW_PX) -> list[Placed]:
    """Positions of labels at fractions of a plot of `room` pixels, without overlaps.

    Each takes the lowest row, right of its tick if possible, with the fewest lines from labels
    down to their ticks that cross a text; for a few labels every order of placing is tried.
    """
    order = sorted(range(len(ticks)), key=lambda i: -ticks[i][0])
    orders = permutations(order) if len(ticks) <= FEW else [tuple(order)]
    tries = [_place(ticks, chosen, room) for chosen in orders]
    return min(tries, key=lambda placed: (_tangle(placed), sum(one.level for one in placed)))


def _place(ticks: Sequence[tuple[float, str]], order: Sequence[int], room: float) -> list[Placed]:
    placed: list[Placed] = []
    for i in order:
        x, width = ticks[i][0] * room, len(ticks[i][1]) * CHAR_PX + 14
        sides = [("start", x, x + width), ("end", x - width, x)]
        fitting = [side for side in sides if side[1] >= -1 and side[2] <= room + 1]
        if not fitting:
            low = max(min(x - width / 2, room - width), 0.0)
            fitting = [("start", low, low + width)]
        rooms = [
            Placed(index=i, level=level, anchor=anchor, x=x, low=low, high=high)
            for level in range(len(ticks))
            for anchor, low, high in fitting
        ]
        free = [one for one in rooms if not any(_cover(one, other) for other in placed)]
        placed.append(min(free or rooms[-1:], key=lambda one: (_crossings(one, placed), one.level)))
    return placed


def _tangle(placed: Sequence[Placed]) -> int:
    return sum(_crossings(one, placed) for one in placed)


def _cover(a: Placed, b: Placed) -> bool:
    return a.level == b.level and a.low < b.high and b.low < a.high


def _crossings(one: Placed, placed: Sequence[Placed]) -> int:
    """Number of crossings: its line through texts below it, other lines through its text."""
    return sum(
        (one.level > other.level and other.low < one.x < other.high)
        + (other.level > one.level and one.low < other.x < one.high)
        for other in placed
    )


TEMPLATES = Path(__file__).parents[1] / "templates"
WIDTH, MARGIN = 1000, 12
HEIGHT = re.compile(r'height="([\d.]+)"')


def standalone(drawn: str) -> str:
    """The text of an SVG file with a background. drawn: a picture as it stands in a page."""
    style, patterns = ((TEMPLATES / name).read_text() for name in ("style.css", "patterns.svg"))
    begun, _, body = drawn.partition(">")
    size = HEIGHT.search(begun)
    assert size is not None, "every picture has a height"
    wide, high = WIDTH + 2 * MARGIN, float(size[1]) + 2 * MARGIN
    inside = begun.replace('width="100%"', "").replace(f'width="{WIDTH}"', "")
    inside = inside.replace("<svg", f'<svg x="{MARGIN}" y="{MARGIN}" width="{WIDTH}"', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high:g}">'
        f"<style><![CDATA[{style}]]></style>{patterns}"
        '<rect width="100%" height="100%" style="fill: var(--sheet)"/>'
        f"{inside}>{body}</svg>\n"
    )
