"""`holdfast scenario`: a validation scenario by name, as its plan file has it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from holdfast.api.plan_options import pairs
from holdfast.catalogue.findings import FINDINGS
from holdfast.commands import run_command
from holdfast.commands.options import (
    Command,
    Whole,
    hosts_option,
    name_of,
    out_option,
    verbose_option,
)
from holdfast.engine import sweep as sweeping
from holdfast.engine import sweep_progress
from holdfast.engine.runner import carry_out
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import Plan, parse, suggest, to_toml
from holdfast.harness.verdicts.judged import Judged, to_table
from holdfast.planning import prepare
from holdfast.planning.resolve import hosts_of
from holdfast.reports.text.layout import say
from holdfast.scenarios import SCENARIOS, path_of, staging

FINDING = "finding:"
"""Prefix of a reproduced bug, which is run like a scenario."""


@click.command(
    cls=Command,
    examples=(
        "holdfast scenario owner-pause",
        "holdfast scenario owner-pause --backend local --system etcd",
        "holdfast scenario ttl-sweep --values 1s,2s,5s --seeds 3",
        "holdfast scenario owner-pause --show > plan.toml",
    ),
)
@click.argument("name", metavar="NAME", shell_complete=name_of("scenarios"))
@click.option(
    "--backend",
    show_default="sim, or the first that the scenario supports",
    help="Where the nodes run: sim, local, local-proxy, docker or ssh.",
    shell_complete=name_of("backends"),
)
@click.option(
    "--system",
    show_default="as in the file",
    help="Lock service under test.",
    shell_complete=name_of("systems"),
)
@click.option(
    "--resource",
    show_default="as in the file",
    help="Protected resource: fenced, strict, unfenced, cas or idempotent.",
    shell_complete=name_of("resources"),
)
@click.option(
    "--nodes",
    type=Whole(1),
    show_default="as in the file",
    help="Number of lock servers.",
)
@click.option("--clients", type=Whole(1), help="Number of client processes.")
@click.option("--locks", type=Whole(1), help="Number of locks the clients share.")
@click.option("--time", metavar="DURATION", help="Duration of the workload.")
@click.option("--lease", metavar="DURATION", help="Lease that clients request.")
@click.option("--seed", type=Whole(0), help="Random seed.")
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="Option of system or workload."
)
@click.option("--mutant", help="Plant this bug in the service.", shell_complete=name_of("mutants"))
@click.option("--values", help="Values of a sweep: 1s,2s,5s.")
@click.option("--seeds", type=Whole(1), help="Runs at each value of a sweep.")
@hosts_option()
@out_option()
@click.option("--show", is_flag=True, help="Print the plan file, and stop.")
@click.option("--dry-run", is_flag=True, help="Print the whole plan with every fault, and stop.")
@verbose_option()
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
def command(
    name: str,
    options: tuple[str, ...],
    hosts: str | None,
    out: str,
    show: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    **over: Any,
) -> int:
    """Run a validation scenario (`holdfast list scenarios`).

    Its plan file names the properties that the scenario must test; the exit code is 3 if the run
    did not test one of them. finding:NAME runs the command of a bug found in released software
    (`holdfast list findings`) on real servers.
    """
    if name.startswith(FINDING):
        return _found(click.get_current_context(), name.removeprefix(FINDING), options)
    path, scenario = path_of(name), SCENARIOS[name]
    if show:
        click.echo(path.read_text(), nl=False)
        return 0
    given = {key: value for key, value in over.items() if value is not None}
    given.setdefault("backend", staging.usual_backend(name))
    values, seeds = given.pop("values", None), given.pop("seeds", None)
    if scenario.sweep:
        table = staging.table_of(name, _over(given, options))
        sweep = sweeping.read(table, str(path))
        chosen = tuple(filter(None, values.split(","))) if values else sweep.values
        sweep = replace(sweep, values=chosen, seeds=seeds or sweep.seeds)
        if dry_run:
            return _planned(table, sweep)
        line = again(name, given, options)
        return sweep_progress.carry_out(name, table, sweep, line, Path(out), as_json=as_json)
    if values or seeds:
        raise UsageError(f"--values and --seeds are for sweeps; scenario {name} is not one")
    plan = plan_of(name, _over(given, options))
    full = prepare.prepared(plan)
    machines = hosts_of(full.plan, hosts or "")
    if dry_run:
        click.echo(to_toml(full.plan, exact=True), nl=False)
        return 0
    line = again(name, given if not machines else {**given, "hosts": hosts}, options)
    verdicts = carry_out(full, Path(out), line, quiet=as_json, hosts=machines, verbose=verbose)
    if as_json:
        click.echo(json.dumps(to_table(verdicts)))
    else:
        _told(name, verdicts)
    return verdicts.exit_code


def _found(ctx: click.Context, name: str, options: tuple[str, ...]) -> int:
    """Run a reproduced bug, with the options of the command line over it. UsageError."""
    if name not in FINDINGS:
        raise UsageError(suggest(name, FINDINGS, "finding"))
    if ctx.params["values"] or ctx.params["seeds"]:
        raise UsageError(f"--values and --seeds are for sweeps; finding {name} is not one")
    words = shlex.split(FINDINGS[name].command)
    for option in ctx.command.params:
        key = option.name or ""
        if ctx.get_parameter_source(key) is not ParameterSource.COMMANDLINE or key == "name":
            continue
        if key == "show":
            click.echo(f"holdfast run {FINDINGS[name].command}")
            return 0
        flag, value = option.opts[0], ctx.params[key]
        if key != "options":
            words += [flag] if value is True else [flag, str(value)]
    for text in options:
        words += ["--set", text]
    bug = FINDINGS[name]
    # The catalogue's sentence names the cause; the run shows its effect.
    click.echo(f"finding {name}: {bug.says} ({bug.cited})", err=True)
    if "--name" not in words:
        words += ["--name", f"finding:{name}"]
    with run_command.command.make_context("run", words) as run:
        code: int = run_command.command.invoke(run)
    return code


def _planned(table: Mapping[str, Json], sweep: sweeping.Sweep) -> int:
    for value in sweep.values:
        full = prepare.complete(sweeping.plan_at(table, sweep, value))
        click.echo(f"# {sweep.key} = {value}\n{to_toml(full, exact=True)}")
    return 0


def plan_of(name: str, over: Mapping[str, object]) -> Plan:
    """The scenario's plan with the options of the command line over it. UsageError."""
    table = staging.table_of(name, over)
    plan = replace(parse(table, prepare.KNOWN, f"scenario {name}"), scenario=name)
    return plan if "nodes" in table else replace(plan, nodes=0)


