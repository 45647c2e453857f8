"""The part of `holdfast check` that judges a recorded run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.engine import judging, reporting, shown_verdict
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.judging.outcome import overall
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.causes import with_causes
from holdfast.harness.verdicts.judged import Judged, to_table


def judge_run(
    path: Path, checkers: tuple[str, ...], in_parts: int, only: tuple[str, ...]
) -> Judged:
    """Judge a run again; restricted to the properties `only`, if there are any."""
    run = RunDir(path.resolve())
    verdicts = judging.judge_run(run, checkers, in_parts)
    return _restrict(run, verdicts, only) if only else verdicts


def shown_run(path: Path, judged: Judged, *, as_json: bool, verbose: bool) -> Json:
    """The verdicts as JSON; unless that is what is printed, they are shown with a new report."""
    if not as_json:
        report = reporting.report_run(RunDir(path.resolve()), judged)
        shown_verdict.show_verdict(judged, report, verbose=verbose)
    return to_table(judged)


def _restrict(run: RunDir, judged: Judged, only: tuple[str, ...]) -> Judged:
    """The judged run with these properties only. UsageError if one was not judged."""
    asked = [row.property for row in judged.verdicts]
    missing = [prop for prop in only if prop not in asked]
    if missing:
        raise UsageError(
            f"--property {', '.join(missing)}: not judged; judged are {', '.join(asked)}"
        )
    kept = tuple(row for row in judged.verdicts if row.property in only)
    word, code = overall(kept, judged.problems)
    kept_run = replace(judged, verdicts=kept, verdict=word, exit_code=code)
    return with_causes(kept_run, run.read_manifest().traits)
