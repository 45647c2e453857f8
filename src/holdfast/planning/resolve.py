"""A plan with the objects that its names stand for, resolved once per run, and its machines.

A user's file is executed here and nowhere else in the process that starts a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast import catalogue
from holdfast.catalogue import design_sheet, user_system
from holdfast.catalogue.mutants import MUTANTS
from holdfast.catalogue.rows import BackendRow, SystemRow, WorkloadRow
from holdfast.checkers.user_checker import UserChecker
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Able, Confined, System
from holdfast.harness.core.verdict import Promises
from holdfast.harness.plans.manifest import RecordedChecker
from holdfast.harness.plans.plan import NAMES, Plan
from holdfast.workloads.shape import DEFAULTS as WORKLOAD_OPTIONS


@runtime_checkable
class Sized(Protocol):
    """A System whose number of servers follows from its options."""

    def servers(self, options: Mapping[str, str]) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A plan, and what its names stand for.

    row         the row of its system; entry: of the library's adapter, if a library is under test
    promises    of the system with the plan's options, without those of the resource
    asks        the properties that the workload requests
    checkers    those that the plan adds, by property
    """

    plan: Plan
    row: SystemRow
    entry: str
    system: System
    promises: Promises
    workload: WorkloadRow
    asks: Sequence[str]
    checkers: Mapping[str, RecordedChecker]

    @property
    def backend(self) -> BackendRow:
        """The row of the plan's backend."""
        found: BackendRow = catalogue.BACKENDS[self.plan.backend]
        return found

    @property
    def options(self) -> dict[str, str]:
        """The plan's options for its system."""
        return system_options(self.plan)

    @property
    def servers(self) -> int:
        """The number of servers that the plan deploys."""
        if isinstance(self.system, Sized):
            return self.system.servers(self.options)
        return self.plan.nodes or self.row.nodes

    @property
    def peers(self) -> bool:
        """Whether its servers communicate."""
        return self.row.peers or (isinstance(self.system, Sized) and self.servers > 1)

    def abilities(self) -> Sequence[str]:
        """Abilities of the system's client with the plan's options."""
        return self.system.abilities(self.options) if isinstance(self.system, Able) else ()

    def backends(self) -> Sequence[str]:
        """The only backends that the system runs on; () for all."""
        return self.system.backends if isinstance(self.system, Confined) else ()

    def confined_because(self) -> str:
        """Why it runs on no other backend, as the end of a sentence about the system."""
        return self.system.confined_because if isinstance(self.system, Confined) else ""


def resolve(plan: Plan) -> Prepared:
    """The plan with its objects. UsageError for a file that cannot be executed, for unknown
    options and for a checker that cannot be used."""
    # A lock class may keep its state in memory: a simulated run begins with a new one.
    row = user_system.row(plan.system, again=plan.backend in catalogue.VIRTUAL_TIME)
    entry = row.entry
    for option, entry_of in catalogue.SYSTEM_ENTRIES.items():
        if option in plan.options:
            entry = load(entry_of)(plan.system, plan.options)
    system: System = load(entry)
    try:
        planned = [*plan.nemeses, *((fault.do, fault.params) for fault in plan.faults)]
        promises = design_sheet.with_kinds(system.promises(system_options(plan)), planned)
    except UsageError as error:
        raise UsageError(*too_many_nodes(plan, row), *error.problems) from error
    workload: WorkloadRow = catalogue.WORKLOADS[plan.workload]
    return Prepared(
        plan=plan,
        row=row,
        entry=entry,
        system=system,
        promises=promises,
        workload=workload,
        asks=workload.asks(),
        checkers=_checkers(plan),
    )


def kinds_of(plan: Plan) -> list[str]:
    """The kinds of fault that a plan names, each once."""
    return list(dict.fromkeys([name for name, _ in plan.nemeses] + [f.do for f in plan.faults]))


def other_number_of_nodes(found: Prepared) -> list[str]:
    """That the plan has another number of servers than its options say, in one line at most."""
    given = found.plan.nodes
    if not given or given == found.servers:
        return []
    return [f"--nodes {given}: {found.plan.system} has {found.servers} with these options"]


def too_many_nodes(plan: Plan, row: SystemRow) -> list[str]:
    """That the plan has more servers than its system supports, in one line at most."""
    if (plan.nodes or row.nodes) <= row.most:
        return []
    return [f"--nodes {plan.nodes or row.nodes}: {plan.system} supports at most {row.most} nodes"]


def _checkers(plan: Plan) -> dict[str, RecordedChecker]:
    """The checkers that the plan adds, by property: name, severity and sentence of each.

    UsageError for one that cannot be loaded, and for two of one property.
    """
    found: dict[str, RecordedChecker] = {}
    for name in plan.checkers:
        made = load(catalogue.CHECKERS[name])
        if not isinstance(made, UserChecker):
            raise UsageError(f"--checker {name}: built in; a workload requests it, or `must`")
        if made.property in found:
            other = found[made.property].name
            raise UsageError(f"--checker {name}: {other} judges {made.property} too")
        found[made.property] = made.recorded(name)
    return found


def system_options(plan: Plan) -> dict[str, str]:
    mutant = MUTANTS.get(plan.options.get("mutant", ""))
    others = dict.fromkeys([*WORKLOAD_OPTIONS, NAMES, *backend_options(plan)])
    if mutant is None or mutant.part != plan.system:
        others["mutant"] = None
    return {k: v for k, v in plan.options.items() if k not in others}


def workload_options(plan: Plan) -> dict[str, str]:
    """Those that its clients read: whole numbers."""
    return {k: v for k, v in plan.options.items() if k in WORKLOAD_OPTIONS}


def backend_options(plan: Plan) -> dict[str, str]:
    """The plan's options for its backend itself."""
    known = options_of(plan.backend)
    return {k: v for k, v in plan.options.items() if k in known}


def options_of(backend: str) -> Mapping[str, str]:
    """A backend's own options, with their defaults."""
    entry = catalogue.BACKENDS[backend].options
    return load(entry) if entry else {}


def resource_options(plan: Plan) -> dict[str, str]:
    """The bug to plant in the protected resource, "" for a bug of the system."""
    mutant = MUTANTS.get(plan.options.get("mutant", ""))
    return {"mutant": plan.options["mutant"]} if mutant and mutant.part == "resource" else {}


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
