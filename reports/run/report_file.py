"""The report of a run as a file, written atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.harness.core.json_value import Json
from holdfast.harness.runs import files
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section
from holdfast.reports.pictures.timeline import Recorded
from holdfast.reports.run.html import render


def write(
    run_dir: Path,
    run: Judged,
    manifest: Mapping[str, Json],
    plan_toml: str,
    recorded: Recorded | None = None,
    no_timeline: str = "",
    *,
    name: str = "report.html",
    simulated: bool = False,
    sections: Sequence[Section] = (),
) -> Path:
    """Writes the report into a folder, of the run or another one, and returns its path.

    The file is written atomically. simulated: the run was on virtual time. sections: of
    features that looked at the run.
    """
    text = render(
        run, manifest, plan_toml, recorded, no_timeline, simulated=simulated, sections=sections
    )
    files.write(run_dir, name, text.encode())
    return run_dir / name
