"""Completes a plan and creates its run directory: names become entries, faults become exact.

All mistakes of the user are reported here, before any process is started.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

import holdfast
from holdfast import __version__, catalogue
from holdfast.catalogue import design_sheet, user_system
from holdfast.catalogue.mutants import MUTANTS
from holdfast.catalogue.table import Names
from holdfast.clusters.systems.program.command_line import FOLDER
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import NOT_SIMULATED
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import (
    ABILITIES,
    Fault,
    Installs,
    LimitsLeases,
    Nemesis,
)
from holdfast.harness.core.user_imports import site_folders
from holdfast.harness.core.verdict import Promises
from holdfast.harness.plans.command_line import run_command
from holdfast.harness.plans.manifest import (
    Entries,
    Manifest,
    Options,
    to_table,
)
from holdfast.harness.plans.plan import LEASE_NS, NAMES, Known, Plan, suggest, to_toml
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.nemesis.compose import draw_all
from holdfast.nemesis.targets import absent_parts, unknown_parts
from holdfast.nemesis.user_nemesis import UserNemesis
from holdfast.planning import (
    capacity,
    offered_load,
    operations,
    own_code,
    packages,
    server_disks,
    server_record,
)
from holdfast.planning.resolve import (
    Prepared,
    backend_options,
    kinds_of,
    other_number_of_nodes,
    resolve,
    resource_options,
    too_many_nodes,
    workload_options,
)
from holdfast.scenarios import staging
from holdfast.workloads.shape import Shape


def lease_of(system: str) -> int:
    """The lease of a plan of this system that names none, ns."""
    row = catalogue.SYSTEMS.get(system)
    return (row.lease_ns if row is not None else 0) or LEASE_NS


KNOWN = Known(
    systems=Names(catalogue.SYSTEMS),
    backends=Names(catalogue.BACKENDS),
    workloads=Names(catalogue.WORKLOADS),
    nemeses=Names(catalogue.NEMESES),
    resources=tuple(catalogue.RESOURCES),
    swarm_backend=catalogue.VIRTUAL_TIME[0],
    checkers=Names(catalogue.CHECKERS),
    lease_of=lease_of,
)
READY_NS = 60 * SECOND
NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LINES: set[str] = set()
"""Lines about a backend that were printed outside of a command."""
"""Characters that are removed from the name of a run directory."""


def complete(plan: Plan) -> Plan:
    """The plan with all defaults and all sampled faults; UsageError lists its mistakes."""
    return prepared(plan).plan


def prepared(plan: Plan) -> Prepared:
    """The complete plan, resolved; UsageError lists its mistakes."""
    plan = server_disks.with_disks(plan)
    found = resolve(plan)
    resource = plan.resource or design_sheet.suited_to(found.system, found.promises)
    problems = [
        *(too_many_nodes(plan, found.row) or other_number_of_nodes(found)),
        *without_tokens(plan, resource, found.promises),
        *on_other_backends(found),
        *not_whole(plan),
        *wrong_names(plan),
        *offered_load.problems(plan),
        *capacity.too_many(offered_load.shared(plan), found.servers),
        *wrong_mutant(plan),
        *unable(found),
        *wrong_lease(found),
        *user_system.missing_files(plan.system, found.system, found.options),
        *nemeses_elsewhere(plan),
        *out_of_reach(plan),
        *without_connections(found),
        *server_disks.problems(plan),
        *operations.problems(found),
        *server_record.problems(found),
        *own_code.problems(plan),
        *unknown_asks(found),
    ]
    drawn: Sequence[Fault] = ()
    try:
        drawn = draw(plan, found.servers)
    except UsageError as error:
        problems += error.problems
    if problems:
        raise UsageError(*problems)
    full = replace(
        offered_load.shared(plan),
        backend=usable_backend(plan.backend),
        nodes=found.servers,
        resource=resource,
        faults=(*plan.faults, *drawn),
    )
    return replace(found, plan=full)


def without_tokens(plan: Plan, resource: str, promises: Promises) -> list[str]:
    """What the plan asks of fencing tokens that its system does not issue, one line each."""
    if promises.tokens != "none":
        return []
    problems = []
    if resource in catalogue.RESOURCES_WITH_TOKENS:
        hint = " or --set tokens=counter (tokens from a counter)"
        problems.append(
            f"--resource {resource}: {plan.system} issues no fencing tokens, so nothing is rejected"
            f"; use --resource unfenced{hint if plan.system == 'redis' else ''}"
        )
    if "token-order" in plan.require:
        problems.append(f"--require token-order: {plan.system} issues no fencing tokens")
    return problems


def on_other_backends(found: Prepared) -> list[str]:
    """Why the plan's backend does not support its system, in one line at most."""
    plan, only = found.plan, found.backends()
    if only and plan.backend not in only:
        return [
            f"{plan.system} {found.confined_because()}: use --backend {only[0]} instead of"
            f" {plan.backend}"
        ]
    if plan.backend in catalogue.VIRTUAL_TIME:
        why = user_system.not_simulated(plan.system, found.row)
        return [why] if why else []
    return []


