"""The outputs of reports from the content of a verdicts.json, as the tests write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.engine.lenses import sections
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.verdicts.causes import with_causes
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.judged import read as read_table
from holdfast.reports.outputs import junit as junit_output
from holdfast.reports.outputs import terminal as terminal_output
from holdfast.reports.run import html, report_file
from holdfast.reports.run import story as run_story


def read(verdicts: Any) -> Judged:
    """The judged run, with the causes of its findings as the judge derives them."""
    return with_causes(read_table(verdicts), BEFORE)


def render(verdicts: Any, *rest: Any, **given: Any) -> str:
    """The HTML report."""
    run = read(verdicts)
    return html.render(run, *rest, sections=sections(run), **given)


def write(run_dir: Path, verdicts: Any, *rest: Any, **given: Any) -> Path:
    """The HTML report, written into a folder."""
    run = read(verdicts)
    return report_file.write(run_dir, run, *rest, sections=sections(run), **given)


def terminal(verdicts: Any, *, verbose: bool = True, **given: Any) -> str:
    """The report on a terminal, with its tables unless not verbose."""
    run = read(verdicts)
    return terminal_output.render(run, verbose=verbose, sections=sections(run), **given)


def junit(path: Path, verdicts: Iterable[Any], **given: Any) -> Path:
    """The JUnit file."""
    return junit_output.write(path, [read(one) for one in verdicts], **given)


def story(verdicts: Any) -> list[str]:
    """The sentences about a run."""
    return run_story.story(read(verdicts))
