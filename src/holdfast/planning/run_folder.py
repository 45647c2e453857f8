"""The run directory of a complete plan: its manifest, and the code for the nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import holdfast
from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Installs
from holdfast.harness.plans.manifest import OWN, Origin, to_table
from holdfast.harness.plans.plan import to_toml
from holdfast.harness.recording import full_disk
from holdfast.harness.runs import directory, node_code
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import capacity, own_code, packages
from holdfast.planning.manifest import manifest
from holdfast.planning.resolve import Prepared

NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters that are removed from the name of a run directory."""


def create(
    found: Prepared,
    out: Path,
    again: str,
    *,
    name: str = "",
    hosts: Mapping[str, Json] | None = None,
    origin: Origin = OWN,
) -> RunDir:
    """A run directory for a complete plan: plan.toml, manifest.json and the code for the nodes.

    `again` is the command line that shows the run again; `name` of the run is made from the time
    if it is not given; `hosts` is what `hosts_of` gave; `origin` has the user's name of the run,
    or says of which run it is an attempt.
    """
    plan, now = found.plan, datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    if plan.backend not in catalogue.VIRTUAL_TIME and os.pathsep in str(out.absolute()):
        raise UsageError(
            f"{out.absolute()}: Python imports nothing from a folder with {os.pathsep!r} in its"
            " path, and the processes of a run have to; choose another folder with --out"
        )
    # Of a user's own file neither the folder nor the hash is needed to tell runs apart.
    system = NOT_OF_NAMES.sub("-", user_system.declared_name(plan.system).rpartition(":")[2])
    name = name or f"{now}-{system}-{plan.seed}"
    # What cannot be fetched or used leaves no run behind.
    fetched = packages.fetch(found)
    if full := capacity.no_space(plan, out.absolute()):
        raise EnvironmentFailed(full)
    run = directory.create(out, name)
    with full_disk.naming(run.path):
        run.plan.write_text(to_toml(plan, exact=True))
        own = own_code.copy(plan, run)
        if plan.backend not in catalogue.VIRTUAL_TIME:
            # Nothing travels into the simulator.
            client = found.entry.partition(":")[0].rpartition(".")[0]
            node_code.pack(Path(holdfast.__file__).parent, run.code, own, client=client)
        made = manifest(found, name, again, fetched)
        if isinstance(found.system, Installs):
            added = found.system.ship(Path(fetched.folders[0]), run.program, found.options)
        else:
            added = user_system.program_options(
                plan.system, found.system, found.options, run.program
            )
        options = replace(made.options, system={**made.options.system, **added})
        made = replace(made, options=options, hosts=hosts or {}, origin=origin)
        directory.write_json(run.manifest, to_table(made))
    return run
