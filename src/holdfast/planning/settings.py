"""Where the values of a run come from: command line, environment, file, default, in that order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import suggest

DEFAULTS: dict[str, Any] = {
    "system": "reference",
    "backend": "local",
    "workload": "critical-section",
    "resource": "",
    "nemesis": "",
    "nodes": 0,
    "clients": 5,
    "locks": 1,
    "time": "30s",
    "lease": "2s",
    "hosts": "",
    "seed": -1,
    "out": ".holdfast/runs",
}
"""Every setting. nodes 0: what suits the system; seed -1: a new one; resource "": what suits;
hosts "": none, a file for --backend ssh."""

UNSET = {
    "resource": "per system",
    "nemesis": "none",
    "nodes": "per system",
    "hosts": "none",
    "seed": "a new one per run",
}
"""What the default of a setting means, where the value itself says nothing to a reader."""

PREFIX = "HOLDFAST_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One value and who said it."""

    value: Any
    source: str

    def shown(self, name: str) -> str:
        """The value for a person."""
        return UNSET[name] if name in UNSET and self.value == DEFAULTS[name] else str(self.value)


def resolve(given: Mapping[str, Any]) -> dict[str, Setting]:
    """Every setting; `given` holds those of the command line. UsageError tells all mistakes."""
    settings = {name: Setting(value=value, source="default") for name, value in DEFAULTS.items()}
    problems: list[str] = []
    for name, value, source in [*_from_file(problems), *_from_environment()]:
        if name not in DEFAULTS:
            problems.append(f"{source}: {suggest(name, list(DEFAULTS), 'setting')}")
            continue
        typed = _typed(name, value)
        if typed is None:
            kind = type(DEFAULTS[name]).__name__
            problems.append(f"{source}: {name} = {value!r} must be of type {kind}")
        else:
            settings[name] = Setting(value=typed, source=source)
    for name, value in given.items():
        if value is not None:
            settings[name] = Setting(value=value, source="command line")
    if problems:
        raise UsageError(*problems)
    return settings


def _typed(name: str, value: Any) -> Any:
    wanted = type(DEFAULTS[name])
    if isinstance(value, wanted) and not isinstance(value, bool):
        return value
    if wanted is int and isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return None


def _from_environment() -> list[tuple[str, Any, str]]:
    known = {PREFIX + name.upper(): name for name in DEFAULTS}
    return [
        (known[variable], value, f"environment {variable}")
        for variable, value in sorted(os.environ.items())
        if variable in known
    ]


def _from_file(problems: list[str]) -> list[tuple[str, Any, str]]:
    for path, section in ((Path("holdfast.toml"), ()), (Path("pyproject.toml"), _TOOL)):
        if not path.exists():
            continue
        try:
            table: Any = toml.loads(path.read_text())
        except (OSError, ValueError) as error:
            problems.append(f"{path}: cannot be read: {error}")
            continue
        for part in section:
            table = table.get(part, {})
        if table:
            return [(str(name), value, str(path)) for name, value in table.items()]
    return []


_TOOL = ("tool", "holdfast")
