"""`holdfast list`: names that options accept."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from holdfast.commands.listing import FUNCTIONS, KINDS, functions, line
from holdfast.commands.options import Command
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest
from holdfast.reports.text.layout import aligned, width


def _kinds(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in (*KINDS, FUNCTIONS) if kind.startswith(begun)]


@click.command(
    cls=Command,
    examples=(
        "holdfast list systems",
        "holdfast list mutants --json",
        "holdfast list functions /usr/bin/etcd --like lease",
    ),
)
@click.argument("kind", metavar="KIND", required=False, shell_complete=_kinds)
@click.argument("program", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--like", metavar="TEXT", help="Only names that contain it, in any case.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name -> fields.")
def command(kind: str | None, program: Path | None, like: str | None, as_json: bool) -> int:
    """List what KIND names: systems, workloads, nemeses, checkers, backends, scenarios, models,
    resources, mutants or findings; or the functions of a PROGRAM, for the nemesis failpoint."""
    if kind is None:
        raise UsageError(f"missing KIND: one of {', '.join([*KINDS, FUNCTIONS])}")
    if kind not in (*KINDS, FUNCTIONS):
        raise UsageError(suggest(kind, [*KINDS, FUNCTIONS], "kind"))
    if kind == FUNCTIONS and program is None:
        raise UsageError("missing PROGRAM: holdfast list functions PROGRAM")
    if kind != FUNCTIONS and program is not None:
        raise UsageError(
            f"list {kind} takes no PROGRAM, {program}; functions are listed by:"
            " holdfast list functions PROGRAM"
        )
    table = functions(program) if program is not None else KINDS[kind]()
    if like is not None:
        table = {name: row for name, row in table.items() if like.lower() in name.lower()}
    if as_json:
        click.echo(json.dumps(table))
        return 0
    for text in aligned([(name, line(kind, row)) for name, row in table.items()], width()):
        click.echo(text)
    return 0
