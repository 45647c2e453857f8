"""A plan from single options, or from a plan file that options override."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Plan, parse, parse_nemesis
from holdfast.planning import plan_source, prepare


def pairs(options: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE texts as a table; UsageError lists all that are none."""
    found, problems = {}, []
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            problems.append(f"--set {option!r}: expected NAME=VALUE")
        found[name] = text
    if problems:
        raise UsageError(*problems)
    return found


def from_options(given: Mapping[str, Any], options: Iterable[str]) -> Plan:
    """A plan from keys of a plan file; nemesis is one text, as on the command line.

    None and "" stand for what is not given. UsageError lists every mistake.
    """
    problems: list[str] = []
    table = {name: value for name, value in given.items() if value not in (None, "")}
    seed = table.pop("seed", -1)
    try:
        table["options"] = pairs(options)
    except UsageError as error:
        problems += error.problems
    try:
        nemeses = parse_nemesis(table.pop("nemesis")) if "nemesis" in table else []
        table["nemesis"] = [{"name": name, **chosen} for name, chosen in nemeses]
    except UsageError as error:
        problems += error.problems
    try:
        plan = parse(table, prepare.KNOWN, "run")
    except UsageError as error:
        raise UsageError(*problems, *error.problems) from error
    if problems:
        raise UsageError(*problems)
    return replace(plan, seed=seed, nodes=given.get("nodes") or 0)


def from_file(path: Path, over: Mapping[str, object], options: Iterable[str]) -> Plan:
    """A plan file, overridden by `over` (keys of a plan) and by options NAME=VALUE."""
    if over.get("nemesis"):
        raise UsageError("--nemesis cannot be combined with a plan file; write it into the file")
    table = plan_source.read_table(path)
    if isinstance(table.get("system"), dict):
        # A plan may describe its system in itself.
        table["system"] = str(path)
    chosen = pairs(options)
    if chosen and isinstance(table.get("options", {}), dict):
        over = {**over, "options": {**table.get("options", {}), **chosen}}
    plan = parse({**table, **over}, prepare.KNOWN, str(path))
    return plan if "nodes" in table or "nodes" in over else replace(plan, nodes=0)
