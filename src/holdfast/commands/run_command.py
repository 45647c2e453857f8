"""`holdfast run`: one run, from a plan file or from options."""

from __future__ import annotations

import json
import re
import secrets
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from holdfast.api import plan_options
from holdfast.commands.options import (
    HOSTS_HELP,
    SETTINGS,
    Command,
    Whole,
    name_of,
    on_command_line,
    out_option,
    setting,
    settings_file,
    source_of,
    verbose_option,
)
from holdfast.engine import runner
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.manifest import Origin
from holdfast.harness.plans.plan import OWN, Plan, names_in, to_toml
from holdfast.harness.verdicts.judged import to_table
from holdfast.own_servers import config, running
from holdfast.planning import prepare
from holdfast.planning.lazy_holders import with_lazy_holders
from holdfast.planning.resolve import hosts_of

MOST_NAME = 80
DAILY = (
    "system",
    "backend",
    "workload",
    "nemesis",
    "resource",
    "clients",
    "time",
    "lease",
    "seed",
    "require",
    "dry_run",
    "verbose",
)
"""Options that `--help` shows."""
IS_PYTHON = re.compile(r".+\.py:\w+")


@click.command(
    cls=Command,
    examples=(
        "holdfast run --system redis --nemesis pause:target=holder,for=3s --time 20s",
        "holdfast run --system redlock --backend docker --nodes 5 --nemesis partition,clock",
        "holdfast run --system mylock.py:MyLock --resource unfenced",
        "holdfast run plan.toml --seed 7 --dry-run",
    ),
    daily=DAILY,
)
@click.argument("plan_file", required=False, type=click.Path(path_type=Path), metavar="[PLAN.toml]")
@setting(
    "--system",
    default="reference",
    help="Lock service under test: a name, FILE.py:CLASS or FILE.toml.",
    shell_complete=name_of("systems"),
)
@click.option(
    "--client",
    help="Your own client on the servers of --system: FILE.py:CLASS, FILE.toml, or the command of a"
    " line-protocol client.",
)
@setting(
    "--backend",
    default="local",
    help="Where the nodes run: local, local-proxy, docker, ssh or sim.",
    shell_complete=name_of("backends"),
)
@setting("--hosts", show_default="none", help=HOSTS_HELP)
@setting(
    "--workload",
    default="critical-section",
    help="What the clients do: a name, or FILE.py:NAME.",
    shell_complete=name_of("workloads"),
)
@setting(
    "--nemesis",
    multiple=True,
    show_default="none",
    help="Faults: partition,kill or pause:target=holder,for=3s or FILE.py:NAME.",
    shell_complete=name_of("nemeses"),
)
@setting(
    "--resource",
    show_default="per system",
    help="Protected resource: fenced, strict, unfenced, cas or idempotent.",
    shell_complete=name_of("resources"),
)
@setting("--nodes", type=Whole(1), show_default="per system", help="Number of lock servers.")
@setting("--clients", type=Whole(1), default=5, help="Client processes, each on its own node.")
@setting("--locks", type=Whole(1), default=1, help="Number of locks the clients share.")
@setting("--time", default="30s", help="Duration of the workload.")
@setting("--lease", default="2s", help="Lease that clients request (azure-blob: 15s).")
@click.option("--rate", type=Whole(1), help="Acquires per second, for --workload paced.")
@click.option(
    "--workers",
    type=Whole(1),
    help="Processes that share the clients of --workload paced.",
)
@setting("--seed", type=Whole(0), show_default="a new one, printed", help="Random seed.")
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="Option of system or workload."
)
@click.option(
    "--checker",
    "checkers",
    multiple=True,
    help="Judge one more property: FILE.py:NAME or an installed checker; repeatable.",
)
@click.option(
    "--require",
    multiple=True,
    metavar="PROPERTY",
    help="Fail if this property is violated or not tested, promised or not; repeatable.",
    shell_complete=name_of("checkers"),
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Your own configuration file of the servers: redis.conf, zoo.cfg, postgresql.conf, YAML of"
    " etcd.",
)
@click.option(
    "--servers",
    metavar="HOST:PORT,...",
    help="Servers that already run, in place of new ones: only faults of clients.",
)
@click.option("--library", help="Client library to test, unmodified: redis==4.5.1, npm:redlock@5.")
@click.option("--mutant", help="Plant this bug in the service.", shell_complete=name_of("mutants"))
@click.option(
    "--server-record",
    is_flag=True,
    help="Compare the servers' own record of the locks with what clients were answered.",
)
@click.option("--name", "label", default="", help="Name of the run in lists, as text.")
@click.option(
    "--until-violation",
    is_flag=True,
    help="End the workload when a promise is seen to be violated.",
)
@out_option()
@click.option("--dry-run", is_flag=True, help="Print the whole plan with every fault, and stop.")
@verbose_option()
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object.")
@click.pass_context
def command(
    ctx: click.Context, /, plan_file: Path | None, dry_run: bool, as_json: bool, **given: Any
) -> int:
    """Deploy a lock service, run clients, inject faults, judge the history and write a report.

    Options with a default may also be set in holdfast.toml or as HOLDFAST_NAME; see
    `holdfast config show`. A plan file is complete in itself: only options on the command line
    override it. Names: `holdfast list systems`, `holdfast list nemeses`, and so on.
    """
    named = on_command_line(ctx)
    table = {name: given[name] for name in SETTINGS if name not in ("hosts", "out")}
    table["nemesis"] = ",".join(given["nemesis"])
    table["checkers"] = list(given["checkers"]) or None
    table["server_record"] = given["server_record"] or None
    table["require"] = [name for text in given["require"] for name in text.split(",")] or None
    if ctx.get_parameter_source("lease") is ParameterSource.DEFAULT:
        # That of the system, which the plan knows.
        table["lease"] = None
    if plan_file is None:
        try:
            plan = plan_options.from_options(table, given["options"])
        except UsageError as error:
            raise UsageError(*(_with_source(ctx, line) for line in error.problems)) from error
    else:
        over = {name: value for name, value in table.items() if name in named}
        plan = plan_options.from_file(plan_file, over, given["options"])
    for name in ("library", "mutant", "rate", "workers"):
        if given[name] is not None:
            plan = replace(plan, options={**plan.options, name: str(given[name])})
    plan = _with_own(plan, given["client"], given["config"], given["servers"])
    if plan.seed < 0:
        plan = replace(plan, seed=secrets.randbelow(1 << 31))
    if dry_run and plan_file is not None:
        _nothing_to_execute(plan, plan_file, named)
    full = prepare.prepared(with_lazy_holders(plan) if plan_file is None else plan)
    hosts = hosts_of(full.plan, given["hosts"] or "")
    if dry_run:
        click.echo(to_toml(full.plan, exact=True), nl=False)
        return 0
    again = prepare.command(plan) if plan_file is None else f"holdfast run {plan_file}"
    if hosts:
        again = f"{again} {shlex.join(['--hosts', given['hosts']])}"
    out, ends = Path(given["out"]), given["until_violation"]
    verdicts = runner.carry_out(
        full,
        out,
        again,
        quiet=as_json,
        hosts=hosts,
        until_violation=ends,
        verbose=given["verbose"],
        origin=Origin(name=named_run(given["label"])),
    )
    if as_json:
        click.echo(json.dumps(to_table(verdicts)))
    return verdicts.exit_code


