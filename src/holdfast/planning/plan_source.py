"""Reads the plan to repeat: from a plan file or from a run directory."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast import catalogue
from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan, parse, suggest
from holdfast.harness.runs import files
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import own_code, prepare
from holdfast.planning.resolve import options_of


def read_table(path: Path, inside: RunDir | None = None) -> dict[str, Any]:
    """The table of a plan file, maybe `inside` a run. UsageError if it cannot be read."""
    try:
        if inside is not None:
            return toml.loads(files.read(inside.path, path.name).decode())
        return toml.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error


def run_of(path: Path) -> RunDir | None:
    """The run at a path, None for a file. UsageError if the directory is not a run."""
    if not path.is_dir():
        return None
    run = RunDir(path.resolve())
    run.read_manifest()
    return run


def read_plan(path: Path, backend: str | None = None) -> Plan:
    """The complete plan of a run or a plan file, with exact faults; UsageError on any mistake.

    backend   run it there instead; options of the simulated world stay behind
    """
    run = run_of(path)
    place = run.plan if run else path
    table = read_table(place, inside=run)
    table = own_code.kept(table, run) if run else table
    plan = parse(table, prepare.KNOWN, str(place))
    plan = plan if "nodes" in table else replace(plan, nodes=0)
    if backend is not None:
        if backend not in prepare.KNOWN.backends:
            raise UsageError(suggest(backend, list(catalogue.BACKENDS), "backend"))
        plan = elsewhere(plan, backend)
    return prepare.complete(plan)


def elsewhere(plan: Plan, backend: str) -> Plan:
    """The same plan on another backend."""
    others = {name for other in catalogue.BACKENDS for name in options_of(other)}
    left = others - options_of(backend).keys()
    options = {name: text for name, text in plan.options.items() if name not in left}
    return replace(plan, backend=backend, options=options)
