"""Draws one finding: a lane per client, holds as bars, the violation in red."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.harness.core.fault_traits import BEFORE, PATTERNS, UNKNOWN
from holdfast.harness.verdicts.judged import Judged, ObservedFault, Shown
from holdfast.reports.pictures.finding_scene import (
    NO_LEASES,
    Bar,
    Leases,
    Mark,
    Scene,
    overlap_text,
    scene,
)
from holdfast.reports.pictures.svg import (
    CHAR_PX,
    NARROW_PX,
    add,
    full,
    markup,
    percent,
    picture,
    place_labels,
    round_ticks,
    spot,
    wide,
)
from holdfast.reports.text.formatting import NS, plain, seconds

LABEL_PX, BAR_PX, FAULT_PX, AXIS_PX = 16, 20, 24, 46
PHONE_PX, NAME_PX = 300, 15
"""Width of the plot of a drawing for a phone, whose lanes have their names above them."""
NO_NUMBERS: Mapping[int, int] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """Position of a lane: its first pixel, its bars' first pixel, its last pixel."""

    name: str
    top: float
    bar: float
    bottom: float


def draw(
    finding: Shown,
    number: int,
    run: Judged,
    tone: str,
    leases: Leases = NO_LEASES,
    *,
    numbers: Mapping[int, int] = NO_NUMBERS,
    room: int = NARROW_PX,
) -> Markup:
    """The picture of a finding; `number` and `tone` of its card.

    numbers   row of a witness that is half of the proof -> its number
    room      width of the plot that its labels fit in: NARROW_PX, or PHONE_PX
    """
    shown, phone = scene(finding, run, leases), room < NARROW_PX
    rows = _pack(shown.bars)
    faults = len(shown.faults) * FAULT_PX
    lanes = _lay(shown, rows, run, top=faults + 30, room=room)
    bottom = lanes[-1].bottom if lanes else faults + 40
    bottom += 20 if shown.clashes else 0
    whole = picture(
        f"f{number}{'-phone' if phone else ''}",
        bottom + AXIS_PX,
        f"Finding {number}: {plain(finding.kind, 40).replace('-', ' ')}",
        _spoken(shown, run),
    )
    whole.set("class", f"picture tone-{tone}")
    root = full(whole) if phone else whole
    _draw_faults(root, shown, lanes, bottom)
    for lane in lanes:
        _draw_lane(root, lane, phone=phone)
    by_name = {lane.name: lane for lane in lanes}
    for bar, row in zip(shown.bars, rows, strict=True):
        _draw_bar(root, bar, by_name[bar.lane].bar + row * (BAR_PX + 4), shown, room)
    _draw_clashes(root, finding, shown, faults + 30, bottom)
    _draw_marks(root, shown, by_name, run, numbers, room)
    _draw_number(root, finding, number, shown, faults, bottom)
    _draw_axis(root, shown, run, bottom, room)
    return markup(whole)


def _draw_lane(root: ET.Element, lane: Lane, *, phone: bool) -> None:
    x, y = (percent(0), lane.top + NAME_PX - 3) if phone else ("0", lane.bar + 14)
    add(root, "text", plain(lane.name, 13), x=x, y=y, class_="lane")
    middle = lane.bar + BAR_PX / 2
    add(root, "line", x1=percent(0), x2=percent(1), y1=middle, y2=middle, class_="base")


def fault_words(fault: ObservedFault) -> str:
    """Label of a fault: "f1 pause of c1"."""
    where = ", ".join(plain(node, 12) for node in fault.nodes[:3])
    more = "…" if len(fault.nodes) > 3 else ""
    return f"{plain(fault.id, 8)} {plain(fault.do, 16)}{' of ' + where if where else ''}{more}"


def pattern(fault: ObservedFault) -> str:
    """The fill pattern of a fault's kind; a verdict of an older version names none."""
    own = BEFORE.get(fault.do, UNKNOWN).pattern if fault.pattern is None else fault.pattern
    return own if own in PATTERNS else "other"


