"""Collects results from paths: campaigns, run directories, or folders of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.campaigns.runner import JOURNAL, PLANNED, PLANNED_SCHEMA
from holdfast.engine import judging
from holdfast.harness.campaigns import journal, results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.harness.judging.stored import stored
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.reports.text.formatting import count

CELLS_NAMED = 4


def gather(paths: Sequence[Path], tell: Callable[[str], None] = lambda _: None) -> list[Result]:
    """Every result under these paths, with the absolute path of its directory if it has one.

    Results of runs that a campaign's file no longer asks for are left out; `tell` says so.

    UsageError lists all paths without results or with unreadable ones.
    """
    found: list[Result] = []
    problems: list[str] = []
    for path in {path.resolve(): path for path in paths}.values():
        try:
            of_path = _under(path, tell)
        except UsageError as error:
            problems += error.problems
            continue
        if not of_path:
            what = "not a" if path.exists() else "no such"
            problems.append(f"{path}: {what} campaign, run directory or folder of either")
        found += of_path
    if problems:
        raise UsageError(*problems)
    return found


def _under(path: Path, tell: Callable[[str], None]) -> list[Result]:
    if (path / JOURNAL).is_file():
        return [_at(path, result) for result in _planned(path, tell)]
    if (path / "manifest.json").is_file():
        return [_of_run(RunDir(path.resolve()))]
    campaigns = sorted(file.parent for file in path.glob(f"*/{JOURNAL}"))
    if campaigns:
        return [result for campaign in campaigns for result in _under(campaign, tell)]
    runs = sorted(path.glob("*/manifest.json"))
    alone = [run.parent for run in runs if not run.parent.is_symlink()]
    return [_of_run(RunDir(run.resolve())) for run in alone]


def _planned(folder: Path, tell: Callable[[str], None]) -> list[Result]:
    """The results of a campaign without those that its file no longer asks for; all, if an older
    version wrote it."""
    done = journal.done(folder / JOURNAL)
    if not (folder / PLANNED).is_file():
        return list(done.values())
    keys = directory.read_json(folder / PLANNED, PLANNED_SCHEMA).get("keys")
    if not isinstance(keys, list):
        raise UsageError(f"{folder / PLANNED}: no list `keys`; run the campaign again")
    left_out = [result for key, result in done.items() if key not in keys]
    if left_out:
        cells = sorted({result.cell for result in left_out})
        shown = ", ".join(cells[:CELLS_NAMED]) + (", ..." if len(cells) > CELLS_NAMED else "")
        tell(
            f"{folder}: {count(len(left_out), 'run')} ignored, because the campaign's file"
            f" no longer asks for {'it' if len(left_out) == 1 else 'them'}: {shown}"
        )
    return [result for key, result in done.items() if key in keys]


def _at(folder: Path, result: Result) -> Result:
    return replace(result, run=str((folder / result.run).resolve())) if result.run else result


def _of_run(run: RunDir) -> Result:
    """The result of a run; judges it first if necessary."""
    if run.has(run.verdicts):
        verdicts = stored(run)
    else:
        verdicts = judging.judge_run(run)
    result = results.of_verdicts(verdicts, run.read_manifest(), run=str(run.path))
    return replace(result, key=run.path.name)
