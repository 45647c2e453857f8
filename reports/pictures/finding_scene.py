"""Content of a finding's drawing: lanes, marks, holds, overlap, time axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from holdfast.harness.verdicts.judged import Event, Judged, ObservedFault, Shown
from holdfast.harness.verdicts.proof import OVERLAPS, SECOND_HOLDS, contradicting, decisive_ns
from holdfast.reports.pictures.svg import Scale, by_order, linear
from holdfast.reports.text.formatting import NS, plain, span

RESOURCE = "resource"
OUTLASTED = {"stale-accepted-write", "expired-owner-write"}
"""Kinds whose first span is a claim that may have outlasted its hold: from another client's grant
on, it is only a belief of its client."""

CLOSEST, NARROWEST = 0.012, 0.03
MOST_FAULTS = 4
ALONE_NS = 200_000_000
"""Time drawn around a single instant."""


Leases = Mapping[int, int]
"""Row of an acquire -> end of its lease as renewed."""
NO_LEASES: Leases = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """The relevant instant of an event, and its call."""

    lane: str
    t_ns: int
    text: str
    outcome: str
    call: tuple[int, int] | None
    sender: str = ""
    sent_ns: int = 0
    row: int = -1
    attempt: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A hold in its lane; `open_end`: it continues past the drawing.

    belief_ns   time from which only the client took itself for the owner; 0: no such time
    lease_ns    end of its lease, if that lies within the bar; 0: it does not
    """

    lane: str
    from_ns: int
    to_ns: int
    text: str
    open_end: bool
    belief_ns: int = 0
    lease_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """One finding, ready to be drawn.

    guilty   index of the violating mark (-1: no single one)
    digits   decimals of seconds, so that different times look different
    """

    lanes: tuple[str, ...]
    marks: tuple[Mark, ...]
    bars: tuple[Bar, ...]
    clashes: tuple[tuple[int, int], ...]
    faults: tuple[ObservedFault, ...]
    scale: Scale
    in_order: bool
    guilty: int
    digits: int


def scene(finding: Shown, run: Judged, leases: Leases = NO_LEASES) -> Scene:
    """The scene of a finding; an event is placed at its decisive edge (request or response)."""
    marks = tuple(_mark(event, finding, run) for event in finding.witnesses)
    times = [mark.t_ns for mark in marks] or [finding.t_ns]
    bars = _bars(finding, run, times, leases)
    clashes = _clashes(bars) if finding.kind in OVERLAPS else ()
    edges = [*times, *(edge for bar in bars for edge in (bar.from_ns, bar.to_ns))]
    edges += [bar.lease_ns for bar in bars if bar.lease_ns]
    low, high = min(edges), max(edges)
    in_order = _squeezed(marks, clashes, high - low)
    if in_order:
        calls = [edge for mark in marks if mark.call for edge in mark.call if low <= edge <= high]
        scale = by_order([*edges, *calls])
    else:
        pad = (high - low or ALONE_NS) * 0.05
        scale = linear(low - pad, high + pad)
    return Scene(
        lanes=_lanes(marks, bars),
        marks=marks,
        bars=bars,
        clashes=clashes,
        faults=_faults(run, scale.times[0], scale.times[-1]),
        scale=scale,
        in_order=in_order,
        guilty=-1 if clashes else _guilty(marks, finding.t_ns, high - low),
        digits=_digits({run.at(t_ns) for t_ns in times}),
    )


def _digits(times: set[float]) -> int:
    """The fewest decimals of seconds, three at least, at which no two times look the same."""
    for digits in (3, 4, 5):
        if len({round(t_ns / NS, digits) for t_ns in times}) == len(times):
            return digits
    return 6


def told(event: Event) -> str:
    """An event in a few words: "granted", "write refused"."""
    op, status = event.op.replace("_", "-"), event.status.replace("_", "-")
    if op in {"acquire", "try", "probe"}:
        words = {"ok": "granted", "fail": "refused"}.get(status, "requested, no response")
    elif op in {"served-write", "served-read"}:
        what = op.removeprefix("served-")
        words = f"{what} accepted" if status == "ok" else f"{what} refused"
    else:
        base = {
            "lost": "notified of loss",
            "closed": "session closed",
            "waiting": "still waiting",
            "force-unlock": "operator unlocks",
        }.get(op)
        verb = {"renew": "renewal", "release": "release", "heartbeat": "heartbeat"}.get(op, op)
        answer = {"ok": "ok", "fail": "refused", "not-owner": "not the owner"}
        words = base or f"{plain(verb, 30)} {answer.get(status, 'without response')}"
    return f"{words}, token {event.token}" if event.token >= 0 else words


def _mark(event: Event, finding: Shown, run: Judged) -> Mark:
    op = event.op.replace("_", "-")
    sender, sent = "", 0
    if op.startswith("served"):
        lane = RESOURCE
        sender = run.client(event.attempt >> 32) if event.attempt > 0 else ""
        sent = event.t_inv_ns
        for other in finding.witnesses:
            if other.op == op.removeprefix("served-") and other.attempt == event.attempt:
                sent = min(other.t_inv_ns, sent)
    else:
        lane = event.node or run.client(event.process)
    return Mark(
        lane=lane,
        t_ns=decisive_ns(event),
        text=f"{plain(sender, 14)}: {told(event)}" if sender else told(event),
        outcome="ok" if event.status == "ok" else "no" if event.status == "fail" else "unknown",
        call=(event.t_inv_ns, event.t_ret_ns) if event.t_ret_ns > event.t_inv_ns else None,
        sender=sender,
        sent_ns=sent,
        row=event.row,
        attempt=event.attempt,
    )


