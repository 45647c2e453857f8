"""The runtime of a run: its clock, its phase and its records.

On hosts that is a run directory (`host_runtime.py`), in the simulator virtual time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.harness.driver.schedule import Holders
from holdfast.harness.runs.journal import FaultRow, Mark

"""Journals of a run, one JSON object per row: the driver's stages, and the events of faults."""


class LiveHistory(Holders, Protocol):
    """The history of a run while it is recorded. `grants` and `ops` as of the last `look`."""

    @property
    def grants(self) -> int: ...

    @property
    def ops(self) -> int: ...

    def look(self) -> None:
        """Reads the rows recorded since the last call."""
        ...

    def states(self) -> Mapping[str, int]:
        """Writer -> its latest reported state (`recording.segments`)."""
        ...


class Runtime(Protocol):
    """Clock, phase and records of one run.

    now       the clock of the run, ns
    environ   variables that mark every process of the run
    """

    @property
    def now(self) -> Callable[[], int]: ...

    @property
    def live(self) -> LiveHistory: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def append(self, row: FaultRow | Mark) -> None:
        """Adds a row to its journal."""
        ...

    def set_phase(self, phase: int) -> None:
        """Reports the phase of the run to all of its processes."""
        ...

    def problems(self) -> Sequence[str]:
        """Problems that it noticed: why the history is incomplete or not repeatable."""
        ...

    def close(self) -> None: ...
