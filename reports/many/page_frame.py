"""Pages about many runs: one file each that opens without a network and runs no script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from holdfast.harness.runs import files
from holdfast.reports.run.html import FILTERS, TEMPLATES
from holdfast.reports.text import formatting

STATES = {
    "HOLDS": "holds",
    "VIOLATED": "broken",
    "LIMIT": "limit",
    "UNKNOWN": "unknown",
    "ENVIRONMENT": "failed",
}
"""The word of a cell -> how it is drawn."""


def write(path: Path, text: str) -> Path:
    """Writes a page whole or not at all; returns its path."""
    files.write(path.parent, path.name, text.encode())
    return path


def render(template: str, values: Mapping[str, Any]) -> str:
    """The page as a string. Everything shown through `say` is harmless, whoever wrote it."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.globals |= {
        "count": formatting.count,
        "states": STATES,
        "state": lambda _: "unknown",
    }
    return environment.get_template(template).render(values)
