"""The heat map: systems x faults, the state of each cell in words, the worst systems first.

A view is the map of all properties, or of one. With few columns a cell says what was violated, and
is UNKNOWN as soon as one property was not exercised. With many it is a number: of the properties
violated, else of those that held, of all; then a cell is UNKNOWN if none could have failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.statistics import none_in
from holdfast.harness.core.verdict import Verdict
from holdfast.reports.many.matrix import HELD, NOT_EXERCISED, OPEN, VIOLATED, Matrix, Square
from holdfast.reports.text.formatting import count, percent, plain

BROKEN, LIMIT, UNKNOWN, HELD_SO_FAR, HOLDS = "broken", "limit", "unknown", "open", "holds"
WORDS = {
    BROKEN: "VIOLATED",
    LIMIT: "LIMIT",
    UNKNOWN: "UNKNOWN",
    HELD_SO_FAR: "OPEN",
    HOLDS: "HOLDS",
}
"""Style of a cell -> its word, the worst first."""
KEY = {
    BROKEN: "a promise was broken",
    LIMIT: "violated, never promised",
    UNKNOWN: "not tested: no pass",
    HELD_SO_FAR: "0 violations so far, in too few runs",
    HOLDS: "0 violations in 299 simulated runs or more, 30 real ones",
}
SIGNS = {BROKEN: "✕", LIMIT: "△", UNKNOWN: "?", HELD_SO_FAR: "◔", HOLDS: "✓"}
"""Sign of a cell where nothing can be drawn."""
MOST_WORDED = 7
"""Columns up to which a cell has room for words."""
WORST = "worst of all"
COUNTED = (
    "A cell counts the runs that show it, of all runs of that lock that had this kind of fault;"
    " none: runs without a fault, and the others before their first one."
)
"""What the numbers of a map of violations are."""


def counted(found: Matrix) -> str:
    """What the numbers of a map are, and whether any cell of it has the runs that HOLDS takes."""
    held = [one for one in found.squares.values() if one.held]
    if not held or any(one.held >= one.enough for one in held):
        return COUNTED
    enough, most = min(one.enough for one in held), max(one.held for one in held)
    return (
        f"{COUNTED} HOLDS takes {enough} runs of a cell without a violation; no cell here has"
        f" more than {most} of these, so OPEN is the best that a lock can get."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MapCell:
    """One cell: what is said after its word, and below; `number` stands for both where there is no
    room; `link` leads to the report of a run that shows it, "" for none."""

    state: str
    says: str
    note: str
    number: str
    link: str = ""

    @property
    def word(self) -> str:
        """Its state in one word."""
        return WORDS[self.state]


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultMap:
    """The map of one property, or WORST. rows: system -> fault -> its cell, where it was run."""

    name: str
    faults: Sequence[str]
    rows: Mapping[str, Mapping[str, MapCell]]

    @property
    def dense(self) -> bool:
        """Whether there is only room for numbers."""
        return len(self.faults) > MOST_WORDED


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Number of properties of a cell by state; total: with those that are judged by now only by
    checkers of an older version."""

    counts: Mapping[str, int]
    total: int

    def state(self, *, dense: bool) -> str:
        """The worst state; where only numbers are shown, of the properties that were exercised."""
        present = [state for state in WORDS if self.counts.get(state, 0)]
        answered = [state for state in present if state != UNKNOWN]
        return (answered if dense and answered else present or [UNKNOWN])[0]

    def number(self) -> str:
        """The number that a dense map shows."""
        state = self.state(dense=True)
        if state in (BROKEN, LIMIT):
            return str(self.counts[state])
        held = self.counts.get(HOLDS, 0) + self.counts.get(HELD_SO_FAR, 0)
        return f"{held}/{self.total}"


def views(found: Matrix, link: Callable[[Result], str]) -> list[FaultMap]:
    """The map of all properties, then one for each of them. link: to the report of a run."""
    made = [_view(found, WORST, found.properties, link)]
    return made + [_view(found, prop, (prop,), link) for prop in found.properties]


def _view(
    found: Matrix, name: str, properties: Sequence[str], link: Callable[[Result], str]
) -> FaultMap:
    dense = len(found.faults) > MOST_WORDED
    rows: dict[str, dict[str, MapCell]] = {}
    for (system, prop, fault), _ in found.squares.items():
        if prop in properties and fault not in rows.setdefault(system, {}):
            rows[system][fault] = _cell(found, system, fault, properties, link, dense=dense)
    order = sorted(rows, key=lambda system: (_rank(rows[system]), system))
    return FaultMap(name=name, faults=found.faults, rows={system: rows[system] for system in order})


def first(view: FaultMap, most: int) -> FaultMap:
    """The view with its first systems only."""
    return replace(view, rows=dict(list(view.rows.items())[:most]))


def _rank(row: Mapping[str, MapCell]) -> tuple[int, ...]:
    """Systems with more cells of a worse state come first."""
    states = [cell.state for cell in row.values()]
    return tuple(-states.count(state) for state in WORDS)


