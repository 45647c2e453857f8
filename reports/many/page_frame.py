"""Writes pages about many runs: one file each, without network access and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.harness.campaigns.results import Outcome
from holdfast.harness.runs import files
from holdfast.harness.verdicts.judged import state_of
from holdfast.reports.text.templates import template_environment

STATES = {
    "HOLDS": "holds",
    "VIOLATED": "broken",
    "LIMIT": "limit",
    "UNKNOWN": "unknown",
    "ENVIRONMENT": "failed",
}
"""The word of a cell -> its style."""


def write(path: Path, text: str) -> Path:
    """Writes a page atomically; returns its path."""
    files.write(path.parent, path.name, text.encode())
    return path


def render(template: str, values: Mapping[str, object]) -> str:
    """The page as a string. The filter `say` makes untrusted text harmless."""
    environment = template_environment()
    environment.globals |= {"states": STATES, "state": _state}
    return environment.get_template(template).render(values)


def _state(one: Outcome) -> str:
    """The style of a property of one run."""
    return STATES[state_of(one.verdict, promised=one.promised)]
