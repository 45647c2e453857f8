"""The circle in which clients wait for each other, as a small drawing."""

from __future__ import annotations

import math
from itertools import pairwise

from markupsafe import Markup

from holdfast.reports.reading import Judged, Shown
from holdfast.reports.svg import add, markup, picture
from holdfast.reports.words import plain

WIDE, TALL, DISC = 420.0, 250.0, 26.0
CIRCLES = {"multi-lock-deadlock": "waits for"}
"""Kinds whose witnesses come in pairs, each an op and the one that it stands behind."""


def cycle(finding: Shown, number: int, run: Judged) -> Markup | None:
    """Clients around a circle with arrows that name the locks; None where there is no circle."""
    verb = CIRCLES.get(finding.kind)
    pairs = list(zip(finding.witnesses[::2], finding.witnesses[1::2], strict=False))
    names = [run.client(waiter.process) for waiter, _ in pairs]
    if verb is None or len(pairs) < 2 or len(set(names)) < len(names):
        return None
    last = run.client(pairs[-1][1].process)
    whole = last == names[0]
    shown = names if whole else [*names, last]
    said = "; ".join(
        f"{plain(run.client(a.process), 20)} {verb} {plain(a.lock, 30)} of"
        f" {plain(run.client(b.process), 20)}"
        for a, b in pairs
    )
    root = picture(f"cycle-{number}", TALL, "Who waits for whom", f"{said}.")
    root.set("class", "picture cycle")
    root.set("viewBox", f"0 0 {WIDE:g} {TALL:g}")
    root.set("width", f"{WIDE:g}")
    spots = [_spot(n, len(shown)) for n in range(len(shown))]
    ways = [*pairwise(spots), (spots[-1], spots[0])]
    for n, ((x1, y1), (x2, y2)) in enumerate(ways):
        length = math.hypot(x2 - x1, y2 - y1)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        bend_x, bend_y = (x1 + x2) / 2 + uy * 28, (y1 + y2) / 2 - ux * 28
        ax, ay = x1 + ux * DISC + uy * 8, y1 + uy * DISC - ux * 8
        bx, by = x2 - ux * (DISC + 6) + uy * 8, y2 - uy * (DISC + 6) - ux * 8
        way = f"M{ax:.1f} {ay:.1f}Q{bend_x:.1f} {bend_y:.1f} {bx:.1f} {by:.1f}"
        add(root, "path", d=way, class_="call" if n < len(pairs) else "call request")
        turn = math.degrees(math.atan2(by - bend_y, bx - bend_x))
        place = add(root, "g", transform=f"translate({bx:.1f} {by:.1f}) rotate({turn:.0f})")
        add(place, "path", d="M-3 -5L6 0L-3 5Z", class_="tip")
        label = plain(pairs[n][0].lock, 18) if n < len(pairs) else "…"
        add(root, "text", label, x=bend_x, y=bend_y + 4, text_anchor="middle", class_="event")
    for (x, y), name in zip(spots, shown, strict=True):
        add(root, "circle", cx=x, cy=y, r=DISC, class_="hold")
        add(root, "text", plain(name, 8), x=x, y=y + 4, text_anchor="middle", class_="hold-name")
    return markup(root)


def _spot(n: int, of: int) -> tuple[float, float]:
    turn = 2 * math.pi * n / of - math.pi / 2 - (math.pi / 2 if of == 2 else 0)
    across = 120 if of == 2 else 100
    return WIDE / 2 + across * math.cos(turn), TALL / 2 + 90 * math.sin(turn)
