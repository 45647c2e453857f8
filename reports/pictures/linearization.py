"""Draws the longest legal prefix of a history, and the first call that no order explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.reports.pictures.svg import CHAR_PX, add, markup, picture
from holdfast.reports.text.formatting import plain

LEFT_PX, LANE_PX, BAR_PX, TOP_PX = 96.0, 46.0, 24.0, 30.0
MOST_LANES, LABEL = 24, 24
WIDE_PX, NEAR_PX, FAR_PX = 860.0, 24.0, 80.0
"""Width of a picture with room for it, and the least and the largest distance of two events."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call. begin, end: numbers of its events; `end` None: no response.

    place   position in the order that explains the prefix, from 1; 0: not in it
    state   the state after it in that order
    stuck   no order explains its response
    """

    client: str
    text: str
    begin: int
    end: int | None
    where: str
    place: int = 0
    state: str = ""
    stuck: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Linearization:
    """What is drawn of one lock or register: the end of its longest legal prefix.

    explained   responses explained, of `responses`; earlier: calls of the order left out
    could       states that were possible where no order goes on
    """

    name: str
    calls: tuple[Call, ...]
    explained: int
    responses: int
    earlier: int
    could: tuple[str, ...]


def draw_linearization(shown: Linearization, number: int) -> Markup:
    """The picture; time is the order of events, from left to right, not to scale."""
    lanes = list(dict.fromkeys(call.client for call in _in_order(shown.calls)))[:MOST_LANES]
    calls = [call for call in shown.calls if call.client in lanes]
    x = _places(calls)
    width = max(x.values(), default=LEFT_PX) + 110
    bottom = TOP_PX + LANE_PX * len(lanes)
    root = picture(f"prefix-{number}", bottom + 30, "The longest legal prefix", spoken(shown))
    root.set("width", f"{max(width, 520):g}")
    root.set("class", "picture tone-broken linearization")
    for n, lane in enumerate(lanes):
        y = TOP_PX + LANE_PX * n
        add(root, "text", plain(lane, 13), x=0, y=y + 17, class_="lane")
        add(root, "line", x1=LEFT_PX, x2=width, y1=y + 12, y2=y + 12, class_="base")
    rows = {lane: TOP_PX + LANE_PX * n for n, lane in enumerate(lanes)}
    for call in calls:
        _draw_call(root, call, rows[call.client], x, width)
    _draw_order(root, calls, rows, x)
    words = "order of events, not to scale; numbers: one order that explains the responses"
    add(root, "text", words, x=LEFT_PX, y=bottom + 18, class_="caption")
    return markup(root)


def spoken(shown: Linearization) -> str:
    """The picture as sentences."""
    placed = sorted((call for call in shown.calls if call.place), key=lambda call: call.place)
    order = "; ".join(f"{call.place}: {call.client} {call.text}" for call in placed)
    stuck = next((call for call in shown.calls if call.stuck), None)
    end = f" No order goes on with {stuck.text} of {stuck.client}." if stuck else ""
    return f"{shown.explained} of {shown.responses} responses are explained by: {order}.{end}"


def _in_order(calls: Sequence[Call]) -> list[Call]:
    return sorted(calls, key=lambda call: call.begin)


def _places(calls: Sequence[Call]) -> dict[int, float]:
    """Event number -> pixel: equal distances between the events that are drawn."""
    events = {call.begin for call in calls} | {c.end for c in calls if c.end is not None}
    step = min(max(WIDE_PX / max(len(events), 1), NEAR_PX), FAR_PX)
    return {event: LEFT_PX + 16 + step * n for n, event in enumerate(sorted(events))}


def _draw_call(root: ET.Element, call: Call, y: float, x: dict[int, float], width: float) -> None:
    start = x[call.begin]
    end = width - 6 if call.end is None else x[call.end]
    kind = "clash" if call.stuck else "hold" if call.place else "loose"
    if call.end is None:
        kind += " open"
    wide = max(end - start, 3)
    add(root, "rect", x=start, y=y, width=wide, height=BAR_PX, rx=3, class_=kind)
    words = f"{call.client}: {call.text}, {call.where}"
    if call.state:
        words += f"; state after it: {call.state}"
    add(root[-1], "title", plain(words, 300))
    room, text = int((end - start - 8) / CHAR_PX), plain(call.text, LABEL)
    if call.stuck and len(text) > room:
        add(root, "text", text, x=end + 6, y=y + 16, class_="event guilty")
    elif room >= 2:
        name = "over" if call.stuck else "inside" if call.place else "beside"
        label = text if len(text) <= room else f"{text[: room - 1]}…"
        add(root, "text", label, x=start + 5, y=y + 16, class_=f"hold-name {name}")


def _draw_order(
    root: ET.Element, calls: Sequence[Call], rows: dict[str, float], x: dict[int, float]
) -> None:
    """The instants at which the calls of the order take effect, joined by a line.

    Each is the latest begin so far, a little later than its predecessor: no call of the order had
    ended before a later one of it began, so every instant lies within its call.
    """
    placed = sorted((call for call in calls if call.place), key=lambda call: call.place)
    gap = min([b - a for a, b in pairwise(sorted(x.values()))], default=NEAR_PX)
    points, begun, same = [], -1.0, 0
    for call in placed:
        same = same + 1 if x[call.begin] <= begun else 0
        begun = max(begun, x[call.begin])
        within = 3 + (gap - 6) * (1 - 1 / (1 + 0.35 * same))
        points.append((begun + within, rows[call.client] + BAR_PX))
    if len(points) > 1:
        path = "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        add(root, "path", d=path, class_="call order")
    for call, (px, py) in zip(placed, points, strict=True):
        add(root, "circle", cx=px, cy=py, r=3.5, class_="dot ok")
        add(root, "text", str(call.place), x=px, y=py + 15, text_anchor="middle", class_="unit")
