"""The verdict of a run as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Judgement, Outcome, UnderKind
from holdfast.harness.verdicts.section import Section
from holdfast.reports.outputs import brief
from holdfast.reports.outputs.brief import STYLES
from holdfast.reports.run import story
from holdfast.reports.text import formatting, layout
from holdfast.reports.text.layout import aligned

FINDINGS_A_PROPERTY = 3
COUNTS = 3
ERRORS = 5
WIDE = 100
"""Minimum width in columns for showing coverage counts."""


def render(
    run: Judged,
    *,
    width: int,
    colour: bool,
    why: str = "",
    verbose: bool = False,
    sections: Sequence[Section] = (),
) -> str:
    """The run as text of at most `width` columns; without colour it has no escape sequences.

    why       the command that explains its violation, "" for none
    verbose   with the tables of properties, errors and faults, and every cause
    sections  of features that looked at the run
    """
    console, out = layout.buffered(width, colour=colour)
    if verbose:
        _print_verdict(console, run)
        _print_tables(console, run)
    else:
        brief.show(console, run, why)
    for section in sections:
        _print_section(console, section)
    if verbose:
        _print_end(console, run, why)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print_tables(console: Console, run: Judged) -> None:
    if run.verdicts:
        console.print(Text("Properties", style="bold"))
        layout.show(console, _properties(run, wide=console.width >= WIDE))
    if any(len(one.under) > 1 for one in run.verdicts):
        console.print(Text("By kind of fault", style="bold"))
        layout.show(console, _by_kind(run))
    _print_findings(console, run)
    _print_errors(console, run)
    if run.faults:
        console.print(Text("Faults", style="bold"))
        layout.show(console, _faults(run))


def _print_verdict(console: Console, run: Judged) -> None:
    console.print(Text(f"{formatting.plain(run.run, 80)}, seed {run.seed}", style="dim"))
    console.print(Text(story.headline(run), style=STYLES[run.outcome()]))
    for line in aligned(story.answers(run), console.width, 2):
        console.print(Text(line))
    for sentence in story.how_to_fail(run):
        console.print(Text(sentence))
    for entry in story.entries(run):
        _print_entry(console, entry)
    tried = (*story.held(run), *story.counted(run))
    for sentence in (*story.servers(run), *tried, *story.left_open(run)):
        console.print(Text(sentence))
    if run.remedy:
        console.print(Text(f"{story.EXERCISE}:"))
        console.print(Text(f"  {formatting.plain(run.remedy, 1200)}"), soft_wrap=True)
    console.print()


def _print_entry(console: Console, entry: story.Entry) -> None:
    """One cause: its title, what happened, how often and what to do."""
    word = Outcome.BROKEN if entry.cause.broken else Outcome.LIMIT
    console.print(Text.assemble((word.value, STYLES[word]), f"  {entry.title}"))
    rows = [("cause", entry.sentence), ("extent", entry.extent), ("do", entry.remedy)]
    for line in aligned(rows, console.width, 2):
        console.print(Text(line))


def _properties(run: Judged, *, wide: bool) -> Table:
    table = layout.table(
        ("property", "state", "promised", "severity"), "why", *(["coverage"] if wide else [])
    )
    for one in run.verdicts:
        table.add_row(
            Text(formatting.plain(one.property, 40)),
            _verdict(one),
            "required" if one.required else "yes" if one.promised else "no",
            one.severity.value,
            Text(formatting.plain(one.reason, 600)),
            *([Text(_leans(one))] if wide else []),
        )
    return table


def _by_kind(run: Judged) -> Table:
    kinds = list(dict.fromkeys(kind for one in run.verdicts for kind in one.under))
    table = layout.table(["property"], *(formatting.plain(kind, 40) for kind in kinds))
    for one in run.verdicts:
        cells = [_under(one, one.under[kind]) if kind in one.under else Text("") for kind in kinds]
        table.add_row(Text(formatting.plain(one.property, 40)), *cells)
    return table


def _under(one: Judgement, at: UnderKind) -> Text:
    if at.verdict is Verdict.UNKNOWN:
        return Text("? UNKNOWN", style="magenta")
    if at.verdict is Verdict.HOLDS:
        return Text("+ HOLDS", style="green")
    n = len(at.findings)
    if one.promised:
        return Text(f"x VIOLATED {n:,}", style="bold red")
    return Text(f"! LIMIT {n:,}", style="yellow")


def _leans(one: Judgement) -> str:
    """The first coverage counts of the verdict; the report has all of them."""
    counts = [(name, n) for name, n in one.exercised.items() if " windows" not in name]
    shown = [f"{formatting.number(n)} {formatting.plain(name, 40)}" for name, n in counts[:COUNTS]]
    return ", ".join(shown)


def _verdict(one: Judgement) -> Text:
    """Sign, word and colour; the sign alone is unique as well."""
    if one.verdict is Verdict.UNKNOWN:
        return Text("? UNKNOWN", style="bold magenta")
    if one.verdict is Verdict.HOLDS:
        return Text("+ HOLDS", style="green")
    if one.promised:
        return Text("x VIOLATED", style="bold red")
    return Text("! LIMIT", style="yellow")


def _print_findings(console: Console, run: Judged) -> None:
    for one in run.verdicts:
        if not one.findings:
            continue
        n = formatting.count(len(one.findings), "finding")
        console.print(Text(f"{formatting.plain(one.property, 40)}: {n}", style="bold"))
        for finding in one.findings[:FINDINGS_A_PROPERTY]:
            line = (
                f"{formatting.plain(finding.kind, 40)}: {formatting.stopped(finding.sentence, 400)}"
            )
            console.print(Padding(Text(line), (0, 0, 0, 2)))
        if len(one.findings) > FINDINGS_A_PROPERTY:
            rest = len(one.findings) - FINDINGS_A_PROPERTY
            console.print(Text(f"  and {rest:,} more in the report", style="dim"))
        console.print()


def _print_errors(console: Console, run: Judged) -> None:
    if run.evidence.errors:
        console.print(Text("Call errors", style="bold"))
        layout.show(console, _errors(run))


def _errors(run: Judged) -> Table:
    table = layout.table(("op", "calls", "clients", "first"), "error")
    for one in run.evidence.errors[:ERRORS]:
        table.add_row(
            Text(formatting.plain(one.op, 20)),
            f"{one.n:,}",
            f"{one.clients:,}",
            Text(f"{formatting.seconds(run.at(one.first_ns))} {run.client(one.first_process)}"),
            Text(formatting.plain(one.error, 160)),
        )
    return table


def _faults(run: Judged) -> Table:
    table = layout.table(
        ("fault", "kind", "target", "nodes", "from", "to", "effective"), "evidence"
    )
    for fault in run.faults:
        brief = {name: what for name, what in fault.evidence.items() if name != "links"}
        evidence = formatting.evidence(brief)
        if fault.reason:
            evidence += f" ({fault.reason})"
        table.add_row(
            Text(formatting.plain(fault.id, 16)),
            Text(formatting.plain(fault.do, 20)),
            Text(formatting.plain(fault.target, 20)),
            Text(formatting.plain(", ".join(fault.nodes), 20)),
            formatting.seconds(run.at(fault.from_ns)),
            formatting.seconds(run.at(fault.to_ns)),
            Text("yes") if fault.effective else Text("no", style="bold magenta"),
            Text(formatting.plain(evidence, 160)),
        )
    return table


def _print_section(console: Console, section: Section) -> None:
    console.print(Text(section.title, style="bold"))
    for sentence in (section.result, *section.sentences):
        console.print(Padding(Text(sentence), (0, 0, 0, 2)))
    for kind, _, rows in section.rows:
        for row in rows[:FINDINGS_A_PROPERTY]:
            line = f"{kind}: {formatting.stopped(row.sentence, 400)}"
            console.print(Padding(Text(formatting.plain(line, 460)), (0, 0, 0, 2)))
        if len(rows) > FINDINGS_A_PROPERTY:
            rest = len(rows) - FINDINGS_A_PROPERTY
            console.print(Text(f"  and {rest:,} more of {kind} in the report", style="dim"))
    console.print()


def _print_end(console: Console, run: Judged, why: str) -> None:
    if run.verified.properties:
        names = ", ".join(name.replace("-", " ") for name in run.verified.properties)
        text = f"independently verified against the recorded rows: {names}"
        console.print(Text(formatting.plain(text, 600)))
    if run.verified.unverifiable:
        names = ", ".join(run.verified.unverifiable)
        text = f"not independently verified: checker of the user: {names}"
        console.print(Text(formatting.plain(text, 600)))
    console.print(Text(f"report  {formatting.plain(run.report_path(), 300)}"), soft_wrap=True)
    console.print(Text(f"again   {formatting.plain(run.command, 1200)}"), soft_wrap=True)
    console.print(Text(f"seed    {run.seed}"))
    if why:
        console.print(Text(f"why     {formatting.plain(why, 300)}"), soft_wrap=True)
