"""Shows how far a run is, and what was found in it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.harness.core.clock import SECOND
from holdfast.reports.text.progress import Progress, on_terminal

if TYPE_CHECKING:
    from holdfast.engine.live_verdicts import Violation
    from holdfast.harness.judging.parts import SoFar


class RunProgress:
    """Progress of one run: its stages, and how far its workload is."""

    def __init__(self, *, virtual: bool) -> None:
        self._virtual = virtual
        self._far = Progress("simulate" if virtual else "deploy", "s")

    def __call__(self, row: Mapping[str, Any]) -> None:
        stage = row["stage"]
        if self._virtual and stage != "run":
            return  # on virtual time the other stages take milliseconds
        if stage != "run":
            if not on_terminal():
                self._far.say(f"  {stage}")
            self._far.update(action=stage)
            return
        note = f"{row['grants']} grants, {row['faults']} faults healed"
        note += " (virtual time)" if self._virtual else ""
        done_s, of_s = row["t_ns"] / SECOND, row["of_ns"] / SECOND
        action = "simulate" if self._virtual else "run"
        self._far.update(min(done_s, of_s), action=action, total=of_s, note=note)

    def tell(self, line: str) -> None:
        """A line that stays, above the bar if there is one."""
        self._far.say(line)

    def close(self) -> None:
        """Remove the line of a terminal."""
        self._far.close()


def parts_told(far: Progress) -> Callable[[SoFar], None]:
    """Shows how far a history has been judged. With a partial verdict: what was found up to there
    stays found, unless a later part contradicts what its system declares."""

    def tell(part: SoFar) -> None:
        note = f"to {part.until_ns / SECOND:,.0f} s of the run"
        far.update(part.rows, total=part.total, violations=part.findings, note=note)

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
