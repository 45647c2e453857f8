"""The manifest of a complete plan: everything that is decided before the run."""

from __future__ import annotations

import sys
from dataclasses import replace

from holdfast import catalogue
from holdfast.catalogue import design_sheet, user_system
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load, site_folders
from holdfast.harness.plans.manifest import Entries, Manifest, Options
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.directory import SCHEMA
from holdfast.harness.runs.version import VERSION
from holdfast.planning import own_code, packages
from holdfast.planning.backends import clients_here
from holdfast.planning.resolve import (
    Prepared,
    backend_options,
    kinds_of,
    resource_options,
    workload_options,
)
from holdfast.workloads.shape import Shape

READY_NS = 60 * SECOND


def manifest(
    found: Prepared, name: str, again: str, fetched: packages.Fetched | None = None
) -> Manifest:
    """The manifest of a complete plan: everything that is decided before the run."""
    plan = found.plan
    folders, pins = fetched or packages.wanted(found)
    promises = design_sheet.with_resource(found.promises, plan.resource)
    shape = Shape.of(workload_options(plan))
    # A hold that ends with a session lasts as long as its section does.
    lasting_ns = promises.lasting_ns(plan.lease_ns)
    longest_ns = max(lasting_ns, shape.hold_leases * plan.lease_ns, shape.writes * shape.gap_ns)
    # The sessions of all clients that are gone end beside each other, leases one after another.
    probe_ns = lasting_ns + (plan.clients + 1) * plan.lease_ns + promises.recovery_ns + 5 * SECOND
    workload = {**workload_options(plan), "probe_ns": str(probe_ns)}
    workload |= {"over_ns": str(plan.time_ns + 600 * SECOND), "clients": str(plan.clients)}
    # What the plan itself asks to be judged counts like a promise.
    asked_for = dict.fromkeys(found.checkers, ("any",))
    return Manifest(
        schema=SCHEMA,
        run=name,
        label=name,
        version=VERSION,
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
        site=site_folders() if own_code.installed(plan) and clients_here(plan) else (),
        entries=_entries(found),
    )


def _entries(found: Prepared) -> Entries:
    """What the processes of a run load."""
    plan = found.plan
    return Entries(
        system=found.entry,
        backend=found.backend.entry,
        workload=found.workload.client,
        probe=catalogue.PROBE,
        resource_main=catalogue.RESOURCE_MAIN,
        simulated=found.row.simulated,
        server_command=server_command(plan),
        resource_store=catalogue.RESOURCE_STORE,
        resource_server=catalogue.RESOURCE_SERVER,
        resource_client=catalogue.RESOURCE_CLIENT,
        resource_port=load(f"{catalogue.RESOURCE_MAIN}:PORT"),
        nemeses={
            name: catalogue.NEMESES[name].entry
            for name in dict.fromkeys(fault.do for fault in plan.faults)
        },
    )


def server_command(plan: Plan) -> str:
    """What starts the servers in place of their system; "" for the system itself."""
    commands = catalogue.SERVER_COMMANDS
    return next((entry for name, entry in commands.items() if name in plan.options), "")


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
