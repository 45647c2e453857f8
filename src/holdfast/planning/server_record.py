"""The servers' own record in a plan: which systems have one, and where it can be read."""

from __future__ import annotations

from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.harness.core.loading import load
from holdfast.harness.recording.server_record import KeepsRecord
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