def named_run(name: str) -> str:
    """The name of a run. UsageError for one that no list could show."""
    if len(name) > MOST_NAME or not name.isprintable():
        raise UsageError(f"--name: expected one line of at most {MOST_NAME} printable characters")
    return name.strip()


def _with_own(plan: Plan, client: str | None, file: Path | None, servers: str | None) -> Plan:
    """The plan with what is the user's own: a client, the servers' configuration, servers."""
    if file is not None:
        plan = config.with_config(plan, file)
    if servers is not None:
        plan = running.with_servers(plan, servers)
    return plan if client is None else _with_client(plan, client)


def _with_client(plan: Plan, client: str) -> Plan:
    """The plan with a client of the user: a class, a table, or the command of a program.

    `--system redis --client mylock.py:MyLock` is `--system mylock.py:MyLock@redis`.
    """
    if OWN.fullmatch(plan.system):
        raise UsageError(f"--client {client}: {plan.system} has a client of its own")
    if plan.system != "program":
        lock = client if OWN.fullmatch(client) else "program"
        plan = replace(plan, system=f"{lock}@{plan.system}")
        if lock == client:
            return plan
    return replace(plan, options={**plan.options, "client": client})


def _with_source(ctx: click.Context, problem: str) -> str:
    """ "run: time: ..." with the source of the value: "--time: ...", "holdfast.toml: time: ..."."""
    found = re.fullmatch(r"run: (\w+): (.*)", problem, re.S)
    param = next((one for one in ctx.command.params if found and one.name == found[1]), None)
    if found is None or param is None:
        return problem
    source = source_of(ctx, param, settings_file()[0])
    where = param.opts[0] if source == "command line" else f"{source}: {param.name}"
    return f"{where}: {found[2]}"


def _nothing_to_execute(plan: Plan, file: Path, named: set[str]) -> None:
    """UsageError if the plan names a Python file: printing a plan must not execute code."""
    options = {"systems": "system", "workloads": "workload", "checkers": "checkers"}
    for kind, name in names_in(plan):
        if not IS_PYTHON.fullmatch(name) or options.get(kind) in named:
            continue
        what = "nemesis" if kind == "nemeses" else kind.removesuffix("s")
        instead = f"add --{what} {name}" if kind in options else "run it without --dry-run"
        raise UsageError(
            f"{file}: its {what} {name} is a Python file, which has to be executed to"
            f" complete the plan, and --dry-run executes nothing that only a plan names; read"
            f" {name.rpartition(':')[0]}, then {instead}"
        )
