"""`holdfast list`: what there is to name on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from holdfast import catalogue
from holdfast.catalogue.findings import FINDINGS
from holdfast.catalogue.mutants import MUTANTS
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import PROPERTIES
from holdfast.harness.plans.plan import suggest
from holdfast.scenarios import SCENARIOS

Table = dict[str, str]


def _checkers() -> Table:
    return {name: PROPERTIES[name][1] for name in catalogue.CHECKERS}


KINDS: dict[str, Callable[[], Table]] = {
    "systems": lambda: {
        name: f"{row.says} (simulated: {row.in_simulator})"
        for name, row in catalogue.SYSTEMS.items()
    },
    "workloads": lambda: {name: row.says for name, row in catalogue.WORKLOADS.items()},
    "nemeses": lambda: {name: row.says for name, row in catalogue.NEMESES.items()},
    "checkers": _checkers,
    "backends": lambda: {name: row.says for name, row in catalogue.BACKENDS.items()},
    "scenarios": lambda: {name: row.says for name, row in SCENARIOS.items()},
    "models": lambda: {name: row.says for name, row in catalogue.MODELS.items()},
    "resources": lambda: dict(catalogue.RESOURCES),
    "findings": lambda: {
        name: f"{row.package}: {row.says} (breaks {row.breaks}; seen {row.seen[0]} of"
        f" {row.seen[1]}; {row.cited}; holdfast scenario finding:{name})"
        for name, row in FINDINGS.items()
    },
    "mutants": lambda: {
        name: f"{row.says} ({row.area}, in {row.part}; breaks {row.breaks}, in {row.seeds} seeds)"
        for name, row in MUTANTS.items()
    },
}


@click.command(
    short_help="What there is: systems, workloads, nemeses, checkers, scenarios, findings ..."
)
@click.argument("kind", metavar="KIND")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: name -> sentence.")
def command(kind: str, as_json: bool) -> int:
    """KIND: systems, workloads, nemeses, checkers, backends, scenarios, models, resources, mutants
    or findings."""
    if kind not in KINDS:
        raise UsageError(suggest(kind, list(KINDS), "kind"))
    table = KINDS[kind]()
    if as_json:
        click.echo(json.dumps(table))
        return 0
    width = max(len(name) for name in table)
    for name, says in table.items():
        click.echo(f"{name:<{width}}  {says}")
    return 0
