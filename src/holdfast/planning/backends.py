"""Which backend carries a plan out, and where its clients are."""

from __future__ import annotations

import click

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import Plan

_LINES: set[str] = set()
"""Lines about a backend that were printed outside of a command."""


def usable_backend(name: str) -> str:
    """The given backend, or its replacement if this machine cannot run it.

    Why is said on standard error, once in a process.
    """
    row = catalogue.BACKENDS[name]
    reason = load(row.precheck)() if row.instead else None
    if reason is None:
        return name
    _say_once(f"{reason}; using --backend {row.instead} instead")
    return row.instead


def _say_once(line: str) -> None:
    """Once in a command; outside of commands, once in a process."""
    command = click.get_current_context(silent=True)
    lines = _LINES if command is None else command.meta.setdefault(__name__, set())
    if line not in lines:
        lines.add(line)
        click.echo(f"holdfast: {line}", err=True)


def clients_here(plan: Plan) -> bool:
    """Whether clients have what is installed on this machine."""
    return catalogue.BACKENDS[plan.backend].programs_here
