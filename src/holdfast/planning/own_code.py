"""Code that a plan brings along: files of the user and plug-ins, copied into the run directory.

Clients on other nodes import the copy, and a run can be repeated where the originals are gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from holdfast.catalogue import plug_ins
from holdfast.harness.core import loading
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import module_of
from holdfast.harness.plans.plan import Plan, names_in
from holdfast.harness.runs.directory import RunDir

IN_TEXT = re.compile(r"(?P<path>.+\.py)(?P<rest>:[A-Za-z_][A-Za-z0-9_]*(?:@[a-z][a-z0-9-]*)?)")


def sources(plan: Plan) -> dict[str, Path]:
    """The files to copy, by their path below the run's folder `own`.

    UsageError where two files would be one module.
    """
    found: dict[str, Path] = {}
    for kind, name in names_in(plan):
        for below, path in plug_ins.sources(kind, name).items():
            other = found.setdefault(below, path)
            if other.resolve() != path.resolve():
                raise UsageError(f"{other} and {path} have the same name: rename one of them")
    return found


def problems(plan: Plan) -> list[str]:
    """Why the plan's own code cannot be copied, one line each."""
    try:
        sources(plan)
    except UsageError as error:
        return list(error.problems)
    return []


def installed(plan: Plan) -> list[str]:
    """Installed packages that the plan's own Python files import, where clients need them."""
    paths = [
        Path(name.rpartition(":")[0])
        for kind, name in names_in(plan)
        if kind in ("systems", "workloads") and ".py:" in name
    ]
    return list(dict.fromkeys(name for path in paths for name in loading.installed(path)))


def copy(plan: Plan, run: RunDir) -> Path | None:
    """Copy it into the run directory; the folder, None if the plan has no code of its own."""
    files = sources(plan)
    for below, path in files.items():
        target = run.own / below
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    return run.own if files else None


def origins(plan: Plan) -> dict[str, str]:
    """Plug-ins of the plan: "kind name" -> distribution and version."""
    return {
        f"{kind} {name}": plug_ins.installed(kind)[name].origin
        for kind, name in names_in(plan)
        if name in plug_ins.installed(kind)
    }


def kept(table: Mapping[str, Json], run: RunDir) -> dict[str, Json]:
    """The plan of a run in which files that are gone are those that the run has kept."""

    def found(value: Json) -> Json:
        if isinstance(value, list):
            return [found(one) for one in value]
        if isinstance(value, dict):
            return {key: found(one) for key, one in value.items()}
        named = IN_TEXT.fullmatch(value) if isinstance(value, str) else None
        if named is None or Path(named["path"]).is_file():
            return value
        copy = run.own / f"{module_of(Path(named['path']))}.py"
        return f"{copy}{named['rest']}" if copy.is_file() else value

    return {key: value if key == "options" else found(value) for key, value in table.items()}
