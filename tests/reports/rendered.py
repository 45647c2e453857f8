"""The outputs of reports from the content of a verdicts.json, as the tests write it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.harness.verdicts.judged import read
from holdfast.reports.outputs import junit as junit_output
from holdfast.reports.outputs import terminal as terminal_output
from holdfast.reports.run import html
from holdfast.reports.run import story as run_story


def render(verdicts: Any, *rest: Any, **given: Any) -> str:
    """The HTML report."""
    return html.render(read(verdicts), *rest, **given)


def write(run_dir: Path, verdicts: Any, *rest: Any, **given: Any) -> Path:
    """The HTML report, written into a folder."""
    return html.write(run_dir, read(verdicts), *rest, **given)


def terminal(verdicts: Any, **given: Any) -> str:
    """The report on a terminal."""
    return terminal_output.render(read(verdicts), **given)


def junit(path: Path, verdicts: Iterable[Any], **given: Any) -> Path:
    """The JUnit file."""
    return junit_output.write(path, [read(one) for one in verdicts], **given)


def story(verdicts: Any) -> list[str]:
    """The sentences about a run."""
    return run_story.story(read(verdicts))
