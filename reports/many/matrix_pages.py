"""Renders the matrix: for a terminal, as Markdown, as one HTML page."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from rich.table import Table
from rich.text import Text

from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.statistics import none_in
from holdfast.harness.verdicts.left_unknown import LeftUnknown, once
from holdfast.reports.many import heat_map, textbook
from holdfast.reports.many.cell_claims import cell_claim
from holdfast.reports.many.claims import claim_of
from holdfast.reports.many.matrix import (
    BELOW,
    HELD,
    NOT_EXERCISED,
    OPEN,
    PROMISED,
    RARE,
    VIOLATED,
    Matrix,
    Square,
)
from holdfast.reports.many.page_frame import render
from holdfast.reports.many.performance import COLUMNS
from holdfast.reports.text import layout
from holdfast.reports.text.formatting import count, percent, plain

SIGNS = {HELD: "+", OPEN: "o", VIOLATED: "x", NOT_EXERCISED: "?"}
STYLES = {HELD: "green", OPEN: "cyan", VIOLATED: "bold red", NOT_EXERCISED: "magenta"}
LIMIT_STYLE = "yellow"
LINKS = 5
SPEED_OF = ("system", "workload", "backend", "faults", "runs")
SPEED_SAYS = (
    "Medians over the runs of a row, on the machine that ran them and under its load. Longest gap:"
    " the longest time without a grant after a fault on servers. Simulated runs are omitted."
)


def terminal(found: Matrix, *, width: int, colour: bool) -> str:
    """A table per system, at most `width` columns wide; without colour no escape sequence."""
    console, out = layout.buffered(width, colour=colour)
    for system in found.systems:
        columns = found.columns(system)
        names = (plain(fault, 40) for fault in columns)
        grid = layout.table(["property"], *names, title=Text(plain(system, 100)))
        for prop in found.rows(system):
            squares = [found.squares.get((system, prop, fault)) for fault in columns]
            grid.add_row(prop, *(_text(square) for square in squares))
        layout.show(console, grid)
    if found.speeds:
        layout.show(console, _speeds(found))
    console.print(Text(_legend(found)))
    console.print(Text(SIGNS_SAY))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _speeds(found: Matrix) -> Table:
    grid = layout.table((), *SPEED_OF, *COLUMNS.values(), title=Text("speed"))
    for row in found.speeds:
        of = (row.system, row.workload, row.backend, row.faults, str(row.runs))
        grid.add_row(*(Text(plain(cell, 80)) for cell in (*of, *row.cells())))
    return grid


def _text(square: Square | None) -> Text:
    if square is None:
        return Text("")
    limit = square.state == VIOLATED and not square.promised
    judged = square.judged
    text = f"{_sign(square)} {square.violated}/{judged}"
    text += f" and {square.early} early" if square.early else ""
    if square.state in (HELD, OPEN):
        text += f" <{percent(none_in(judged))}"
    elif square.state == NOT_EXERCISED:
        text = f"{SIGNS[square.state]} 0 of {square.runs}"
    return Text(text, style=LIMIT_STYLE if limit else STYLES[square.state])


def _sign(square: Square) -> str:
    """The state in one character; a violation of what was never promised has its own."""
    return "!" if square.state == VIOLATED and not square.promised else SIGNS[square.state]


SIGNS_SAY = (
    "+ held (0 of N, with the upper bound of the rate), N at least 30, or 299 if simulated; o open:"
    " held in fewer runs; x violated (k of N); ! violated, but never"
    " promised; ? not exercised (0 of N); early: violated before the first fault of a run"
)


def _legend(found: Matrix) -> str:
    left = f"; {count(found.left_out, 'run')} could not be executed" if found.left_out else ""
    return (
        f'{count(found.runs, "run")}{left}. Columns: the kind of fault ("several": a violation'
        " during more than one), or the scenario. A run with several kinds counts under each."
        " Percentages: upper bound of the violation rate (held, open) or its confidence interval"
        " (violated), 95% confidence."
    )


def markdown(found: Matrix) -> str:
    """A Markdown table per system, with the commands that reproduce its violations below."""
    lines = ["# System x property x fault", "", _legend(found)]
    lines += [*_heat_map(found), *_overview(found), *_textbook(found)]
    for system in found.systems:
        lines += ["", f"## {_escaped(system)}", ""]
        claim = claim_of(system)
        if claim is not None:
            lines += [
                f"Claim: {claim.claim}. Mechanism: {claim.mechanism}. Limit: {claim.caveat}.",
                "",
            ]
        columns = found.columns(system)
        lines.append(f"| property | {' | '.join(map(_escaped, columns))} |")
        lines.append("| --- |" + " --- |" * len(columns))
        proofs: list[str] = []
        for prop in found.rows(system):
            cells = []
            for fault in columns:
                square = found.squares.get((system, prop, fault))
                stale = found.stale.get((system, prop, fault), 0)
                old = f"stale: {count(stale, 'run')} judged by earlier checkers" if stale else ""
                cells.append(old if square is None else _marked(square, system, prop, fault))
                if square is not None and square.state == VIOLATED:
                    proofs.append(_proof(prop, fault, square.evidence[0]))
            lines.append(f"| {prop} | {' | '.join(cells)} |")
        lines += ["", *proofs] if proofs else []
        unseen = _unseen(found, system)
        lines += ["", "Not exercised:", "", *unseen] if unseen else []
    if found.speeds:
        lines += ["", "## Speed", "", SPEED_SAYS, ""]
        lines.append(f"| {' | '.join((*SPEED_OF, *COLUMNS.values()))} |")
        lines.append("|" + " --- |" * len(SPEED_OF) + " ---: |" * len(COLUMNS))
        for row in found.speeds:
            of = (row.system, row.workload, row.backend, row.faults, str(row.runs))
            lines.append(f"| {' | '.join([*map(_escaped, of), *row.cells()])} |")
    return "\n".join(lines) + "\n"


def _heat_map(found: Matrix) -> list[str]:
    """Locks x faults, the worst lock first, as a table of HTML: its cells have states as classes,
    and say them by a sign where classes are dropped."""
    view = heat_map.views(found, lambda result: "")[0]
    if not view.rows:
        return []
    rows = {
        system: {fault: (cell.state, cell.number) for fault, cell in row.items()}
        for system, row in view.rows.items()
    }
    return heat_map.html(view.faults, rows)


def _overview(found: Matrix) -> list[str]:
    """How many properties of each lock held, were violated and were not exercised per fault."""
    if not found.systems:
        return []
    of = found.states()
    lines = [
        "",
        f"{count(len(found.squares), 'cell')}: {of.get(HELD, 0)} held, {of[BELOW]} of them with a"
        f" rate below {percent(RARE)}; {of.get(OPEN, 0)} open: held, in too few runs;"
        f" {of.get(VIOLATED, 0)} violated, {of[PROMISED]} of them though promised;"
        f" {of.get(NOT_EXERCISED, 0)} not exercised"
        + (f"; {len(found.stale)} stale: judged by earlier checkers only." if found.stale else "."),
        "",
        "Per lock and fault the number of properties that held (+), are open (o), were violated"
        " though promised (x), were violated and never promised (!), were not exercised (?)"
        + (", are stale (s):" if found.stale else ":"),
        "",
        f"| lock | {' | '.join(map(_escaped, found.faults))} |",
        "| --- |" + " --- |" * len(found.faults),
    ]
    for system in found.systems:
        cells = [_counted(found, system, fault) for fault in found.faults]
        lines.append(f"| {_escaped(system)} | {' | '.join(cells)} |")
    return lines


def _counted(found: Matrix, system: str, fault: str) -> str:
    squares = [found.squares.get((system, prop, fault)) for prop in found.properties]
    signs = Counter(_sign(square) for square in squares if square is not None)
    signs["s"] = sum((system, prop, fault) in found.stale for prop in found.properties)
    return " ".join(f"{signs[sign]}{sign}" for sign in "+ox!?s" if signs[sign])


def _unseen(found: Matrix, system: str) -> list[str]:
    """The cells of a lock that its runs did not exercise, each cause once; where an opportunity
    was missing, the command that makes one."""
    parts = []
    for prop, fault in itertools.product(found.rows(system), found.columns(system)):
        square = found.squares.get((system, prop, fault))
        if square is not None and square.state == NOT_EXERCISED:
            cause, rows = square.why(prop, fault), tuple(square.sum.missing)
            command = square.exercise() if rows else ""
            parts.append(
                LeftUnknown(
                    properties=(prop,), faults=(fault,), cause=cause, rows=rows, command=command
                )
            )
    return [
        f"- {', '.join(one.properties)}, {', '.join(map(_escaped, one.faults))}:"
        f" {_escaped(one.cause)}{one.command and f' {_code(one.command)}'}"
        for one in once(parts)
    ]


def _textbook(found: Matrix) -> list[str]:
    """The textbooks' own table, as Markdown."""
    if not found.systems:
        return []
    columns = textbook.columns(found)
    lines = ["", "## The textbook table", "", textbook.SAYS, ""]
    lines += [f"| lock | {' | '.join(columns)} |", "| --- |" + " --- |" * len(columns)]
    for system in found.systems:
        cells = [textbook.entry(found, system, prop) for prop in columns]
        in_words = [_escaped("; ".join(filter(None, (c.measured(), c.claimed())))) for c in cells]
        lines.append(f"| {_escaped(system)} | {' | '.join(in_words)} |")
    return lines


