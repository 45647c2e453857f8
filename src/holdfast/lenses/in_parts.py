"""Judging in parts: a history that does not fit in memory, and how far it has been judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast import catalogue
from holdfast.harness.core.case import Checker
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.judging import parts
from holdfast.harness.judging.parts import MOST_ROWS, SoFar
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.text.progress import Progress


def judge_in_parts(
    run: RunDir, manifest: Manifest, checkers: Mapping[str, Checker], rows: int
) -> Judged:
    """The judged run. rows: of a part; 0: as many as about 600 MiB hold."""
    across, rows = load(catalogue.ACROSS_PARTS), rows or MOST_ROWS
    with Progress("judged", "rows", violations=0) as far:
        return parts.judge_in_parts(run, manifest, checkers, across, rows, tell=_shown(far))


def _shown(far: Progress) -> Callable[[SoFar], None]:
    """Shows how far a history has been judged. With a partial verdict: what was found up to there
    stays found, unless a later part contradicts what its system declares."""

    def tell(part: SoFar) -> None:
        note = f"to {part.until_ns / SECOND:,.0f} s of the run"
        far.update(part.rows, total=part.total, violations=part.findings, note=note)

    return tell
