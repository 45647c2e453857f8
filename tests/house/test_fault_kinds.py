"""No module outside `nemesis/` names a kind of fault: what it needs to know is a trait.

What remains names kinds for a reason in `NAMES`; an entry that is no longer needed fails.
"""

from __future__ import annotations

import ast
import functools
from fnmatch import fnmatchcase

from holdfast import catalogue
from holdfast.harness.core.fault_traits import BEFORE, to_table
from tests.house.imports import modules, nodes

NAMES = {
    "catalogue": "the rows",
    "harness.core.fault_traits": "the table of the kinds of runs recorded before manifests had"
    " traits, and the names of the hatchings",
    "harness.core.operations": "'delay' is a kind of starvation",
    "harness.client.self_faults": "words of an order that a client's process carries out",
    "checkers.coverage.plan_changes": "the kind that a plan lacks, for a command",
    "clusters.backends.abilities": "requests of the fault agent",
    "clusters.backends.sim.*": "the simulator's fault agent: it carries out requests",
    "clusters.systems.reference.*": "'cancel' is a request of the lock service",
    "clusters.systems.galera.system": "'clock' is an option: whose clock ends a lease",
    "clusters.systems.sql_lease.system": "'clock' is an option: whose clock ends a lease",
    "clusters.systems.database_client": "'rollback' ends a transaction",
    "clusters.systems.postgres.advisory.client": "'rollback' ends a transaction",
    "harness.driver.operations": "requests of the fault agent",
    "clusters.systems.sql_lease.client": "'clock' is an option: whose clock ends a lease",
    "reports.run.next_step": "the usual kinds, for a command",
    "reports.many.cell_claims": "claims of the literature about kinds of fault",
    "commands.demo_command": "the plans of the demo",
}
"""Module (a pattern) -> why it may name a kind."""


@functools.cache
def named() -> dict[str, set[str]]:
    """Module outside nemesis/ -> kinds of fault that are string constants in it."""
    found = {}
    for module, path in modules().items():
        if module.partition(".")[0] == "nemesis":
            continue
        constants = (node.value for node in nodes(path) if isinstance(node, ast.Constant))
        kinds = {value for value in constants if isinstance(value, str)} & {*catalogue.NEMESES}
        if kinds:
            found[module] = kinds
    return found


def test_no_kind_of_fault_is_named_outside_its_own_files() -> None:
    wrong = {
        module: sorted(kinds)
        for module, kinds in named().items()
        if not any(fnmatchcase(module, pattern) for pattern in NAMES)
    }
    assert not wrong, f"use a trait of harness.core.fault_traits: {wrong}"


def test_every_exception_is_still_needed() -> None:
    assert [
        pattern for pattern in NAMES if not any(fnmatchcase(module, pattern) for module in named())
    ] == []


NO_LONGER = {
    "freeze": {"simulator": "only"},
    "freeze-write": {"simulator": "only"},
    "torn-write": {"simulator": "only"},
    "slow-links": {"simulator": "only"},
}
"""What old kinds were and are not today: hosts can stop and kill inside a system call now, and
delay packets."""
SINCE = {"torn-write": {"kills_later": True}}
"""What is declared of old kinds today and was not known of then."""


def test_the_kinds_of_old_runs_have_the_traits_that_their_nemeses_declare() -> None:
    before = {kind: to_table(traits) for kind, traits in BEFORE.items()}
    today = {
        kind: to_table(row.traits) for kind, row in catalogue.NEMESES.items() if kind in BEFORE
    }
    for kind, gone in NO_LONGER.items():
        assert gone.items() <= before[kind].items() and not gone.keys() & today[kind].keys()
        today[kind] |= gone
    for kind, added in SINCE.items():
        assert added.items() <= today[kind].items() and not added.keys() & before[kind].keys()
        before[kind] |= added
    assert before == today
