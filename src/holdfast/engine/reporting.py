"""Writes the report of a judged run."""

from __future__ import annotations

from pathlib import Path

from holdfast import catalogue
from holdfast.engine.judging import not_stored
from holdfast.engine.lenses import sections
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.history.reader import load as load_history
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.plans.manifest import Manifest, to_table
from holdfast.harness.runs import files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import NO_REPORT, Judged
from holdfast.reports.pictures.timeline import Recorded
from holdfast.reports.run.report_file import write


def report_run(run: RunDir, verdicts: Judged, to: Path | None = None) -> str:
    """Write the report, to report.html next to the verdict if no file is named; returns its path,
    `NO_REPORT` if it cannot be written."""
    clocks = {"clocks": plain(verdicts.clocks)} if verdicts.clocks else {}
    manifest = run.read_manifest()
    recorded, why = _recorded(run, manifest)
    try:
        plan = files.read(run.path, run.plan.name).decode(errors="backslashreplace")
    except FileNotFoundError:
        plan = "# this run has no plan.toml"
    path = run.path / "report.html" if to is None else to.resolve()
    table = {**clocks, **to_table(manifest)}
    try:
        simulated = manifest.plan.backend in catalogue.VIRTUAL_TIME
        given = (verdicts, table, plan, recorded, why)
        return str(
            write(
                path.parent,
                *given,
                name=path.name,
                simulated=simulated,
                sections=sections(verdicts),
            )
        )
    except OSError as error:
        not_stored(path, error)
        return NO_REPORT


def _recorded(run: RunDir, manifest: Manifest) -> tuple[Recorded | None, str]:
    """The recorded history for the timeline, or None and the reason."""
    try:
        recording = load_history(run.history)
        with files.shaped(run.path):
            case = case_of(manifest, recording, journal.marks(run), journal.faults(run))
    except UsageError as error:
        return None, str(error)
    drawn = load(catalogue.DRAWN)(case)
    return Recorded(history=case.history, nodes=case.nodes, drawn=drawn), ""