def halves(finding: Shown, run: Judged) -> tuple[Mark, ...]:
    """The two events that contradict each other, by time; fewer if its witnesses have fewer."""
    return tuple(_mark(event, finding, run) for event in contradicting(finding))


def _bars(finding: Shown, run: Judged, times: list[int], leases: Leases) -> tuple[Bar, ...]:
    ends = [*times, *(to for _, to, _, _ in finding.spans if to < run.end_ns)]
    last = max(ends)
    first = min([*times, *(start for start, _, _, _ in finding.spans)])
    room = last + max((last - first) // 8, 1_000_000)
    newer_ns = _newer_ns(finding)
    # Holds that were in force at once are drawn as far as a lease or a response proves them.
    proved = finding.kind in SECOND_HOLDS - {"stale-belief"}
    bars = []
    for n, (start, end, label, index) in enumerate(finding.spans):
        if 0 <= index < len(finding.witnesses):
            event = finding.witnesses[index]
            lane = event.node or run.client(event.process)
        else:
            lane = f"lock {plain(finding.lock, 20)}"
        lease = leases.get(event.row, 0) if 0 <= index < len(finding.witnesses) else 0
        lease = lease if start < lease < end else 0
        believed = newer_ns if n == 0 and start < newer_ns < end else 0
        open_end = end >= run.end_ns and end > room
        bars.append(
            Bar(
                lane=lane,
                from_ns=start,
                to_ns=max(room if open_end else end, start),
                text=plain(label, 48),
                open_end=open_end,
                belief_ns=min(filter(None, (0 if proved else lease, believed)), default=0),
                lease_ns=lease if lease <= max(room if open_end else end, start) else 0,
            )
        )
    return tuple(bars)


def _newer_ns(finding: Shown) -> int:
    """When an attempt other than that of the first span was granted, by a witness; 0: never."""
    spans, witnesses = finding.spans, finding.witnesses
    if finding.kind not in OUTLASTED or not spans or not 0 <= spans[0][3] < len(witnesses):
        return 0
    owner = witnesses[spans[0][3]]
    return max(
        (
            event.t_ret_ns
            for event in witnesses
            if event.op in {"acquire", "try", "probe"}
            and event.status == "ok"
            and event.attempt != owner.attempt
        ),
        default=0,
    )


def _clashes(bars: tuple[Bar, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (max(a.from_ns, b.from_ns), min(a.to_ns, b.to_ns))
        for a, b in combinations(bars, 2)
        if max(a.from_ns, b.from_ns) < min(a.to_ns, b.to_ns)
    )


def _squeezed(marks: tuple[Mark, ...], clashes: tuple[tuple[int, int], ...], width: int) -> bool:
    """Whether events would be too close to distinguish on a linear time axis."""
    if width <= 0:
        return False
    ordered = sorted(marks, key=lambda mark: mark.t_ns)
    gaps = [b.t_ns - a.t_ns for a, b in pairwise(ordered) if a.lane != b.lane and b.t_ns > a.t_ns]
    narrow = [end - start for start, end in clashes]
    return any(gap < CLOSEST * width for gap in gaps) or any(
        size < NARROWEST * width for size in narrow
    )


def _lanes(marks: tuple[Mark, ...], bars: tuple[Bar, ...]) -> tuple[str, ...]:
    first: dict[str, int] = {}
    for lane, t_ns in [
        *((mark.lane, mark.t_ns) for mark in marks),
        *((mark.sender, mark.t_ns) for mark in marks if mark.sender),
        *((bar.lane, bar.from_ns) for bar in bars),
    ]:
        first[lane] = min(first.get(lane, t_ns), t_ns)
    return tuple(sorted(first, key=lambda lane: (lane == RESOURCE, first[lane], lane)))


def _faults(run: Judged, low: float, high: float) -> tuple[ObservedFault, ...]:
    touching = [
        fault
        for fault in run.faults
        if fault.effective and fault.from_ns < high and fault.to_ns > low
    ]
    touching.sort(key=lambda f: max(f.from_ns, low) - min(f.to_ns, high))
    return tuple(sorted(touching[:MOST_FAULTS], key=lambda f: f.from_ns))


def _guilty(marks: tuple[Mark, ...], t_ns: int, width: int) -> int:
    """Index of the mark at the time of the finding (the last of equals); -1 if none is near."""
    near = [i for i, mark in enumerate(marks) if abs(mark.t_ns - t_ns) <= CLOSEST * width]
    return min(near, key=lambda i: (abs(marks[i].t_ns - t_ns), -i), default=-1)


def overlap_text(scene: Scene) -> str:
    """Total overlap of the drawn holds."""
    return span(max(end - start for start, end in scene.clashes)) if scene.clashes else ""