def _over(given: Mapping[str, Any], options: tuple[str, ...]) -> dict[str, object]:
    """Options of the command line as keys of a plan. UsageError."""
    chosen = pairs(options)
    if given.get("mutant"):
        chosen["mutant"] = given["mutant"]
    over = {key: value for key, value in given.items() if key != "mutant"}
    return {**over, "options": chosen}


def again(name: str, given: Mapping[str, Json], options: tuple[str, ...]) -> str:
    """The command line that repeats the scenario."""
    words = ["holdfast", "scenario", name]
    for key, value in given.items():
        words += [f"--{key}", str(value)]
    for option in options:
        words += ["--set", option]
    return shlex.join(words)


def _told(name: str, verdicts: Judged) -> None:
    """Print which properties the scenario tested and which it did not."""
    tested = [row.property for row in verdicts.verdicts if row.verdict is not Verdict.UNKNOWN]
    open_ = [row.property for row in verdicts.verdicts if row.verdict is Verdict.UNKNOWN]
    say(f"scenario {name}: {verdicts.outcome()}, tested: {', '.join(tested)}")
    if open_:
        say(f"  required, but not tested: {', '.join(open_)}")
    for kind, why in _kinds_left(verdicts).items():
        say(f"  required, but not tested under {kind}: {why}")
    if verdicts.aside:
        say(f"  not required and not tested: {', '.join(verdicts.aside)}")


def _kinds_left(verdicts: Judged) -> dict[str, str]:
    held = (row for row in verdicts.verdicts if row.verdict is Verdict.HOLDS)
    lacks = (row.not_exercised() for row in held)
    return {kind: why for one in lacks for kind, why in one.items()}
