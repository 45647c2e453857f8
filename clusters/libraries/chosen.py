"""The System of a library under test, of Python or of another language."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.libraries import system as of_python
from holdfast.clusters.programs import system as of_program


def entry(system: str, options: Mapping[str, str]) -> str:
    """The name under which the System is loaded. UsageError for an unknown library."""
    if of_program.is_program(options["library"]):
        return of_program.entry(system, options)
    return of_python.entry(system, options)