def not_whole(plan: Plan) -> list[str]:
    """Options of the workload and the backend that are no whole numbers, one line each."""
    return [
        f"invalid option {name}={value}: expected a whole number"
        for name, value in (workload_options(plan) | backend_options(plan)).items()
        if not value.isdigit()
    ]


def wrong_names(plan: Plan) -> list[str]:
    """What is wrong with the names that the plan gives its locks, one line at most."""
    if NAMES not in plan.options:
        return []
    names = plan.options[NAMES].split("+")
    odd = [
        name
        for name in names
        if not name.isprintable() or not 0 < len(name) <= 200 or name.startswith("/")
    ]
    if odd or len(set(names)) < len(names):
        return [
            f"option {NAMES}={plan.options[NAMES]}: expected different names, joined by '+', of 1"
            " to 200 printable characters, without a '/' at the start (--workload hierarchy adds"
            " it)"
        ]
    if len(names) < plan.locks:
        return [f"option {NAMES} has {len(names)} of {plan.locks} names (--locks {plan.locks})"]
    return []


def nemeses_elsewhere(plan: Plan) -> list[str]:
    """Nemeses that another backend than the plan's supports, one line each."""
    return [
        f"nemesis {name} supports only --backend {only}, not {plan.backend}"
        for name in kinds_of(plan)
        if (only := catalogue.NEMESES[name].only) and only != plan.backend
    ]


def wrong_targets(plan: Plan, faults: Sequence[Fault], servers: int) -> list[str]:
    """Targets that no node of the run can have, one line each: such a fault would be skipped.

    Those of the options count also if no fault falls into the time of the run. `target` may mean
    something else to a user's nemesis: the targets of its faults count.
    """
    aimed = [
        (name, options["target"])
        for name, options in plan.nemeses
        if options.get("target") and not _of_user(name)
    ]
    aimed += [(fault.do, fault.target) for fault in faults]
    clients = capacity.workers(plan)
    return [
        f"nemesis {do}: {why}"
        for do, target in dict.fromkeys(aimed)
        for why in (*unknown_parts(target), *absent_parts(target, servers, clients))
    ]


def _of_user(name: str) -> bool:
    return isinstance(load(catalogue.NEMESES[name].entry), UserNemesis)


def out_of_reach(plan: Plan) -> list[str]:
    """Nemeses whose effect on real clients the plan's backend does not support, one line each."""
    backend = catalogue.BACKENDS[usable_backend(plan.backend)]
    problems = []
    for name in kinds_of(plan):
        traits = catalogue.NEMESES[name].traits
        if backend.virtual_time and traits.simulator != NOT_SIMULATED:
            continue
        if traits.on_packets and not backend.virtual_time and not backend.networks:
            problems.append(
                f"nemesis {name} needs one network per node: use --backend local, docker or ssh"
            )
        elif traits.on_connections and not backend.client_networks:
            problems.append(
                f"nemesis {name} needs one network per client: use --backend local or docker"
            )
        elif traits.in_client and not backend.clients_here:
            problems.append(
                f"nemesis {name} acts inside a client process on this machine: use --backend"
                " local, local-proxy or docker"
            )
        elif backend.virtual_time:
            problems.append(f"nemesis {name} does not run in the simulator: use --backend local")
    return problems


def without_connections(found: Prepared) -> list[str]:
    """Nemeses of clients' connections to servers, where the run starts none, one line each."""
    if found.system.ports:
        return []
    return [
        f"nemesis {name} acts on connections to the lock servers of the run: {found.plan.system}"
        " has none"
        for name in kinds_of(found.plan)
        if catalogue.NEMESES[name].traits.on_connections
    ]


def usable_backend(name: str) -> str:
    """The given backend, or its replacement if this machine cannot run it.

    Why is said on standard error, once in a process.
    """
    row = catalogue.BACKENDS[name]
    reason = load(row.precheck)() if row.instead else None
    if reason is None:
        return name
    _say_once(f"{reason}; using --backend {row.instead} instead")
    return row.instead


def _say_once(line: str) -> None:
    """Once in a command; outside of commands, once in a process."""
    command = click.get_current_context(silent=True)
    lines = _LINES if command is None else command.meta.setdefault(__name__, set())
    if line not in lines:
        lines.add(line)
        click.echo(f"holdfast: {line}", err=True)


