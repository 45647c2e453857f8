"""Draws the whole run: faults by kind, grants per second, numbered findings."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup

from holdfast.harness.verdicts.judged import Judged, ObservedFault, Shown
from holdfast.reports.pictures.finding import pattern, triangle
from holdfast.reports.pictures.svg import (
    CHAR_PX,
    GUTTER,
    NARROW_PX,
    RIGHT,
    Scale,
    add,
    linear,
    markup,
    percent,
    picture,
    round_ticks,
    spot,
    wide,
)
from holdfast.reports.text.formatting import NS, count, plain, seconds

ROW_PX, AREA_PX, EMPTY_PX, TOP_PX = 28, 92, 40, 34
MOST_KINDS, MOST_BINS = 8, 120


def overview(run: Judged, cards: Sequence[tuple[int, Shown, str]]) -> Markup:
    """The picture of a run; `cards` are (number, finding, tone)."""
    kinds = list(dict.fromkeys(fault.do for fault in run.faults))[:MOST_KINDS]
    scale = linear(run.start_ns, max(run.end_ns, run.start_ns + 1))
    rows = TOP_PX + ROW_PX * len(kinds)
    rates, weight = grants_per_second(run)
    bottom = rows + 14 + (AREA_PX if rates else EMPTY_PX)
    words = (
        f"{seconds(run.end_ns - run.start_ns, 1)} of run:"
        f" {count(len(run.faults), 'fault')}, {count(run.evidence.acquire.granted, 'grant')},"
        f" {count(len(cards), 'numbered finding')}."
    )
    root = picture("overview", bottom + 42, "The whole run", words)
    root.set("role", "group")  # Its numbers are links: an image has no parts.
    _phases(root, run, scale, TOP_PX - 4, bottom)
    for i, do in enumerate(kinds):
        _fault_row(root, do, [f for f in run.faults if f.do == do], scale, TOP_PX + i * ROW_PX)
    _area(root, rates, rows + 14, bottom)
    _findings(root, cards, scale, bottom)
    _axis(root, run, scale, bottom, thinned=weight > 1.01)
    return markup(root)


def grants_per_second(run: Judged) -> tuple[list[float], float]:
    """Grants per second in equal bins over the run, and how many grants each logged one stands for.

    Empty if no times of grants are known. The judge thins the token log, so its
    bins are scaled up; a histogram of all grants is used as it is.
    """
    width = run.end_ns - run.start_ns
    if width <= 0:
        return [], 1.0
    whole = run.evidence.grants
    if whole and len(whole.edges_ns) == len(whole.counts) + 1:
        pairs = zip(whole.counts, whole.edges_ns, whole.edges_ns[1:], strict=False)
        return [n / max((b - a) / NS, 1e-9) for n, a, b in pairs], 1.0
    log = run.evidence.tokens.log
    if not log:
        return [], 1.0
    weight = max(run.evidence.tokens.grants / len(log), 1.0)
    bins = min(max(round(width / NS), 1), MOST_BINS)
    counts = [0.0] * bins
    for t_ns, *_ in log:
        counts[min(max(int((t_ns - run.start_ns) * bins / width), 0), bins - 1)] += weight
    return [n / (width / bins / NS) for n in counts], weight


def _phases(root: ET.Element, run: Judged, scale: Scale, top: float, bottom: float) -> None:
    if not run.start_ns < run.stop_ns < run.end_ns:
        return
    start = scale(run.stop_ns)
    box = {"x": percent(start), "width": wide(1 - start)}
    add(root, "rect", **box, y=top, height=bottom - top, class_="settle")
    place = spot(root, start, top)
    add(place, "line", x1=0, x2=0, y1=0, y2=bottom - top, class_="settle-edge")
    if start < 0.8:
        add(place, "text", "last heal, then probes", x=6, y=11, class_="caption")
    else:
        add(place, "text", "probes", x=-6, y=11, class_="caption", text_anchor="end")


def _fault_row(
    root: ET.Element, do: str, faults: Sequence[ObservedFault], scale: Scale, y: float
) -> None:
    add(root, "text", plain(do, 10), x=0, y=y + 18, class_="lane")
    add(root, "line", x1=percent(0), x2=percent(1), y1=y + 14, y2=y + 14, class_="base")
    free = 0.0
    for fault in faults:
        start, end = scale(fault.from_ns), scale(fault.to_ns)
        fill = f"url(#hatch-{pattern(fault)})" if fault.effective else "none"
        name = "fault" if fault.effective else "fault missed"
        box = {"x": percent(start), "width": wide(max(end - start, 0.003))}
        add(root, "rect", **box, y=y + 4, height=ROW_PX - 8, fill=fill, class_=name, rx=2)
        text = plain(fault.id, 8) + ("" if fault.effective else ": no effect")
        width = (len(text) * CHAR_PX + 8) / NARROW_PX
        at = start if start + width <= 1 else end - width
        if at >= free:
            add(spot(root, at, y + 18), "text", text, x=5, y=0, class_="fault-name")
            free = at + width


def _area(root: ET.Element, rates: Sequence[float], top: float, bottom: float) -> None:
    add(root, "text", "grants", x=0, y=top + 14, class_="lane")
    add(root, "text", "per second", x=0, y=top + 30, class_="caption")
    if not rates:
        words = "no times of grants in the verdict"
        add(spot(root, 0, top + 14), "text", words, x=8, y=0, class_="caption")
        return
    peak = max(max(rates), 1e-9)
    height = bottom - top
    plot = add(
        root,
        "svg",
        x=f"{100 * GUTTER:.3f}%",
        y=top,
        width=f"{100 * (RIGHT - GUTTER):.3f}%",
        height=height,
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
    )
    steps = [
        f"L{1000 * i / len(rates):.2f} {100 - 96 * rate / peak:.2f}"
        f"L{1000 * (i + 1) / len(rates):.2f} {100 - 96 * rate / peak:.2f}"
        for i, rate in enumerate(rates)
    ]
    path = f"M0 100{''.join(steps)}L1000 100Z"
    add(plot, "path", d=path, class_="area", vector_effect="non-scaling-stroke")
    add(root, "text", f"peak {peak:,.3g}", x=0, y=top + 45, class_="caption")


def _findings(
    root: ET.Element, cards: Sequence[tuple[int, Shown, str]], scale: Scale, bottom: float
) -> None:
    last = -1.0
    crowd = 0
    for number, finding, tone in sorted(cards, key=lambda card: card[1].t_ns):
        share = scale(finding.t_ns)
        crowd = crowd + 1 if share - last < 0.04 else 0
        last = share
        place = spot(root, share, 0)
        place.set("class", f"tone-{tone}")
        aside = min(crowd, 4) * 9.0
        add(place, "path", d=f"M{aside} 24L0 34V{bottom}", class_="number line")
        group = add(place, "svg", x=aside, y=0, overflow="visible")
        link = add(group, "a", href=f"#finding-{number}")
        add(link, "title", f"Finding {number}, {plain(finding.kind, 40)}")
        triangle(link, number)


def _axis(root: ET.Element, run: Judged, scale: Scale, bottom: float, *, thinned: bool) -> None:
    add(root, "line", x1=percent(0), x2=percent(1), y1=bottom, y2=bottom, class_="axis")
    for tick in round_ticks(0, run.at(run.end_ns) / NS, 10):
        place = spot(root, scale(run.start_ns + tick * NS), bottom)
        add(place, "line", x1=0, x2=0, y1=0, y2=5, class_="axis")
        add(place, "text", f"{tick:g}", x=0, y=18, text_anchor="middle", class_="unit")
    caption = "seconds since the start of the run"
    if thinned:
        caption += "; grants estimated from a thinned log"
    add(root, "text", caption, x=percent(1), y=bottom + 36, text_anchor="end", class_="caption")