def _pack(bars: tuple[Bar, ...]) -> list[int]:
    """A row within the lane for every bar, so that two holds of one client do not overlap."""
    ends: dict[tuple[str, int], int] = {}
    rows = []
    for bar in bars:
        row = 0
        while ends.get((bar.lane, row), bar.from_ns) > bar.from_ns:
            row += 1
        ends[bar.lane, row] = bar.to_ns
        rows.append(row)
    return rows


def _ticks(shown: Scene, name: str, run: Judged, room: int) -> list[tuple[float, str, Mark]]:
    digits = shown.digits if room >= NARROW_PX else 3
    return [
        (shown.scale(mark.t_ns), f"{mark.text} · {seconds(run.at(mark.t_ns), digits)}", mark)
        for mark in shown.marks
        if mark.lane == name
    ]


def _lay(shown: Scene, rows: list[int], run: Judged, top: float, room: int) -> list[Lane]:
    lanes, name_px = [], NAME_PX if room < NARROW_PX else 0
    for name in shown.lanes:
        ticks = [(share, text) for share, text, _ in _ticks(shown, name, run, room)]
        placed = place_labels(ticks, room)
        levels = max((label.level + 1 for label in placed), default=0)
        depth = max(
            (row + 1 for bar, row in zip(shown.bars, rows, strict=True) if bar.lane == name),
            default=1,
        )
        bar = top + name_px + levels * LABEL_PX + 8
        named = any(one.lane == name and one.lease_ns for one in shown.bars)
        bottom = bar + depth * (BAR_PX + 4) + (20 if named else 12)
        lanes.append(Lane(name=name, top=top, bar=bar, bottom=bottom))
        top = bottom
    return lanes


def _draw_faults(root: ET.Element, shown: Scene, lanes: list[Lane], bottom: float) -> None:
    for i, fault in enumerate(shown.faults):
        start, end = shown.scale(fault.from_ns), shown.scale(fault.to_ns)
        y = i * FAULT_PX
        fill = f"url(#hatch-{pattern(fault)})"
        box = {"x": percent(start), "width": wide(end - start)}
        add(root, "rect", **box, y=y, height=bottom - y, class_="shade")
        add(root, "rect", **box, y=y + 2, height=FAULT_PX - 6, fill=fill, class_="fault", rx=2)
        for lane in lanes:
            if lane.name in fault.nodes:
                height = lane.bottom - lane.top - 2
                add(root, "rect", **box, y=lane.top + 1, height=height, fill=fill, class_="struck")
        label, anchor = (start, "start") if start < 0.6 else (end, "end")
        place = spot(root, label, y + 15)
        dx = 6 if anchor == "start" else -6
        words = add(place, "text", x=dx, y=0, class_="fault-name", text_anchor=anchor)
        words.text = fault_words(fault)


def _draw_bar(root: ET.Element, bar: Bar, y: float, shown: Scene, room: int) -> None:
    start, end = shown.scale(bar.from_ns), shown.scale(bar.to_ns)
    kind = "hold open" if bar.open_end else "hold"
    tall: dict[str, str] = {"y": f"{y:g}", "height": f"{BAR_PX:g}"}
    add(root, "rect", x=percent(start), width=wide(end - start), class_=kind, rx=3, **tall)
    if bar.belief_ns:
        believed = shown.scale(bar.belief_ns)
        box = {"x": percent(believed), "width": wide(end - believed)}
        add(root, "rect", **box, fill="url(#hatch-belief)", class_="belief", rx=3, **tall)
    for low, high in shown.clashes:
        a, b = max(low, bar.from_ns), min(high, bar.to_ns)
        if a < b:
            box = {"x": percent(shown.scale(a)), "width": wide(shown.scale(b) - shown.scale(a))}
            add(root, "rect", **box, class_="clash", rx=3, **tall)
    _draw_bar_name(root, bar, y, shown, room)
    if bar.lease_ns:
        _draw_lease_end(root, bar, y, shown)


def _draw_lease_end(root: ET.Element, bar: Bar, y: float, shown: Scene) -> None:
    """A tick across the bar where its lease ends, with its name below the bar."""
    share = shown.scale(bar.lease_ns)
    place = spot(root, share, y)
    add(place, "line", x1=0, x2=0, y1=-4, y2=BAR_PX + 4, class_="lease-end")
    anchor, dx = ("start", 4) if share < 0.8 else ("end", -4)
    add(place, "text", "lease ends", x=dx, y=BAR_PX + 11, text_anchor=anchor, class_="unit lease")