def draw(plan: Plan, servers: int) -> Sequence[Fault]:
    """The exact faults of the plan's nemeses, from its seed; UsageError lists their mistakes.

    servers   number of servers, of which a target may name one
    """
    entries = {name: load(catalogue.NEMESES[name].entry) for name, _ in plan.nemeses}
    lease = duration_text(plan.lease_ns)
    specs = [(name, {"lease": lease, **options}) for name, options in plan.nemeses]
    drawn = draw_all(specs, entries, plan.seed, plan.time_ns)
    wrong = [*wrong_targets(plan, (*plan.faults, *drawn), servers), *wrong_params(plan)]
    if wrong:
        raise UsageError(*wrong)
    return drawn


def wrong_params(plan: Plan) -> list[str]:
    """Parameters of the plan's own faults that their nemesis does not know or cannot read, one line
    each: the driver would meet them in the middle of the run. A user's nemesis may know others."""
    problems = []
    for fault in plan.faults:
        nemesis: Nemesis = load(catalogue.NEMESES[fault.do].entry)
        if isinstance(nemesis, UserNemesis):
            continue
        try:
            nemesis.draw(random.Random(plan.seed), fault.params, 0)
        except UsageError as error:
            problems += [f"fault {fault.id}: {problem}" for problem in error.problems]
    return problems


def wrong_mutant(plan: Plan) -> list[str]:
    """Reasons why the plan's mutant cannot be planted, one line each."""
    name = plan.options.get("mutant")
    if name is None:
        return []
    if name not in MUTANTS:
        return [suggest(name, MUTANTS, "mutant")]
    part = MUTANTS[name].part
    if part not in (plan.system, "resource"):
        return [f"mutant {name} is a bug of {part}, not of {plan.system}"]
    return []


def unable(found: Prepared) -> list[str]:
    """The abilities that the workload needs and the system lacks, one line or none."""
    able, plan = found.abilities(), found.plan
    lacking = [need for need in found.workload.needs if need not in able]
    if not lacking:
        return []
    what = "; ".join(f"{need}: {ABILITIES[need]}" for need in lacking)
    hint = " (--set queue=priority)" if "priorities" in lacking else ""
    return [f"workload {plan.workload} needs abilities that {plan.system} lacks{hint}: {what}"]


def wrong_lease(found: Prepared) -> list[str]:
    """Why the system grants no lease of the plan's length, one line or none."""
    system, plan = found.system, found.plan
    if not isinstance(system, LimitsLeases):
        return []
    why = system.wrong_lease(plan.lease_ns, found.options)
    return [f"{plan.system}: {why}"] if why else []


def notes(found: Prepared) -> list[str]:
    """What is known before the run to spoil it, one line each."""
    plan, row, told = found.plan, found.workload, list[str]()
    if plan.locks < row.locks:
        told.append(
            f"{plan.workload} with {plan.locks} lock cannot exercise {found.asks[0]}, which needs"
            f" {row.locks}: add --locks {row.locks}"
        )
    packages = own_code.installed(plan)
    elsewhere = not _clients_here(plan) and plan.backend not in catalogue.VIRTUAL_TIME
    if packages and elsewhere and not found.system.libraries:
        told.append(
            f"{plan.system} imports {', '.join(packages)}: clients on {plan.backend} have the"
            f" standard library and its `libraries`, of which it names none"
        )
    return told


def asks(found: Prepared) -> list[str]:
    """The properties to judge: those of the workload, of the plan and of its kinds of fault that
    apply to this system."""
    without = {"token-order"} if found.promises.tokens == "none" else set()
    plan = found.plan
    traits = [catalogue.NEMESES[kind].traits for kind in kinds_of(plan)]
    undone = any(one.loses_unsynced or one.hangs_disk or one.operates for one in traits)
    durable = ("durable-grants",) if undone else ()
    every = dict.fromkeys((*found.asks, *durable, *plan.must, *plan.require, *found.checkers))
    return [prop for prop in every if prop not in without]


def unknown_asks(found: Prepared) -> list[str]:
    """Properties that a workload requests and that no checker judges, one line each."""
    known = {*catalogue.CHECKERS, *found.checkers}
    return [
        f"workload {found.plan.workload}: {suggest(prop, known, 'property')}"
        for prop in found.asks
        if prop not in known
    ]


def hosts_of(plan: Plan, path: str) -> Mapping[str, Json]:
    """Content of the hosts file, {} if none is needed; UsageError if it is missing."""
    if not catalogue.BACKENDS[plan.backend].hosts_file:
        if path:
            raise UsageError(f"--hosts {path} requires --backend ssh, not {plan.backend}")
        return {}
    if not path:
        raise UsageError("--backend ssh requires --hosts FILE (docs/howto/ssh-hosts.md)")
    found: Mapping[str, Json] = load(catalogue.HOSTS)(Path(path))
    return found