def _marked(square: Square, system: str, prop: str, fault: str) -> str:
    word = square.state
    if word == VIOLATED:
        word = f"**{word}**" if square.promised else f"{word} (never promised)"
    claim = cell_claim(system, prop)
    claimed = claim.under(fault) if claim is not None else ""
    return f"{word}, {square.says()}{claimed and f'; {claimed}'}"


def _proof(prop: str, fault: str, result: Result) -> str:
    sentence = result.properties[prop].sentence or result.properties[prop].reason
    return f"- {prop}, {_escaped(fault)}: {_escaped(sentence)} {_code(result.command)}"


def _code(text: str) -> str:
    """A code span; the text cannot terminate it."""
    clean = plain(text, 600)
    fence = "`" * (max(map(len, re.findall("`+", clean)), default=0) + 1)
    return f"{fence} {clean} {fence}" if "`" in clean else f"{fence}{clean}{fence}"


def _escaped(text: str) -> str:
    clean = plain(text, 400).replace("&", "&amp;").replace("<", "&lt;")
    for sign in "\\`*_[]>|":
        clean = clean.replace(sign, f"\\{sign}")
    return clean


def page(found: Matrix, beside: Path) -> str:
    """The matrix as an HTML page for the folder `beside`."""

    def link(result: Result) -> str:
        report = Path(result.run) / "report.html" if result.run else None
        if report is None:
            return ""
        at = report if report.is_absolute() else beside / report
        return quote(str(report)) if at.exists() else ""

    return render(
        "matrix.html",
        {
            "found": found,
            "legend": _legend(found),
            "claim_of": claim_of,
            "cell_claim": cell_claim,
            "textbook": textbook,
            "speed_of": SPEED_OF,
            "speed_columns": COLUMNS,
            "speed_says": SPEED_SAYS,
            "drawn": heat_map.style,
            "views": heat_map.views(found, link),
            "system_link": lambda name: f"#system-{found.systems.index(name) + 1}",
            "map_words": heat_map.WORDS,
            "map_key": heat_map.KEY,
            "map_counted": heat_map.counted(found),
            "link": link,
            "links": LINKS,
        },
    )