def style(square: Square) -> str:
    """Style of one property's cell."""
    if square.state == VIOLATED:
        return BROKEN if square.promised else LIMIT
    return {HELD: HOLDS, OPEN: HELD_SO_FAR, NOT_EXERCISED: UNKNOWN}[square.state]


def _cell(
    found: Matrix,
    system: str,
    fault: str,
    properties: Sequence[str],
    link: Callable[[Result], str],
    *,
    dense: bool,
) -> MapCell:
    squares = {
        prop: square
        for prop in properties
        if (square := found.squares.get((system, prop, fault))) is not None
    }
    stale = sum((system, prop, fault) in found.stale for prop in properties)
    styles = {prop: style(square) for prop, square in squares.items()}
    counts = {state: list(styles.values()).count(state) for state in WORDS}
    tally = Tally(counts=counts, total=len(squares) + stale)
    state = tally.state(dense=dense)
    telling = {prop: square for prop, square in squares.items() if styles[prop] == state}
    says, note = _words(state, telling, squares, alone=len(properties) == 1)
    shown = next(iter(telling.values())).evidence if state in (BROKEN, LIMIT) else ()
    links = (link(result) for result in shown)
    return MapCell(
        state=state,
        says=says,
        note=note,
        number=tally.number(),
        link=next(filter(None, links), ""),
    )


def _words(
    state: str, telling: Mapping[str, Square], squares: Mapping[str, Square], *, alone: bool
) -> tuple[str, str]:
    """What a cell says after its word, and below. telling: the properties in its state."""
    prop = next(iter(telling))
    held = sum(one.state in (HELD, OPEN) for one in squares.values())
    if state in (BROKEN, LIMIT):
        more = f" and {len(telling) - 1} more" if len(telling) > 1 else ""
        return ("" if alone else plain(prop.replace("-", " "), 40) + more), _times(telling.values())
    if state == UNKNOWN:
        of = "" if alone else f"{len(telling)} of {len(squares)}"
        return of, "not exercised" if alone else f"not exercised; {held} held so far"
    rarest = min(telling.values(), key=lambda one: one.held)
    of = "" if alone else f"0 of {len(telling)} violated"
    if state == HELD_SO_FAR:
        fewest = min(one.sum.opportunities or one.held for one in telling.values())
        return of, f"fewest opportunities {fewest:,}"
    return of, f"rate below {percent(none_in(rarest.held))}"


def _times(telling: Iterable[Square]) -> str:
    """In how many runs of the cell it was violated, whichever of the properties."""
    several = list(telling)
    shown = {id(run) for one in several for run in one.proof.get(Verdict.VIOLATED, ())}
    violated = max(len(shown), *(max(one.violated, one.early) for one in several))
    of = max(violated, *(one.runs for one in several))
    early = "" if any(one.violated for one in several) else ", before their first fault"
    return f"{violated:,} of {count(of, 'run')}{early}"


def texts(view: FaultMap) -> list[list[str]]:
    """A map as rows of plain text: the faults, then each system with its cells."""
    rows = [["lock", *view.faults]]
    for system, row in view.rows.items():
        cells = [row.get(fault) for fault in view.faults]
        rows.append([system, *(_text(cell, dense=view.dense) if cell else "" for cell in cells)])
    return rows


def _text(cell: MapCell, *, dense: bool) -> str:
    if dense:
        return f"{SIGNS[cell.state]} {cell.number}"
    says = f": {cell.says}" if cell.says else ""
    return f"{SIGNS[cell.state]} {cell.word}{says}, {cell.note}"


def html(faults: Sequence[str], rows: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[str]:
    """A dense map for a page in Markdown, one line. rows: system -> fault -> state and number."""
    key = "; ".join(f"{SIGNS[state]} {word}: {KEY[state]}" for state, word in WORDS.items())
    head = "".join(f"<th><span>{_safe(fault)}</span></th>" for fault in faults)
    body = []
    for system, row in rows.items():
        cells = []
        for fault in faults:
            state, number = row.get(fault, ("", ""))
            sign = f'<span title="{WORDS[state]}">{SIGNS[state]}</span> ' if state else ""
            cells.append(f'<td class="{state}">{sign}{number}</td>' if state else "<td></td>")
        body.append(f"<tr><th>{_safe(system)}</th>{''.join(cells)}</tr>")
    table = f"<thead><tr><th>lock</th>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    legend = (
        "The worst lock first. A number is that of the properties violated; else of those that"
        f" held, of all that were judged: the others were not exercised. {key}."
    )
    return ["", legend, "", f'<div class="heat-map"><table class="cells">{table}</table></div>']


def _safe(text: str) -> str:
    """Untrusted text in HTML within Markdown: its signs mean nothing to either."""
    return "".join(
        char if char.isalnum() or char in " -=.,:+@/()" else f"&#{ord(char)};"
        for char in plain(text, 120)
    )