def _draw_bar_name(root: ET.Element, bar: Bar, y: float, shown: Scene, room: int) -> None:
    """Label of a bar: inside, outside of the overlap if it fits; else beside the bar."""
    text = bar.text + (" →" if bar.open_end else "")
    need = (len(text) * CHAR_PX + 20) / room
    start, end = shown.scale(bar.from_ns), shown.scale(bar.to_ns)
    edges = {bar.from_ns, bar.to_ns}
    edges |= {t for clash in shown.clashes for t in clash if bar.from_ns < t < bar.to_ns}
    parts = sorted(
        (any(low <= a < high for low, high in shown.clashes), shown.scale(a), shown.scale(b))
        for a, b in pairwise(sorted(edges))
    )
    for over, low, high in parts:
        if high - low >= need:
            name = "hold-name over" if over else "hold-name"
            add(spot(root, low, y), "text", text, x=10, y=14.5, class_=name)
            return
    if end + need <= 1:
        add(spot(root, end, y), "text", text, x=12, y=14.5, class_="hold-name beside")
    elif start >= need:
        place = spot(root, start, y)
        add(place, "text", text, x=-12, y=14.5, text_anchor="end", class_="hold-name beside")


def _draw_clashes(
    root: ET.Element, finding: Shown, shown: Scene, top: float, bottom: float
) -> None:
    if not shown.clashes:
        return
    low, high = max(shown.clashes, key=lambda clash: clash[1] - clash[0])
    start, end = shown.scale(low), shown.scale(high)
    for share in (start, end):
        add(root, "line", x1=percent(share), x2=percent(share), y1=top, y2=bottom, class_="edge")
    middle = (start + end) / 2
    verb = "believe in it" if finding.kind == "stale-belief" else "hold it"
    text = f"both {verb} for {overlap_text(shown)}"
    anchor = "middle" if 0.15 < middle < 0.85 else "start" if middle <= 0.15 else "end"
    y = bottom + 1
    add(root, "line", x1=percent(start), x2=percent(end), y1=y, y2=y, class_="edge thick")
    words = spot(root, middle, bottom - 4)
    add(words, "text", text, x=0, y=0, text_anchor=anchor, class_="edge name")


def _draw_marks(
    root: ET.Element,
    shown: Scene,
    lanes: dict[str, Lane],
    run: Judged,
    numbers: Mapping[int, int],
    room: int,
) -> None:
    guilty = shown.marks[shown.guilty] if shown.guilty >= 0 else None
    for lane in lanes.values():
        ticks = _ticks(shown, lane.name, run, room)
        for label in place_labels([(share, text) for share, text, _ in ticks], room):
            share, text, mark = ticks[label.index]
            state = " guilty" if mark is guilty else ""
            y = lane.bar - 8 - label.level * LABEL_PX
            _draw_call(root, mark, lane, shown)
            if mark.sender in lanes:
                _draw_request(root, mark, lanes[mark.sender], lane, shown, state)
            place = spot(root, share, 0)
            top = y + 3 if label.across else y - 9
            add(place, "line", x1=0, x2=0, y1=top, y2=lane.bar + BAR_PX / 2, class_="tick" + state)
            _draw_outcome(place, mark.outcome, lane.bar + BAR_PX / 2, state)
            if mark.row in numbers:
                _draw_half(place, numbers[mark.row], lane.bar + BAR_PX / 2)
            add(
                place,
                "text",
                text,
                x=label.dx,
                y=y,
                text_anchor=label.anchor,
                class_="event" + state,
            )


def _draw_call(root: ET.Element, mark: Mark, lane: Lane, shown: Scene) -> None:
    if mark.call is None:
        return
    start, end = (shown.scale(edge) for edge in mark.call)
    y = lane.bar + BAR_PX + 5
    add(root, "line", x1=percent(start), x2=percent(end), y1=y, y2=y, class_="call")
    if start > 0:
        add(spot(root, start, y), "line", x1=0, x2=0, y1=-3, y2=3, class_="call")


