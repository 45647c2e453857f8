"""Content of a run's page: cards of findings, charts, rows of long logs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.statistics import clopper_pearson
from holdfast.harness.core.verdict import Kind, Verdict
from holdfast.harness.properties import kind
from holdfast.harness.verdicts.evidence import Dist
from holdfast.harness.verdicts.judged import Cause, Judged, Judgement, Shown
from holdfast.harness.verdicts.proof import OVERLAPS
from holdfast.reports.pictures import charts
from holdfast.reports.pictures.cycle import draw_cycle
from holdfast.reports.pictures.cycle_edges import cycle_of, section_cycle
from holdfast.reports.pictures.finding import PHONE_PX, draw
from holdfast.reports.pictures.finding_scene import NO_LEASES, Leases, Mark, Scene, halves, scene
from holdfast.reports.run.nearby_operations import Beside
from holdfast.reports.run.story import Entry, entries
from holdfast.reports.text.formatting import plain, seconds

CARDS, NOTES = 12, 3
LOG_ROWS = 240
MANIFEST_ROWS = 80
LATENCIES = 8
MARK_ROWS = 32
OTHERS = 300
"""So many further overlaps of one cause are drawn on the timeline."""
MARGIN_NS, US = 20_000, 1000
"""Minimum margin around a finding on the timeline, and its unit."""

Around = Callable[[Shown], Iterable[Beside]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One numbered step of a cause; `half`: the event that it is, if it is half of the proof."""

    number: int
    text: str
    half: Mark | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One finding on the page; `number` identifies it everywhere, `tone` is its group.

    phone   the drawing for a phone
    entry   its cause; None for a note
    lines   the steps of the cause, numbered, with the two halves of the proof
    more    the further findings of the cause
    """

    number: int
    finding: Shown
    judgement: Judgement
    tone: str
    words: Kind
    drawing: Markup
    phone: Markup
    cycle: Markup | None = None
    around: tuple[Beside, ...] = ()
    entry: Entry | None = None
    lines: tuple[Line, ...] = ()
    more: tuple[Shown, ...] = ()

    @property
    def title(self) -> str:
        """The name of its kind of finding, or of the cause."""
        return self.entry.title if self.entry else self.words.name

    @property
    def remedy(self) -> str:
        """What to do: of its cause, as every output has it, or of its kind of finding."""
        return self.entry.remedy if self.entry else self.words.remedy


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Cards of one group; `more` are the findings without a card."""

    id: str
    title: str
    lead: str
    cards: tuple[Card, ...]
    more: tuple[Shown, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A distribution with its picture, None if there is too little to draw.

    single   it has one value only, which is shown as a number
    """

    title: str
    about: str
    dist: Dist
    drawing: Markup | None
    single: bool = False


def groups(run: Judged, around: Around | None = None, leases: Leases = NO_LEASES) -> list[Group]:
    """Broken promises by cause, then limits by cause, then notes; none that is empty.

    `around` returns the operations around a finding, and `leases` the ends of leases, if the
    history is available.
    """
    made: list[Group] = []
    numbers = itertools.count(1)

    def card(name: str, one: Judgement, finding: Shown, entry: Entry | None = None) -> Card:
        number = next(numbers)
        lines = _lines(run, entry.cause, finding) if entry else ()
        marked = {line.half.row: line.number for line in lines if line.half}
        return Card(
            number=number,
            finding=finding,
            judgement=one,
            tone=name,
            words=kind(finding.kind, finding.cause),
            drawing=draw(finding, number, run, name, leases, numbers=marked),
            phone=draw(finding, number, run, name, leases, numbers=marked, room=PHONE_PX),
            cycle=draw_cycle(whole, number) if (whole := cycle_of(finding, run)) else None,
            around=tuple(around(finding)) if around else (),
            entry=entry,
            lines=lines,
            more=_others(run, entry.cause) if entry else (),
        )

    for name, title, lead, broken in (
        (
            "broken",
            "Broken promises",
            "Violated properties that the system promises, or that the run requires.",
            True,
        ),
        (
            "limits",
            "Limits",
            "Violated properties that the system never promised.",
            False,
        ),
    ):
        causes = [(entry, *_first(run, entry.cause)) for entry in entries(run, broken=broken)]
        cards = tuple(card(name, one, finding, entry) for entry, one, finding in causes[:CARDS])
        more = tuple(finding for _, _, finding in causes[CARDS:])
        if cards:
            made.append(Group(id=name, title=title, lead=lead, cards=cards, more=more))
    notes = sorted(_notes(run), key=lambda pair: pair[1].t_ns)
    if notes:
        cards = tuple(card("notes", one, note) for one, note in notes[:NOTES])
        more = tuple(note for _, note in notes[NOTES:])
        lead = "Observations that violate no property."
        made.append(Group(id="notes", title="Notes", lead=lead, cards=cards, more=more))
    return made


def _lines(run: Judged, cause: Cause, finding: Shown) -> tuple[Line, ...]:
    """The steps of a cause by time, numbered, with the two halves of the proof.

    Verdicts of an earlier version have no step for a half that is in the finding's own words.
    """
    proof = {mark.row: mark for mark in halves(finding, run)}
    # Of two steps about one row, the later one is the finding's own.
    place = {step.row: n for n, step in enumerate(cause.steps) if step.row in proof}
    events = [
        (step.t_ns, step.text, proof.get(step.row) if place.get(step.row) == n else None)
        for n, step in enumerate(cause.steps)
    ]
    events += [
        (mark.t_ns, f"{_who(mark)} {mark.text} at {seconds(run.at(mark.t_ns))}", mark)
        for row, mark in proof.items()
        if row not in place
    ]
    events.sort(key=lambda event: event[0])
    return tuple(
        Line(number=n, text=text, half=half) for n, (_, text, half) in enumerate(events, 1)
    )


def _who(mark: Mark) -> str:
    return f"{plain(mark.lane, 40)}:"


def _first(run: Judged, cause: Cause) -> tuple[Judgement, Shown]:
    """The finding that the steps of a cause are about, with its property."""
    prop, place = cause.first
    row = next(one for one in run.verdicts if one.property == prop)
    return row, row.findings[place]


def _others(run: Judged, cause: Cause) -> tuple[Shown, ...]:
    """The further findings of a cause, by time."""
    others = [
        row.findings[place]
        for row in run.verdicts
        for place in cause.findings.get(row.property, ())
        if (row.property, place) != cause.first
    ]
    return tuple(sorted(others, key=lambda one: one.t_ns))


def _notes(run: Judged) -> Iterator[tuple[Judgement, Shown]]:
    """Notes, and findings of properties that are not violated."""
    for one in run.verdicts:
        kept = one.findings if one.verdict is not Verdict.VIOLATED else ()
        yield from ((one, note) for note in (*one.notes, *kept))


def marks(run: Judged, cards: Sequence[Card]) -> list[dict[str, Json]]:
    """The findings on cards as marks of the timeline.

    n, name, tone, lock      of the card
    t, from, to              time of the finding, and the stretch that shows all of it, in ns
    lanes, owners            nodes of its drawing; those of them that are clients
    clashes                  overlaps of holds, in microseconds since the start
    others                   lanes and overlap of the further findings of the same cause
    arrow                    the violating request: its lanes and times in ns; None if there is none
    rows                     rows of its witnesses
    proof                    the halves of its proof: number, lane, time in ns
    """
    return [_mark(run, card) for card in cards]


def _mark(run: Judged, card: Card) -> dict[str, Json]:
    finding, shown = card.finding, scene(card.finding, run)
    times = [finding.t_ns, *(mark.t_ns for mark in shown.marks)]
    times += [edge for bar in shown.bars for edge in (bar.from_ns, bar.to_ns)]
    pad = max((max(times) - min(times)) // 5, MARGIN_NS)
    return {
        "n": card.number,
        "t": finding.t_ns,
        "from": min(times) - pad,
        "to": max(times) + pad,
        "name": card.title,
        "tone": card.tone,
        "lock": plain(finding.lock, 60),
        "lanes": [plain(lane, 24) for lane in shown.lanes],
        "owners": _owners_of(shown),
        "arrow": _arrow(shown),
        "rows": [event.row for event in finding.witnesses[:MARK_ROWS]],
        "proof": [
            {"n": line.number, "lane": plain(line.half.lane, 24), "t": line.half.t_ns}
            for line in card.lines
            if line.half
        ],
        "clashes": _overlaps(run, shown),
        "others": [
            {"lanes": _owners_of(other), "clashes": _overlaps(run, other)}
            for other in (scene(one, run) for one in card.more[:OTHERS] if one.kind in OVERLAPS)
        ],
    }


def _overlaps(run: Judged, shown: Scene) -> list[list[float]]:
    """Begin and end of each, in microseconds since the start."""
    return [[run.at(low) / US, run.at(high) / US] for low, high in shown.clashes]


def _owners_of(shown: Scene) -> list[str]:
    """Clients of the violation: those whose holds overlap, or the sender of the request."""
    guilty = shown.marks[shown.guilty] if shown.guilty >= 0 else None
    if guilty is not None:
        return [plain(guilty.sender or guilty.lane, 24)]
    owners = dict.fromkeys(
        bar.lane
        for bar in shown.bars
        for low, high in shown.clashes
        if bar.from_ns < high and bar.to_ns > low
    )
    return [plain(lane, 24) for lane in owners]


def _arrow(shown: Scene) -> dict[str, Json] | None:
    """The violating request from its client to the resource, if the finding has one."""
    guilty = shown.marks[shown.guilty] if shown.guilty >= 0 else None
    if guilty is None or not guilty.sender:
        return None
    lanes = {"from": plain(guilty.sender, 24), "to": plain(guilty.lane, 24)}
    return {**lanes, "sent": guilty.sent_ns, "t": guilty.t_ns}


def sections(run: Judged) -> Markup | None:
    """The drawing of critical sections that no order explains, if the run has some."""
    found = section_cycle(run.evidence.serialisability)
    return draw_cycle(found, 0) if found else None


def residual(run: Judged) -> tuple[float, float]:
    """95% confidence interval of the acceptance rate of expired owners' writes; (0, 1) if none."""
    owner = run.evidence.expired_owner
    return clopper_pearson(owner.accepted, owner.sent)


def spans(run: Judged) -> list[Chart]:
    """Latency per operation, waits, holds, and the remaining lease at renewals."""
    facts = run.evidence
    calls = list(facts.latency_ns.items())[:LATENCIES]
    return [
        *(
            _chart(f"latency-{i}", plain(op.replace("_", " "), 40), "from call to return", dist)
            for i, (op, dist) in enumerate(calls)
        ),
        _chart("wait", "Lock wait", "from request to grant", facts.wait_ns),
        _chart("hold", "Hold time", "from grant to end of the claim", facts.hold_ns),
        _chart(
            "margin",
            "Renewal margin",
            "remaining lease when a renewal returned",
            facts.renewal_margin_ns,
        ),
    ]


def token_rows(run: Judged) -> list[tuple[int, tuple[int, str, int, int], bool]]:
    """Rows (index in the log, entry, whether its token decreased) of a log that may be long.

    Keeps the first and the last rows and the rows around every decrease.
    """
    log = run.evidence.tokens.log
    fallen = charts.falls(log)
    if len(log) <= LOG_ROWS:
        keep: Iterable[int] = range(len(log))
    else:
        half = LOG_ROWS // 2
        near = {j for i in sorted(fallen)[:half] for j in (i - 1, i, i + 1) if 0 <= j < len(log)}
        keep = sorted(near | set(range(half // 2)) | set(range(len(log) - half // 2, len(log))))
    return [(i, log[i], i in fallen) for i in keep]


def flat(manifest: Mapping[str, Json]) -> list[tuple[str, str]]:
    """A manifest as rows of dotted names and values, at most MANIFEST_ROWS."""
    rows: list[tuple[str, str]] = []

    def walk(name: str, value: object) -> None:
        if len(rows) >= MANIFEST_ROWS:
            return
        if isinstance(value, Mapping) and value:
            for key, inner in value.items():
                walk(f"{name}.{key}" if name else str(key), inner)
        else:
            rows.append((name, str(value)))

    walk("", {key: value for key, value in manifest.items() if key != "promises"})
    return rows


def _chart(name: str, title: str, about: str, dist: Dist) -> Chart:
    return Chart(
        title=title,
        about=about,
        dist=dist,
        drawing=charts.distribution(name, f"{title}: {about}", dist),
        single=dist.n == 1 or (dist.n > 0 and dist.min == dist.max),
    )
