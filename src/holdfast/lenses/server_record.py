"""Server records: which systems have one, and what it says beside the responses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.judging.lens import Lens
from holdfast.harness.judging.server_record import compared
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.recording.server_record import KeepsRecord
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section
from holdfast.reports.run import server_record

if TYPE_CHECKING:
    from holdfast.planning.resolve import Prepared


def problems(found: Prepared) -> list[str]:
    """Why the record that the plan asks for cannot be read, one line each."""
    plan, backend = found.plan, found.backend
    if not plan.server_record:
        return []
    system = found.system
    if not isinstance(system, KeepsRecord):
        library = plan.options.get("library")
        name = f"{plan.system} with the client {library}" if library else plan.system
        return [
            f"--server-record: {name} has no record that is read; systems that have one:"
            f" {', '.join(systems())}"
        ]
    if backend.virtual_time or backend.hosts_file:
        return [
            f"--server-record: the driver does not reach the servers of backend {plan.backend}:"
            " use --backend local, local-proxy or docker"
        ]
    why = system.unrecorded(found.options)
    return [f"--server-record: {plan.system}: {why}"] if why else []


def systems() -> list[str]:
    """The built-in systems whose servers keep a record that is read."""
    return [name for name in catalogue.SYSTEMS if _keeps_record(name)]


def _keeps_record(name: str) -> bool:
    return isinstance(load(user_system.row(name).entry), KeepsRecord)


class ServerRecords(Lens):
    """Compares what the servers recorded; it is evidence of its own kind, and counts nowhere."""

    def of_case(self, run: RunDir, manifest: Manifest, judged: Judged, case: Case) -> Judged:
        """With the comparison, if the run has such a record."""
        return replace(judged, server_record=compared(run, case))

    def section(self, judged: Judged) -> Section | None:
        """What was compared, how much of it, and what differs."""
        record = judged.server_record
        return None if record is None else server_record.section(judged, record)


SERVER_RECORDS = ServerRecords()