def on_this_machine(plan: Plan, what: str) -> None:
    """UsageError if a run of several would need a file that lists machines."""
    if catalogue.BACKENDS[plan.backend].hosts_file:
        raise UsageError(f"{what} run on this machine only, not on backend {plan.backend}")


def create(
    found: Prepared,
    out: Path,
    again: str,
    *,
    name: str = "",
    hosts: Mapping[str, Json] | None = None,
) -> RunDir:
    """A run directory for a complete plan: plan.toml, manifest.json and the code for the nodes.

    `again` is the command line that shows the run again; `name` of the run is made from the time
    if it is not given; `hosts` is what `hosts_of` gave.
    """
    plan, now = found.plan, datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    # Of a user's own file neither the folder nor the hash is needed to tell runs apart.
    system = NOT_OF_NAMES.sub("-", user_system.declared_name(plan.system).rpartition(":")[2])
    name = name or f"{now}-{system}-{plan.seed}"
    # What cannot be fetched or used leaves no run behind.
    fetched = packages.fetch(found)
    run = directory.create(out, name)
    run.plan.write_text(to_toml(plan, exact=True))
    own = own_code.copy(plan, run)
    if plan.backend not in catalogue.VIRTUAL_TIME:
        # Nothing travels into the simulator.
        directory.pack_code(Path(holdfast.__file__).parent, run.code, own)
    made = manifest(found, name, again, fetched)
    if isinstance(found.system, Installs):
        added = found.system.ship(Path(fetched.folders[0]), run.path / FOLDER, found.options)
    else:
        added = user_system.program_options(
            plan.system, found.system, found.options, run.path / FOLDER
        )
    options = replace(made.options, system={**made.options.system, **added})
    made = replace(made, options=options, hosts=hosts or {})
    directory.write_json(run.manifest, to_table(made))
    return run


def manifest(
    found: Prepared, name: str, again: str, fetched: packages.Fetched | None = None
) -> Manifest:
    """The manifest of a complete plan: everything that is decided before the run."""
    plan = found.plan
    folders, pins = fetched or packages.wanted(found)
    promises = design_sheet.with_resource(found.promises, plan.resource)
    shape = Shape.of(workload_options(plan))
    # A hold that ends with a session lasts as long as its section does.
    longest_ns = max(plan.lease_ns, shape.hold_leases * plan.lease_ns, shape.writes * shape.gap_ns)
    probe_ns = promises.recovery_ns + (plan.clients + 2) * plan.lease_ns + 5 * SECOND
    workload = {**workload_options(plan), "probe_ns": str(probe_ns)}
    workload |= {"over_ns": str(plan.time_ns + 600 * SECOND), "clients": str(plan.clients)}
    # What the plan itself asks to be judged counts like a promise.
    asked_for = dict.fromkeys(found.checkers, ("any",))
    return Manifest(
        schema=directory.SCHEMA,
        run=name,
        label=name,
        version=__version__,
        python=sys.version.split()[0],
        command=again,
        plan=plan,
        identity=user_system.identity(plan.system),
        promises=replace(promises, keeps={**promises.keeps, **asked_for}),
        asks=asks(found),
        checkers=found.checkers,
        plug_ins=own_code.origins(plan),
        options=Options(
            system=found.options,
            workload=workload,
            backend=backend_options(plan),
            resource=resource_options(plan),
        ),
        traits={kind: catalogue.NEMESES[kind].traits for kind in kinds_of(plan)},
        ready_ns=READY_NS,
        longest_hold_ns=longest_ns,
        peers=found.peers,
        pins=pins,
        libraries=folders,
        site=site_folders() if own_code.installed(plan) and _clients_here(plan) else (),
        entries=Entries(
            system=found.entry,
            backend=found.backend.entry,
            workload=found.workload.client,
            probe=catalogue.PROBE,
            resource_main=catalogue.RESOURCE_MAIN,
            simulated=found.row.simulated,
            resource_store=catalogue.RESOURCE_STORE,
            resource_server=catalogue.RESOURCE_SERVER,
            resource_client=catalogue.RESOURCE_CLIENT,
            resource_port=load(f"{catalogue.RESOURCE_MAIN}:PORT"),
            nemeses={
                name: catalogue.NEMESES[name].entry
                for name in dict.fromkeys(fault.do for fault in plan.faults)
            },
        ),
    )


def _clients_here(plan: Plan) -> bool:
    return catalogue.BACKENDS[plan.backend].programs_here


def command(plan: Plan) -> str:
    """The command line that repeats this run."""
    if plan.scenario:
        return staging.command(plan)
    return run_command(plan)
