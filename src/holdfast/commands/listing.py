"""Rows and fields of `holdfast list KIND`, from every catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import catalogue
from holdfast.catalogue.findings import FINDINGS
from holdfast.catalogue.mutants import MUTANTS
from holdfast.harness.core.fault_traits import to_table
from holdfast.harness.core.verdict import PROPERTIES
from holdfast.scenarios import SCENARIOS

Table = dict[str, dict[str, Any]]
"""Name -> fields. Every row has "summary", one sentence without a full stop."""


def _systems() -> Table:
    return {
        name: {
            "summary": row.says,
            "default_nodes": row.nodes,
            "most_nodes": row.most,
            "simulated": bool(row.simulated),
            "real_in_simulator": row.real or ("servers and clients" if row.simulated else ""),
            "known_limits": [list(pair) for pair in row.known],
        }
        for name, row in catalogue.SYSTEMS.items()
    }


def _workloads() -> Table:
    return {
        name: {"summary": row.says, "backend": "", "needs": list(row.needs)}
        for name, row in catalogue.WORKLOADS.items()
    }


def _nemeses() -> Table:
    return {
        name: {
            "summary": row.says,
            "backend": row.only,
            "needs": [],
            "traits": to_table(row.traits),
        }
        for name, row in catalogue.NEMESES.items()
    }


def _checkers() -> Table:
    return {
        name: {"summary": PROPERTIES[name][1], "severity": str(PROPERTIES[name][0])}
        for name in catalogue.CHECKERS
    }


def _scenarios() -> Table:
    return {
        name: {"summary": row.says, "backend": row.only, "sweep": row.sweep}
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
        }
        for name, row in FINDINGS.items()
    }


KINDS: dict[str, Callable[[], Table]] = {
    "systems": _systems,
    "workloads": _workloads,
    "nemeses": _nemeses,
    "checkers": _checkers,
    "backends": lambda: {
        name: {"summary": row.says, "fallback": row.instead}
        for name, row in catalogue.BACKENDS.items()
    },
    "scenarios": _scenarios,
    "models": lambda: {name: {"summary": row.says} for name, row in catalogue.MODELS.items()},
    "resources": lambda: {name: {"summary": says} for name, says in catalogue.RESOURCES.items()},
    "findings": _findings,
    "mutants": _mutants,
}


def line(kind: str, row: dict[str, Any]) -> str:
    """One row for a terminal: its summary, and the most important fields in brackets."""
    summary = str(row["summary"])
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
        return (
            f"{row['package']}: {summary} (breaks {row['breaks']} in {seen} of {tries} runs;"
            f" {row['reported']}; holdfast scenario {row['scenario']})"
        )
    return summary
