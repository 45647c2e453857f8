"""What a simulated run has left, for a judge: in files, or in this process."""

from __future__ import annotations

from holdfast.clusters.backends.sim.run import Simulated
from holdfast.harness.history.reader import Written
from holdfast.harness.recording.segments import write_closed
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir


def keep(simulated: Simulated, run: RunDir) -> None:
    """Write what a run on hosts would have left in its run directory."""
    for recorder in simulated.recorders:
        write_closed(run.history, recorder.meta, recorder.strings, recorder.packed())
    for row in simulated.marks:
        directory.append(run.times, row)
    for row in simulated.faults:
        directory.append(run.faults, row)


def written(simulated: Simulated) -> list[Written]:
    """The same for a judge in this process."""
    return [
        Written(meta=recorder.meta, strings=recorder.strings, rows=recorder.packed())
        for recorder in simulated.recorders
    ]
