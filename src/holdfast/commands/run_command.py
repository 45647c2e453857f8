"""`holdfast run`: one run, from a plan file or from options."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from holdfast.catalogue import user_system
from holdfast.engine import runner
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan, parse, parse_nemesis, to_toml
from holdfast.planning import plan_source, prepare
from holdfast.planning.settings import Setting, resolve


@click.command(short_help="One run: deploy, drive clients under faults, judge, report.")
@click.argument("plan_file", required=False, type=click.Path(path_type=Path), metavar="[PLAN.toml]")
@click.option("--system", help="Lock service under test (holdfast list systems).")
@click.option("--client", help="With --system program: its command line, './client {node}'.")
@click.option("--backend", help="Where the nodes live: local, docker, ssh or sim.")
@click.option("--hosts", help="The machines of --backend ssh (docs/howto/ssh-hosts.md).")
@click.option("--workload", help="What the clients do (holdfast list workloads).")
@click.option(
    "--nemesis", multiple=True, help="Faults: partition,kill or pause:target=holder,for=3s."
)
@click.option("--resource", help="The protected resource: fenced, strict or unfenced.")
@click.option("--nodes", type=int, help="Servers; what suits the system if not given.")
@click.option("--clients", type=int, help="Client processes, each on a node of its own.")
@click.option("--locks", type=int, help="How many locks the clients share.")
@click.option("--time", help="How long the workload runs, e.g. 30s.")
@click.option("--lease", help="The lease that acquires ask for, e.g. 2s.")
@click.option("--rate", type=int, help="Acquires due a second, with --workload paced.")
@click.option("--workers", type=int, help="Processes that share the clients of --workload paced.")
@click.option("--seed", type=int, help="Where all chance comes from; a new one if not given.")
@click.option("--set", "options", multiple=True, help="An option of the system or workload: k=v.")
@click.option("--library", help="The library to lock with, unmodified: redis==4.5.1.")
@click.option("--mutant", help="Plant a bug, to see that it is found (holdfast list mutants).")
@click.option("--out", help="Folder for run directories.")
@click.option("--dry-run", is_flag=True, help="Print the whole plan, every fault exact, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
def command(
    plan_file: Path | None,
    options: tuple[str, ...],
    library: str | None,
    mutant: str | None,
    rate: int | None,
    workers: int | None,
    client: str | None,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Deploy a lock service, run clients while faults bite, judge the history, write a report.

    Without a plan file everything comes from options, environment and holdfast.toml.
    """
    nemeses = given.pop("nemesis")
    options = (*options, f"library={library}") if library else options
    settings = resolve({**given, "nemesis": ",".join(nemeses) or None})
    plan = _from_file(plan_file, settings) if plan_file else _from_settings(settings, options)
    if mutant is not None:
        plan = _replaced(plan, options={**plan.options, "mutant": mutant})
    if rate is not None:
        plan = _replaced(plan, options={**plan.options, "rate": str(rate)})
    if workers is not None:
        plan = _replaced(plan, options={**plan.options, "workers": str(workers)})
    if client is not None:
        plan = _replaced(plan, options={**plan.options, "client": client})
    if plan.seed < 0:
        plan = _replaced(plan, seed=secrets.randbelow(1 << 31))
    if dry_run and plan_file is not None:
        _nothing_to_execute(plan, plan_file, settings["system"].source == "command line")
    full = prepare.complete(plan)
    hosts = prepare.hosts_of(full, str(settings["hosts"].value))
    if dry_run:
        click.echo(to_toml(full, exact=True), nl=False)
        return 0
    again = prepare.command(plan) if plan_file is None else f"holdfast run {plan_file}"
    if hosts:
        again = f"{again} {shlex.join(['--hosts', str(settings['hosts'].value)])}"
    out = Path(str(settings["out"].value))
    verdicts = runner.carry_out(full, out, again, quiet=as_json, hosts=hosts)
    if as_json:
        click.echo(json.dumps(verdicts))
    return int(verdicts["exit_code"])


def _nothing_to_execute(plan: Plan, file: Path, named: bool) -> None:
    """UsageError where a plan names a Python file: to look at a plan must not mean to run it."""
    path = user_system.file_of(plan.system)
    if path is not None and path.suffix == ".py" and not named:
        raise UsageError(
            f"{file}: its system {plan.system} is a Python file, which has to be executed to"
            f" complete the plan, and --dry-run executes nothing that only a plan names; read"
            f" {path}, then add --system {plan.system}"
        )


def _replaced(plan: Plan, **changes: Any) -> Plan:
    from dataclasses import replace

    return replace(plan, **changes)


def _from_settings(settings: Mapping[str, Setting], options: tuple[str, ...]) -> Plan:
    """A plan out of single settings; every mistake in them is told at once."""
    value = {name: setting.value for name, setting in settings.items()}
    problems: list[str] = []
    table: dict[str, Any] = {
        name: value[name] for name in ("system", "backend", "workload", "time", "lease")
    }
    table |= {"clients": value["clients"], "locks": value["locks"]}
    table |= {"resource": value["resource"]} if value["resource"] else {}
    table |= {"nodes": value["nodes"]} if value["nodes"] else {}
    chosen: dict[str, str] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            problems.append(f"--set {option!r}: write it name=value")
        chosen[name] = text
    try:
        nemeses = parse_nemesis(value["nemesis"]) if value["nemesis"] else []
        table["nemesis"] = [{"name": name, **given} for name, given in nemeses]
    except UsageError as error:
        problems += error.problems
    try:
        plan = parse({**table, "options": chosen}, prepare.KNOWN, "run")
    except UsageError as error:
        raise UsageError(*problems, *error.problems) from error
    if problems:
        raise UsageError(*problems)
    seed = value["seed"]
    return _replaced(plan, seed=seed, nodes=plan.nodes if value["nodes"] else 0)


def _from_file(path: Path, settings: Mapping[str, Setting]) -> Plan:
    """A plan file, with what the command line says put over it."""
    table = plan_source.read_table(path)
    if isinstance(table.get("system"), dict):
        # A plan may describe its system in itself.
        table["system"] = str(path)
    over = {
        name: setting.value
        for name, setting in settings.items()
        if setting.source == "command line" and name not in ("out", "hosts", "nemesis")
    }
    if settings["nemesis"].source == "command line":
        raise UsageError("--nemesis does not go with a plan file; write it into the file")
    plan = parse({**table, **over}, prepare.KNOWN, str(path))
    return plan if "nodes" in table or "nodes" in over else _replaced(plan, nodes=0)
