"""The clock, phase and records of a run on hosts: this host's clock and the run directory."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import no_space
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.ports import Backend, Distant, Place
from holdfast.harness.history.live import Live
from holdfast.harness.recording.phase import Phase
from holdfast.harness.runs import directory, registry
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.journal import FaultRow, Mark


class HostRuntime:
    """`Runtime` in a run directory, on the clock of this host. It registers the run."""

    now = staticmethod(now_ns)

    def __init__(self, place: Place, backend: Backend) -> None:
        run = RunDir(place.run_dir)
        distant = backend if isinstance(backend, Distant) else None
        self.environ = registry.environ(place.label)
        self.live = Live(run.history, distant.shift_ns) if distant else Live(run.history)
        self._run_id = place.run_id
        self._journals = {Mark: run.times, FaultRow: run.faults}
        registry.note(place.run_id, run_dir=place.run_dir, label=place.label)
        self._phase = Phase.create(run.phase)
        self._distant = distant

    def append(self, row: FaultRow | Mark) -> None:
        """One JSON line, in one write; EnvironmentFailed if the disk is full."""
        try:
            directory.append(self._journals[type(row)], plain(row))
        except OSError as error:
            if full := no_space(error):
                raise full from error
            raise

    def set_phase(self, phase: int) -> None:
        """One byte in a mapped file, and a message to every distant host."""
        self._phase.set(phase)
        if self._distant is not None:
            self._distant.tell_phase(phase)

    def problems(self) -> Sequence[str]:
        """Returns nothing: on hosts the driver itself finds the problems."""
        return ()

    def close(self) -> None:
        """Closes the phase file and removes the run from the registry."""
        self._phase.close()
        registry.forget(self._run_id)
