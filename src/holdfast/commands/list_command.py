"""`holdfast list`: names that options accept."""

from __future__ import annotations

import json

import click
from click.shell_completion import CompletionItem

from holdfast.commands.listing import KINDS, line
from holdfast.commands.options import Command
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest


def _kinds(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(kind) for kind in KINDS if kind.startswith(begun)]


@click.command(
    cls=Command,
    examples=("holdfast list systems", "holdfast list mutants --json"),
)
@click.argument("kind", metavar="KIND", shell_complete=_kinds)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name -> fields.")
def command(kind: str, as_json: bool) -> int:
    """List what KIND names: systems, workloads, nemeses, checkers, backends, scenarios, models,
    resources, mutants or findings."""
    if kind not in KINDS:
        raise UsageError(suggest(kind, list(KINDS), "kind"))
    table = KINDS[kind]()
    if as_json:
        click.echo(json.dumps(table))
        return 0
    width = max(len(name) for name in table)
    for name, row in table.items():
        click.echo(f"{name:<{width}}  {line(kind, row)}")
    return 0
