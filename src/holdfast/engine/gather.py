"""Collects results from paths: campaigns, run directories, or folders of either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.engine import runner
from holdfast.engine.campaign_runner import JOURNAL
from holdfast.harness.campaigns import journal, results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.harness.judging.judge import stored
from holdfast.harness.runs.directory import RunDir


def gather(paths: Sequence[Path]) -> list[Result]:
    """Every result under these paths, with the absolute path of its directory if it has one.

    UsageError lists all paths without results or with unreadable ones.
    """
    found: list[Result] = []
    problems: list[str] = []
    for path in {path.resolve(): path for path in paths}.values():
        try:
            of_path = _under(path)
        except UsageError as error:
            problems += error.problems
            continue
        if not of_path:
            problems.append(f"{path}: not a campaign, a run directory or a folder of either")
        found += of_path
    if problems:
        raise UsageError(*problems)
    return found


def _under(path: Path) -> list[Result]:
    if (path / JOURNAL).is_file():
        done = journal.done(path / JOURNAL)
        return [_at(path, result) for result in done.values()]
    if (path / "manifest.json").is_file():
        return [_of_run(RunDir(path.resolve()))]
    campaigns = sorted(file.parent for file in path.glob(f"*/{JOURNAL}"))
    if campaigns:
        return [result for campaign in campaigns for result in _under(campaign)]
    runs = sorted(path.glob("*/manifest.json"))
    alone = [run.parent for run in runs if not run.parent.is_symlink()]
    return [_of_run(RunDir(run.resolve())) for run in alone]


def _at(folder: Path, result: Result) -> Result:
    return replace(result, run=str((folder / result.run).resolve())) if result.run else result


def _of_run(run: RunDir) -> Result:
    """The result of a run; judges it first if necessary."""
    if run.has(run.verdicts):
        verdicts = stored(run)
    else:
        verdicts = runner.judge_run(run)
    result = results.of_verdicts(verdicts, run.read_manifest(), run=str(run.path))
    return replace(result, key=run.path.name)
