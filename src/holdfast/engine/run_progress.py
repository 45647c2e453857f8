"""Shows how far a run is, and what was found in it so far."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.harness.core.clock import SECOND

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from holdfast.engine.live_verdicts import Violation
    from holdfast.harness.judging.parts import SoFar


class RunProgress:
    """Progress as a bar on a terminal, as a plain line now and then elsewhere."""

    EVERY_S = 5.0

    def __init__(self, *, virtual: bool) -> None:
        self._virtual = virtual
        plain = os.environ.get("CI") or os.environ.get("NO_COLOR")
        self._bar: tuple[Progress, TaskID] | None = None
        self._told_s = time.monotonic()
        if sys.stderr.isatty() and not plain:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[counts]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            # Without a total the bar moves: of the first stage only its end is known.
            stage = "simulate" if virtual else "deploy"
            self._bar = bar, bar.add_task(stage, total=None, counts="")
            bar.start()

    def __call__(self, row: Mapping[str, Any]) -> None:
        stage = row["stage"]
        if self._virtual and stage != "run":
            return  # on virtual time the other stages take milliseconds
        counts, done = "", None
        if stage == "run":
            done = min(1.0, row["t_ns"] / row["of_ns"])
            at = f"{row['t_ns'] / SECOND:.1f} of {row['of_ns'] / SECOND:g} s"
            counts = f"{at}, {row['grants']} grants, {row['faults']} faults healed"
        if self._virtual:
            stage, counts = f"simulate {done:4.0%}", f"{counts} (virtual time)"
        if self._bar is not None:
            bar, task = self._bar
            total = None if done is None else 1.0
            bar.update(task, description=stage, counts=counts, completed=done, total=total)
        elif stage != "run" and not self._virtual:
            click.echo(f"  {stage}", err=True)
        elif time.monotonic() - self._told_s >= self.EVERY_S:
            self._told_s = time.monotonic()
            click.echo(f"  {stage}  {counts}", err=True)

    def tell(self, line: str) -> None:
        """A line that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar[0].console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line, err=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar[0].stop()


def parts_told() -> Callable[[SoFar], None]:
    """Shows how far a history has been judged, now and then. With a partial verdict: what was found
    up to there stays found, unless a later part contradicts what its system declares."""
    told_s = time.monotonic()

    def tell(far: SoFar) -> None:
        nonlocal told_s
        if time.monotonic() - told_s < RunProgress.EVERY_S:
            return
        told_s = time.monotonic()
        found = "no violation" if not far.findings else f"{far.findings:,} violations"
        click.echo(
            f"  judged {far.rows:,} of at most {far.total:,} rows, to"
            f" {far.until_ns / SECOND:,.0f} s of the run: {found} so far",
            err=True,
        )

    return tell


def so_far(violation: Violation, *, ends: bool) -> str:
    """The line about a violation in a run that goes on."""
    rows = f"{violation.rows} operations"
    if violation.dropped:
        rows = f"the newest {violation.rows - violation.dropped} of {rows}"
    return (
        f"  violated at {violation.at_ns / SECOND:.3f} s, seen {violation.after_ns / SECOND:.1f} s"
        f" later in {rows}: {violation.property}: {violation.sentence}"
        f"{'; the workload ends' if ends else ''}"
    )
