"""Shows how far a run is, and what was found in it so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.harness.core.clock import SECOND
from holdfast.reports.text.progress import Progress, on_terminal


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
