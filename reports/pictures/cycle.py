"""Draws a cycle: a wait-for cycle, or a contradictory order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.reports.pictures.svg import CHAR_PX, add, markup, picture
from holdfast.reports.text.formatting import plain

WIDE, DISC, BEND = 480.0, 26.0, 30.0
LINE_PX, LABEL = 16.0, 62
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node of the cycle; note: a second line, "" for none."""

    name: str
    note: str = ""

    @property
    def half(self) -> float:
        """Half of the node's width in pixels."""
        return max(DISC, CHAR_PX * len(plain(self.note, 18)) / 2 + 10)

    @property
    def said(self) -> str:
        """The node as part of a sentence."""
        note = f" ({plain(self.note, 18)})" if self.note else ""
        return f"{plain(self.name, 20)}{note}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """An arrow between two nodes, by their indices.

    label   its evidence in a few words; "" if the drawing is cut off
    """

    before: int
    after: int
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cycle:
    """A cycle: nodes in drawing order, and the arrows between them.

    verb      meaning of an arrow in a sentence: "waits for", "comes before"
    caption   meaning of an arrow and of the whole cycle
    """

    title: str
    verb: str
    caption: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]


def draw_cycle(cycle: Cycle, number: int) -> Markup:
    """The drawing for the card of a finding; `number` is the number of the card."""
    nodes = cycle.nodes
    edges = [
        f"{nodes[edge.before].said} {cycle.verb} {nodes[edge.after].said}: {plain(edge.label, 80)}"
        for edge in cycle.edges
        if edge.label
    ]
    tall = 150.0 if len(nodes) == 2 else 300.0
    sentence = f"{'; '.join(edges)}. {cycle.caption}"
    root = picture(f"cycle-{number}", tall, cycle.title, sentence)
    root.set("class", "picture cycle")
    root.set("viewBox", f"0 0 {WIDE:g} {tall:g}")
    root.set("width", f"{WIDE:g}")
    middle = (tall - LINE_PX) / 2
    spots = [_spot(n, len(nodes), middle) for n in range(len(nodes))]
    for edge in cycle.edges:
        ends = (spots[edge.before], spots[edge.after])
        _arrow(root, edge, ends, (nodes[edge.before].half, nodes[edge.after].half), middle)
    for (x, y), node in zip(spots, nodes, strict=True):
        _draw_node(root, node, x, y)
    add(root, "text", cycle.caption, x=WIDE / 2, y=tall - 4, text_anchor="middle", class_="unit")
    return markup(root)


def _spot(n: int, of: int, middle: float) -> Point:
    """Positions: two nodes side by side, more on a ring that begins at the top."""
    if of == 2:
        return WIDE / 2 + (150 if n else -150), middle
    turn = 2 * math.pi * n / of - math.pi / 2
    return WIDE / 2 + 140 * math.cos(turn), middle + 105 * math.sin(turn)


def _arrow(
    root: ET.Element, edge: Edge, ends: tuple[Point, Point], halves: Point, middle: float
) -> None:
    (x1, y1), (x2, y2) = ends
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    first, last = (1 / math.hypot(ux / half, uy / DISC) for half in halves)
    bend_x, bend_y = (x1 + x2) / 2 + uy * BEND, (y1 + y2) / 2 - ux * BEND
    ax, ay = x1 + ux * first + uy * 8, y1 + uy * first - ux * 8
    bx, by = x2 - ux * (last + 6) + uy * 8, y2 - uy * (last + 6) - ux * 8
    way = f"M{ax:.1f} {ay:.1f}Q{bend_x:.1f} {bend_y:.1f} {bx:.1f} {by:.1f}"
    add(root, "path", d=way, class_="call" if edge.label else "call request")
    turn = math.degrees(math.atan2(by - bend_y, bx - bend_x))
    place = add(root, "g", transform=f"translate({bx:.1f} {by:.1f}) rotate({turn:.0f})")
    add(place, "path", d="M-3 -5L6 0L-3 5Z", class_="tip")
    # Between two nodes a label stands off its arrow, around a node beside it.
    flat = abs(uy) < 0.01 and abs(y1 - middle) < 1
    y = bend_y + (-4 if ux > 0 else 14) if flat else bend_y + 4
    side = "middle" if abs(uy) < 0.5 else "start" if uy > 0 else "end"
    x = bend_x - uy * BEND / 2 if side != "middle" else bend_x
    label = plain(edge.label, LABEL if flat else 24) or "…"
    add(root, "text", label, x=x, y=y, text_anchor=side, class_="event")


def _draw_node(root: ET.Element, node: Node, x: float, y: float) -> None:
    left, wide, tall = x - node.half, 2 * node.half, 2 * DISC
    add(root, "rect", x=left, y=y - DISC, width=wide, height=tall, rx=DISC, class_="hold")
    line = y - 2 if node.note else y + 4
    name = plain(node.name, 8)
    add(root, "text", name, x=x, y=line, text_anchor="middle", class_="hold-name")
    if node.note:
        note = plain(node.note, 18)
        add(root, "text", note, x=x, y=y + 15, text_anchor="middle", class_="unit")
