"""Runs a scenario's plan on another system or backend, and prints the command that repeats it."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import catalogue
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import Plan, suggest
from holdfast.scenarios import SCENARIOS, path_of

FIXED = {"workload", "nemesis", "fault", "must"}
"""Keys that define a scenario: options cannot override them."""
USUAL: dict[str, Json] = {"resource": "", "nodes": 0, "clients": 5, "locks": 1, "options": {}}
"""Defaults of keys that a plan file may leave out; all of the files have time and lease."""


def usual_backend(name: str) -> str:
    """The backend of a scenario where none is named: the first that it supports."""
    return (SCENARIOS[name].only or ("sim",))[0]


def own_table(name: str, backend: str) -> dict[str, Any]:
    """The table of its plan file, for a backend. UsageError if it cannot run there."""
    path, scenario = path_of(name), SCENARIOS[name]
    table = tomllib.loads(path.read_text())
    if backend not in catalogue.BACKENDS:
        raise UsageError(suggest(backend, list(catalogue.BACKENDS), "backend"))
    if scenario.only and backend not in scenario.only:
        only = " or ".join(scenario.only)
        raise UsageError(f"scenario {name} supports only --backend {only}, not {backend}")
    return {**table, "backend": backend}


def table_of(name: str, over: Mapping[str, Any]) -> dict[str, Json]:
    """The table of its plan with the given options over it, not yet parsed. UsageError.

    over: keys of a plan, backend among them; its options are added to those of the file.
    """
    table = own_table(name, over["backend"])
    if over.get("system", table["system"]) != table["system"] and "nodes" not in over:
        # The number of servers in the file is for the system in the file.
        table.pop("nodes", None)
    return {**table, **over, "options": {**table.get("options", {}), **over.get("options", {})}}


def one_run(name: str, over: Mapping[str, Any], workloads: Sequence[str]) -> dict[str, Json]:
    """The same for one run of a campaign; UsageError if it is a sweep, or contradicts `workloads`.

    workloads: the workloads of the campaign, () for none.
    """
    table = table_of(name, over)
    own, scenario = own_table(name, over["backend"]), SCENARIOS[name]
    problems = []
    if scenario.sweep:
        problems.append(f"scenario {name} is a sweep of many runs: holdfast scenario {name}")
    if workloads and own["workload"] not in workloads:
        problems.append(
            f"scenario {name} has a fixed workload, {own['workload']}, not"
            f" {' or '.join(workloads)}; leave workloads out"
        )
    if problems:
        raise UsageError(*problems)
    return table


def command(plan: Plan) -> str:
    """The command line that repeats a scenario's plan, with every setting that differs."""
    own = {**USUAL, **own_table(plan.scenario, plan.backend)}
    words = ["holdfast", "scenario", plan.scenario, "--backend", plan.backend]
    words += ["--system", plan.system] if plan.system != own["system"] else []
    asked: dict[str, Json] = {
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
