"""The page about a foreign history that was checked against a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.harness.foreign.verdict import ForeignVerdict
from holdfast.harness.runs import files
from holdfast.reports.pictures.linearization import Linearization, draw_linearization
from holdfast.reports.text.templates import template_environment

STATES = {"HOLDS": "holds", "VIOLATED": "broken", "UNKNOWN": "unknown"}
FINDINGS_SHOWN = 100


def page(verdicts: ForeignVerdict, prefixes: Sequence[Linearization], no_drawing: str = "") -> str:
    """The page as a string; `no_drawing`: why a violation has no drawing."""
    row = verdicts["verdicts"][0]
    return (
        template_environment()
        .get_template("foreign.html")
        .render(
            verdicts=verdicts,
            row=row,
            tone=STATES[verdicts["verdict"]],
            findings=row["findings"][:FINDINGS_SHOWN],
            more=max(len(row["findings"]) - FINDINGS_SHOWN, 0),
            drawings=[
                (prefix, draw_linearization(prefix, number))
                for number, prefix in enumerate(prefixes, 1)
            ],
            no_drawing=no_drawing,
        )
    )


def write(path: Path, text: str) -> None:
    """Writes the page atomically. OSError."""
    files.write(path.resolve().parent, path.name, text.encode("utf-8", "backslashreplace"))
