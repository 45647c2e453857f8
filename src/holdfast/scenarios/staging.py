"""A scenario's plan on another system or backend than its file names, and the way back to it."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import catalogue
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan, suggest
from holdfast.scenarios import SCENARIOS, path_of

FIXED = {"workload", "nemesis", "fault", "must"}
"""What makes a scenario the one it is: nobody can ask for another."""
USUAL: dict[str, Any] = {"resource": "", "nodes": 0, "clients": 5, "locks": 1, "options": {}}
"""What a plan file means that does not say otherwise; all of them say time and lease."""


def own_table(name: str, backend: str) -> dict[str, Any]:
    """The table of its plan file, for a backend. UsageError where it cannot run there."""
    path, scenario = path_of(name), SCENARIOS[name]
    table = tomllib.loads(path.read_text())
    if backend not in catalogue.BACKENDS:
        raise UsageError(suggest(backend, list(catalogue.BACKENDS), "backend"))
    if scenario.only not in ("", backend):
        raise UsageError(f"scenario {name} runs on --backend {scenario.only} only, not {backend}")
    return {**table, "backend": backend}


def table_of(name: str, over: Mapping[str, Any]) -> dict[str, Any]:
    """The table of its plan with what was asked for put over it, not yet read. UsageError.

    over: keys of a plan, backend among them; its options are added to those of the file.
    """
    table = own_table(name, over["backend"])
    if over.get("system", table["system"]) != table["system"] and "nodes" not in over:
        # How many servers the file has is a number for its own system.
        table.pop("nodes", None)
    return {**table, **over, "options": {**table.get("options", {}), **over.get("options", {})}}


def one_run(name: str, over: Mapping[str, Any], workloads: Sequence[str]) -> dict[str, Any]:
    """The same for one run among many; UsageError where the scenario is none, or contradicted.

    workloads: those that were asked for beside it, () for none.
    """
    table = table_of(name, over)
    own, scenario = own_table(name, over["backend"]), SCENARIOS[name]
    problems = []
    if scenario.sweep:
        problems.append(f"scenario {name} is many runs along one value: holdfast scenario {name}")
    if workloads and own["workload"] not in workloads:
        problems.append(
            f"scenario {name} runs workload {own['workload']}, which its file fixes, not"
            f" {' or '.join(workloads)}; leave workloads out"
        )
    if problems:
        raise UsageError(*problems)
    return table


def command(plan: Plan) -> str:
    """The command line that shows a plan again that came from a scenario: what differs is said."""
    own = {**USUAL, **own_table(plan.scenario, plan.backend)}
    words = ["holdfast", "scenario", plan.scenario, "--backend", plan.backend]
    words += ["--system", plan.system] if plan.system != own["system"] else []
    asked: dict[str, Any] = {
        "resource": plan.resource,
        "nodes": plan.nodes if plan.nodes != own["nodes"] or "--system" in words else 0,
        "clients": plan.clients,
        "locks": plan.locks,
        "time": duration_text(plan.time_ns),
        "lease": duration_text(plan.lease_ns),
    }
    for key, value in asked.items():
        words += [f"--{key}", str(value)] if value and value != own[key] else []
    for name, text in plan.options.items():
        words += ["--set", f"{name}={text}"] if text != str(own["options"].get(name)) else []
    return shlex.join([*words, "--seed", str(plan.seed)])
