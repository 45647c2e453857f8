"""The verdict of a run as text for a terminal or a log."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged, Judgement, Outcome, UnderKind
from holdfast.harness.verdicts.server_record import ServerRecord
from holdfast.reports.run import server_record, story
from holdfast.reports.text import formatting, tables

STYLES = {
    Outcome.HOLDS: "bold green",
    Outcome.LIMIT: "bold yellow",
    Outcome.UNKNOWN: "bold magenta",
    Outcome.BROKEN: "bold red",
    Outcome.FAILED: "bold magenta",
}
FINDINGS_A_PROPERTY = 3
COUNTS = 3
ERRORS = 5
WIDE = 100
"""Minimum width in columns for showing coverage counts."""


def render(run: Judged, *, width: int, colour: bool, why: str = "") -> str:
    """The run as text of at most `width` columns; without colour it has no escape sequences.

    why   the command that explains its violation, "" for none
    """
    console, out = tables.buffered(width, colour=colour)
    _print_verdict(console, run)
    if run.verdicts:
        console.print(Text("Properties", style="bold"))
        tables.show(console, _properties(run, wide=console.width >= WIDE))
    if any(len(one.under) > 1 for one in run.verdicts):
        console.print(Text("By kind of fault", style="bold"))
        tables.show(console, _by_kind(run))
    _print_findings(console, run)
    if run.evidence.errors:
        console.print(Text("Call errors", style="bold"))
        tables.show(console, _errors(run))
    if run.faults:
        console.print(Text("Faults", style="bold"))
        tables.show(console, _faults(run))
    if run.server_record is not None:
        _print_server_record(console, run, run.server_record)
    _print_end(console, run, why)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print_verdict(console: Console, run: Judged) -> None:
    name = formatting.plain(run.run, 80)
    console.print(Text(f"{name}, seed {run.seed}", style="dim"))
    console.print(Text(story.headline(run), style=STYLES[run.outcome()]))
    for sentence in story.how_to_fail(run):
        console.print(Text(sentence))
    console.print()
    for mechanism in story.mechanisms(run, story.violated(run)):
        console.print(Text(mechanism.means))
        console.print(Text(f"What to do: {mechanism.remedy}"))
        console.print()
    told = [*story.servers(run), *story.held(run), *story.tried(run), *story.left_open(run)]
    for sentence in told:
        console.print(Text(sentence))
    if run.remedy:
        console.print(Text(f"{story.EXERCISE}:"))
        console.print(Text(f"  {formatting.plain(run.remedy, 1200)}"), soft_wrap=True)
    console.print(Text(story.bound(run)))
    console.print()


def _properties(run: Judged, *, wide: bool) -> Table:
    table = tables.table(
        ("property", "verdict", "promised", "severity"), "why", *(["coverage"] if wide else [])
    )
    for one in run.verdicts:
        table.add_row(
            Text(formatting.plain(one.property, 40)),
            _verdict(one),
            "required" if one.required else "yes" if one.promised else "no",
            one.severity.value,
            Text(formatting.plain(one.reason, 160)),
            *([Text(_leans(one))] if wide else []),
        )
    return table


def _by_kind(run: Judged) -> Table:
    kinds = list(dict.fromkeys(kind for one in run.verdicts for kind in one.under))
    table = tables.table(["property"], *(formatting.plain(kind, 40) for kind in kinds))
    for one in run.verdicts:
        cells = [_under(one, one.under[kind]) if kind in one.under else Text("") for kind in kinds]
        table.add_row(Text(formatting.plain(one.property, 40)), *cells)
    return table


def _under(one: Judgement, at: UnderKind) -> Text:
    if at.verdict is Verdict.UNKNOWN:
        return Text("? not exercised", style="magenta")
    if at.verdict is Verdict.HOLDS:
        return Text("+ held", style="green")
    n = formatting.count(len(at.findings), "finding")
    return Text(f"x {n}", style="bold red") if one.promised else Text(f"! {n}", style="yellow")


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
    return Text("! VIOLATED", style="yellow")


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


def _errors(run: Judged) -> Table:
    table = tables.table(("op", "calls", "clients", "first"), "error")
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
    table = tables.table(
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


def _print_server_record(console: Console, run: Judged, record: ServerRecord) -> None:
    console.print(Text(server_record.TITLE, style="bold"))
    sentences = [
        server_record.result(record),
        *server_record.compared(record),
        *server_record.gaps(run, record),
    ]
    for sentence in sentences:
        console.print(Padding(Text(sentence), (0, 0, 0, 2)))
    for kind, _, several in server_record.kinds(record):
        for one in several[:FINDINGS_A_PROPERTY]:
            line = f"{kind}: {formatting.stopped(one.sentence, 400)}"
            console.print(Padding(Text(formatting.plain(line, 460)), (0, 0, 0, 2)))
        if len(several) > FINDINGS_A_PROPERTY:
            rest = len(several) - FINDINGS_A_PROPERTY
            console.print(Text(f"  and {rest:,} more of {kind} in the report", style="dim"))
    console.print()


def _print_end(console: Console, run: Judged, why: str) -> None:
    if run.verified.properties:
        names = ", ".join(name.replace("-", " ") for name in run.verified.properties)
        told = f"independently verified against the recorded rows: {names}"
        console.print(Text(formatting.plain(told, 600)))
    if run.verified.unverifiable:
        names = ", ".join(run.verified.unverifiable)
        told = f"not independently verified: checker of the user: {names}"
        console.print(Text(formatting.plain(told, 600)))
    console.print(Text(f"report  {formatting.plain(run.report_path(), 300)}"), soft_wrap=True)
    console.print(Text(f"again   {formatting.plain(run.command, 1200)}"), soft_wrap=True)
    console.print(Text(f"seed    {run.seed}"))
    if why:
        console.print(Text(f"why     {formatting.plain(why, 300)}"), soft_wrap=True)