def _draw_request(
    root: ET.Element, mark: Mark, sender: Lane, lane: Lane, shown: Scene, state: str
) -> None:
    y = sender.bar + BAR_PX / 2
    end = lane.bar + BAR_PX / 2 - 8
    x1, x2 = percent(shown.scale(mark.sent_ns)), percent(shown.scale(mark.t_ns))
    add(root, "line", x1=x1, y1=y, x2=x2, y2=end, class_="request" + state)
    add(spot(root, shown.scale(mark.t_ns), end), "path", d="M-4 -5L4 -5L0 2Z", class_="tip" + state)


def _draw_outcome(place: ET.Element, outcome: str, y: float, state: str) -> None:
    """A mark by its outcome, also by shape: disc for ok, cross for refused, ring for unknown."""
    if outcome == "no":
        d = f"M-5 {y - 5}L5 {y + 5}M-5 {y + 5}L5 {y - 5}"
        add(place, "path", d=d, class_="cross" + state)
    else:
        add(place, "circle", cx=0, cy=y, r=5, class_=f"dot {outcome}{state}")


def _draw_half(place: ET.Element, number: int, y: float) -> None:
    """The number of an event that is half of the proof, as in the text and on the timeline."""
    add(place, "circle", cx=0, cy=y, r=9, class_="half")
    add(place, "text", str(number), x=0, y=y + 4, text_anchor="middle", class_="half text")


def _draw_number(
    root: ET.Element,
    finding: Shown,
    number: int,
    shown: Scene,
    top: float,
    bottom: float,
) -> None:
    t_ns = min(max(finding.t_ns, shown.scale.times[0]), shown.scale.times[-1])
    place = spot(root, shown.scale(t_ns), top)
    add(place, "line", x1=0, x2=0, y1=24, y2=bottom - top, class_="number line")
    triangle(place, number)


def triangle(place: ET.Element, number: int) -> None:
    """The numbered triangle of a finding; its tip points to the time of the finding."""
    add(place, "path", d="M-13 2L13 2L0 24Z", class_="number")
    add(place, "text", str(number), x=0, y=14, text_anchor="middle", class_="number text")


def _draw_axis(root: ET.Element, shown: Scene, run: Judged, bottom: float, room: int) -> None:
    y = bottom + 4
    add(root, "line", x1=percent(0), x2=percent(1), y1=y, y2=y, class_="axis")
    if shown.in_order:
        caption = "in order of time, not to scale"
        caption += "; labels: seconds since the start" if room >= NARROW_PX else ""
    else:
        caption = "seconds since the start of the run"
        low, high = (run.at(t) / NS for t in (shown.scale.times[0], shown.scale.times[-1]))
        ticks = round_ticks(low, high, 7 if room >= NARROW_PX else 4)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 0.01
        digits = max(2, math.ceil(-math.log10(step) - 1e-9))
        for tick in ticks:
            share = shown.scale(tick * NS + run.start_ns)
            place = spot(root, share, y)
            add(place, "line", x1=0, x2=0, y1=0, y2=5, class_="axis")
            add(place, "text", f"{tick:.{digits}f}", x=0, y=17, text_anchor="middle", class_="unit")
    add(root, "text", caption, x=percent(1), y=y + 34, text_anchor="end", class_="caption")


def _spoken(shown: Scene, run: Judged) -> str:
    """The picture as a sentence, for screen readers."""
    events = [
        f"{seconds(run.at(mark.t_ns))}: {plain(mark.lane, 20)} {mark.text}"
        for mark in sorted(shown.marks, key=lambda mark: mark.t_ns)
    ]
    holds = [
        f"{plain(bar.lane, 20)} {bar.text} from {seconds(run.at(bar.from_ns))}"
        f" to {seconds(run.at(bar.to_ns))}"
        + (f", its lease ends at {seconds(run.at(bar.lease_ns))}" if bar.lease_ns else "")
        + (f", only believed from {seconds(run.at(bar.belief_ns))}" if bar.belief_ns else "")
        for bar in shown.bars
    ]
    overlap = f" Overlap: {overlap_text(shown)}." if shown.clashes else ""
    return f"Events: {'; '.join(events)}. Holds: {'; '.join(holds) or 'none'}.{overlap}"
