"""The user's own configuration of the servers in a plan: who takes one, and what it may not set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.clusters.systems.config_files import CONFIG, Configurable
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import FILE_NAMED, Plan
from holdfast.planning.resolve import Prepared


def with_config(plan: Plan, path: Path) -> Plan:
    """The plan with servers that are configured by a file."""
    return replace(plan, options={**plan.options, CONFIG: read(path)})


def read(path: Path) -> str:
    """The text of a file as the option `config` has it. UsageError if it cannot be read."""
    try:
        return f"{FILE_NAMED}{path}\n{path.read_text()}"
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: cannot be read: {error}") from error


def problems(found: Prepared) -> list[str]:
    """Why the servers cannot be started with the plan's configuration, one line each."""
    if CONFIG not in found.options:
        return []
    if not isinstance(found.system, Configurable):
        return [
            f"--config: {found.plan.system} takes no configuration file; these do:"
            f" {', '.join(systems())}"
        ]
    if found.backend.virtual_time:
        return [f"--config: {found.plan.backend} starts no servers: use --backend local"]
    return list(found.system.config_problems(found.options))


def systems() -> list[str]:
    """The built-in systems that take a configuration file."""
    return [name for name in catalogue.SYSTEMS if _takes(name)]


def _takes(name: str) -> bool:
    return isinstance(load(user_system.row(name).entry), Configurable)
