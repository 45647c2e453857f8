"""Rows and fields of `holdfast list KIND`, from every catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast import catalogue
from holdfast.catalogue import plug_ins
from holdfast.catalogue.findings import FINDINGS, TRACK_RECORD
from holdfast.catalogue.mutants import MUTANTS
from holdfast.catalogue.rows import BackendRow, NemesisRow, SystemRow, WorkloadRow
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import to_table
from holdfast.harness.core.loading import load
from holdfast.harness.properties import PROPERTIES
from holdfast.nemesis.agent.tracing.functions import NotAProgram, Program
from holdfast.scenarios import SCENARIOS

Fields = dict[str, Any]
Table = dict[str, Fields]
"""Name -> fields. Every row has "summary", one sentence without a full stop."""


BUILT_IN = "built in"
FUNCTIONS = "functions"
R = TypeVar("R")


def _with_plug_ins(table: Mapping[str, R], kind: str, fields: Callable[[str, R], Fields]) -> Table:
    """The rows of a table, then those of installed plug-ins. A broken one is named on standard
    error and left out."""
    found = {name: {**fields(name, row), "origin": BUILT_IN} for name, row in table.items()}
    for plug_in, row, why in plug_ins.usable(kind, table):
        if row is None:
            click.echo(f"holdfast: {why}", err=True)
        else:
            found[plug_in.name] = {**fields(plug_in.name, row), "origin": plug_in.origin}
    return found


def _system(name: str, row: SystemRow) -> Fields:
    return {
        "summary": row.says,
        "default_nodes": row.nodes,
        "most_nodes": row.most,
        "simulated": row.runs_in_simulator,
        "real_in_simulator": row.real_in_simulator,
        "known_limits": [list(pair) for pair in row.known],
    }


def _workload(name: str, row: WorkloadRow) -> Fields:
    return {"summary": row.says, "backend": "", "needs": list(row.needs)}


def _nemesis(name: str, row: NemesisRow) -> Fields:
    return {
        "summary": row.says,
        "backend": row.only,
        "needs": [],
        "traits": to_table(row.traits),
    }


def _checker(name: str, entry: str) -> Fields:
    if name in PROPERTIES:
        row = PROPERTIES[name]
        return {"summary": row.sentence, "severity": str(row.severity), "property": name}
    made = load(entry)
    return {"summary": made.says, "severity": str(made.severity), "property": made.property}


def _backend(name: str, row: BackendRow) -> Fields:
    return {"summary": row.says, "fallback": row.instead}


def _scenarios() -> Table:
    return {
        name: {"summary": row.says, "backend": ", ".join(row.only), "sweep": row.sweep}
        for name, row in SCENARIOS.items()
    }


def _mutants() -> Table:
    return {
        name: {
            "summary": row.says,
            "system": row.system,
            "part": row.part,
            "area": row.area,
            "breaks": row.breaks,
            "seeds": row.seeds,
        }
        for name, row in MUTANTS.items()
    }


def _findings() -> Table:
    return {
        name: {
            "summary": row.says,
            "package": row.package,
            "breaks": row.breaks,
            "seen": list(row.seen),
            "reported": row.cited,
            "command": f"holdfast run {row.command}",
            "scenario": f"finding:{name}",
            "fixed_by": row.fixed,
            "last_shown": shown.last.isoformat() if (shown := TRACK_RECORD.get(name)) else "",
            "last_seen": list(shown.seen) if shown else [],
            "versions": list(shown.versions) if shown else [],
        }
        for name, row in FINDINGS.items()
    }


KINDS: dict[str, Callable[[], Table]] = {
    "systems": lambda: _with_plug_ins(catalogue.SYSTEMS, "systems", _system),
    "workloads": lambda: _with_plug_ins(catalogue.WORKLOADS, "workloads", _workload),
    "nemeses": lambda: _with_plug_ins(catalogue.NEMESES, "nemeses", _nemesis),
    "checkers": lambda: _with_plug_ins(catalogue.CHECKERS, "checkers", _checker),
    "backends": lambda: _with_plug_ins(catalogue.BACKENDS, "backends", _backend),
    "scenarios": _scenarios,
    "models": lambda: {name: {"summary": row.says} for name, row in catalogue.MODELS.items()},
    "resources": lambda: {name: {"summary": says} for name, says in catalogue.RESOURCES.items()},
    "findings": _findings,
    "mutants": _mutants,
}


def functions(program: Path) -> Table:
    """The functions of a program, with their addresses. UsageError if they cannot be read."""
    try:
        found = Program(program).functions()
    except (OSError, NotAProgram) as error:
        raise UsageError(f"{program}: functions cannot be read: {error}") from error
    if not found:
        raise UsageError(f"{program}: no names of functions: it is stripped, and not of Go")
    return {
        name: {"summary": f"{address:#x}", "address": address} for name, address in found.items()
    }


def line(kind: str, row: dict[str, Any]) -> str:
    """One row for a terminal: its summary, and the most important fields in brackets."""
    origin = row.get("origin", BUILT_IN)
    summary = str(row["summary"]) + ("" if origin == BUILT_IN else f" [{origin}]")
    if kind == "systems":
        real = f", real: {row['real_in_simulator']}" if row["simulated"] else ""
        return f"{summary} (simulated: {'yes' if row['simulated'] else 'no'}{real})"
    if kind == "mutants":
        return (
            f"{summary} ({row['area']} of {row['part']}; breaks {row['breaks']} within"
            f" {row['seeds']} seeds)"
        )
    if kind == "findings":
        seen, tries = row["seen"]
        last = f", last shown {row['last_shown']}" if row["last_shown"] else ""
        return (
            f"{row['package']}: {summary} (breaks {row['breaks']} in {seen} of {tries} runs{last};"
            f" {row['reported']}; holdfast scenario {row['scenario']})"
        )
    return summary
