"""The manifest of a run: everything decided before the run, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_type_hints

from holdfast.harness.core.clock import LARGEST
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.verdict import Promises, Severity
from holdfast.harness.plans.plan import Plan

MOST = {"nodes": 1000, "clients": 100_000, "locks": 1_000_000, "drift_ppm": 1_000_000}
"""Upper bounds of counts in a manifest; a larger count would make a loop endless."""
TEXTS = ("run", "label", "version", "python", "command", "identity")
TABLES = ("plan", "promises", "options", "entries", "traits", "checkers", "plug_ins")
NUMBERS = ("ready_ns", "longest_hold_ns")


def problems(manifest: Mapping[str, Any]) -> list[str]:
    """Values of a wrong type or range in a manifest, one sentence each.

    Missing keys are no mistake: older versions wrote fewer.
    """
    wanted: dict[str, Any] = {
        **dict.fromkeys(TEXTS, str),
        **dict.fromkeys(TABLES, dict[str, Any]),
        **dict.fromkeys(NUMBERS, int),
        "asks": list[str],
        "libraries": list[str],
        "pins": list[str],
        "hosts": dict[str, Any],
        "peers": bool,
    }
    found = _wrong(manifest, wanted, "")
    if found:
        return found
    found += _wrong(manifest.get("plan", {}), get_type_hints(Plan), "plan.")
    found += _wrong(manifest.get("promises", {}), get_type_hints(Promises), "promises.")
    found += _wrong_checkers(manifest.get("checkers", {}))
    for kind, table in manifest.get("traits", {}).items():
        if not isinstance(table, dict):
            found.append(f"traits.{kind}: expected a table")
            continue
        found += _wrong(table, get_type_hints(Traits), f"traits.{kind}.")
    kinds = dict.fromkeys(manifest.get("options", {}), dict[str, str])
    found += _wrong(manifest.get("options", {}), kinds, "options.")
    if found:
        return found
    table = {**manifest.get("plan", {}), **{name: manifest.get(name, 0) for name in NUMBERS}}
    for name, value in [*table.items(), *manifest.get("promises", {}).items()]:
        most = MOST.get(name, LARGEST)
        least = 0 if name in table else -most
        if isinstance(value, int) and not least <= value <= most and name != "seed":
            found.append(f"invalid {name} {str(value)[:40]}: expected {least} to {most}")
    return found


def _wrong_checkers(table: Mapping[str, Any]) -> list[str]:
    found = _wrong(table, dict.fromkeys(table, dict[str, str]), "checkers.")
    return found or [
        f"checkers.{prop}: expected name, says and severity: {', '.join(Severity)}"
        for prop, row in table.items()
        if not {"name", "says"} <= row.keys() or row.get("severity") not in list(Severity)
    ]


def _wrong(table: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> list[str]:
    # The simulator reads plans, not manifests, on interpreters that may not have it.
    import msgspec

    found = []
    for name, kind in kinds.items():
        if name not in table:
            continue
        try:
            msgspec.convert(table[name], kind)
        except msgspec.ValidationError as error:
            found.append(f"{where}{name}: {error}")
        except RecursionError:
            found.append(f"{where}{name}: nested too deeply")
    return found


def plan_table(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, every fault exact."""
    return asdict(plan)


def plan_of(manifest: Mapping[str, Any]) -> Plan:
    """The plan of a manifest."""
    table = dict(manifest["plan"])
    faults = tuple(Fault(**fault) for fault in table.pop("faults"))
    nemeses = tuple((name, dict(options)) for name, options in table.pop("nemeses"))
    return Plan(**table, faults=faults, nemeses=nemeses)
