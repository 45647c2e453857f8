"""Content of a run's page: cards of findings, charts, rows of long logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.statistics import clopper_pearson
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.verdicts.evidence import Dist
from holdfast.harness.verdicts.judged import Judged, Judgement, Shown
from holdfast.reports.pictures import charts
from holdfast.reports.pictures.cycle import draw_cycle
from holdfast.reports.pictures.cycle_edges import cycle_of, section_cycle
from holdfast.reports.pictures.finding import draw
from holdfast.reports.pictures.finding_scene import NO_LEASES, Leases, Scene, scene
from holdfast.reports.run.finding_kinds import Kind, kind
from holdfast.reports.run.nearby_operations import Beside
from holdfast.reports.text.formatting import plain

CARDS, CARDS_A_KIND, NOTES = 12, 3, 3
LOG_ROWS = 240
MANIFEST_ROWS = 80
LATENCIES = 8
MARK_ROWS = 32
MARGIN_NS, US = 20_000, 1000
"""Minimum margin around a finding on the timeline, and its unit."""

Around = Callable[[Shown], Iterable[Beside]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One finding on the page; `number` identifies it everywhere, `tone` is its group.

    times   number of findings with the same cause: of the same kind, by the same owners
    """

    number: int
    finding: Shown
    judgement: Judgement
    tone: str
    words: Kind
    drawing: Markup
    cycle: Markup | None = None
    around: tuple[Beside, ...] = ()
    times: int = 1


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
    """Broken promises, then documented limits, then notes; without empty groups.

    `around` returns the operations around a finding, and `leases` the ends of leases, if the
    history is available.
    """
    order = list(Severity)
    judged = sorted(run.verdicts, key=lambda one: order.index(one.severity))
    violated = [one for one in judged if one.verdict is Verdict.VIOLATED]
    broken = [(one, finding) for one in violated if one.promised for finding in one.findings]
    limits = [(one, finding) for one in violated if not one.promised for finding in one.findings]
    notes = [(one, note) for one in judged for note in one.notes]
    notes += [
        (one, finding)
        for one in judged
        if one.verdict is not Verdict.VIOLATED
        for finding in one.findings
    ]
    made: list[Group] = []
    for name, title, lead, found, most in (
        (
            "broken",
            "Broken promises",
            "Violated properties that the system promises, or that the run requires.",
            broken,
            CARDS,
        ),
        (
            "limits",
            "Documented limits",
            "Violated properties that the system never promised.",
            limits,
            CARDS,
        ),
        ("notes", "Notes", "Observations that violate no property.", notes, NOTES),
    ):
        if found:
            taken = sum(len(group.cards) for group in made)
            made.append(_group(run, name, title, lead, found, most, taken, around, leases))
    return made


def _group(
    run: Judged,
    name: str,
    title: str,
    lead: str,
    found: list[tuple[Judgement, Shown]],
    most: int,
    taken: int,
    around: Around | None,
    leases: Leases,
) -> Group:
    shown: list[tuple[Judgement, Shown]] = []
    more: list[Shown] = []
    seen: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, ...]] = Counter()
    for one, finding in sorted(found, key=lambda pair: pair[1].t_ns):
        kinds, owners = (one.property, finding.kind), _owners(one, finding)
        times[owners] += 1
        seen[kinds] += times[owners] == 1
        if times[owners] == 1 and seen[kinds] <= CARDS_A_KIND and len(shown) < most:
            shown.append((one, finding))
        else:
            more.append(finding)
    cards = tuple(
        Card(
            number=number,
            finding=finding,
            judgement=one,
            tone=name,
            words=kind(finding.kind, finding.cause),
            drawing=draw(finding, number, run, name, leases),
            cycle=draw_cycle(whole, number) if (whole := cycle_of(finding, run)) else None,
            around=tuple(around(finding)) if around else (),
            times=times[_owners(one, finding)],
        )
        for number, (one, finding) in enumerate(shown, taken + 1)
    )
    return Group(id=name, title=title, lead=lead, cards=cards, more=tuple(more))


def _owners(one: Judgement, finding: Shown) -> tuple[str, ...]:
    """What findings with the same cause share: property, kind, lock and the holds in question.

    A finding without holds is a cause of its own.
    """
    rows = finding.witnesses
    # An attempt is one acquire of one client, also where a lock has no tokens to tell them apart.
    holds = [
        f"attempt {rows[at].attempt}" if 0 <= at < len(rows) else label
        for _, _, label, at in finding.spans
    ]
    alone = [] if holds else [finding.sentence, str(finding.t_ns)]
    return (one.property, finding.kind, finding.lock, *holds, *alone)


def marks(run: Judged, cards: Sequence[Card]) -> list[dict[str, Json]]:
    """The findings on cards as marks of the timeline.

    n, name, tone, lock      of the card
    t, from, to              time of the finding, and the stretch that shows all of it, in ns
    lanes, owners            nodes of its drawing; those of them that are clients
    clashes                  overlaps of holds, in microseconds since the start
    arrow                    the violating request: its lanes and times in ns; None if there is none
    rows                     rows of its witnesses
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
        "name": card.words.name,
        "tone": card.tone,
        "lock": plain(finding.lock, 60),
        "lanes": [plain(lane, 24) for lane in shown.lanes],
        "owners": _owners_of(shown),
        "arrow": _arrow(shown),
        "rows": [event.row for event in finding.witnesses[:MARK_ROWS]],
        "clashes": [[run.at(low) / US, run.at(high) / US] for low, high in shown.clashes],
    }


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
