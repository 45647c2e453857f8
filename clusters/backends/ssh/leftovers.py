"""Leftovers of a run without a driver on its hosts: found by its folder, removed by its label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.clusters.backends.ssh.connect import Connection
from holdfast.clusters.backends.ssh.host_channel import Line
from holdfast.clusters.backends.ssh.hosts_file import Host, Hosts, from_manifest, root_of
from holdfast.clusters.backends.ssh.remote_host import STEWARD
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.runs import registry
from holdfast.harness.runs.registry import Leftover


def hosts_of(run_dir: Path) -> Hosts | None:
    """The hosts of a run, as its manifest names them; None for a run without hosts."""
    try:
        table = json.loads((run_dir / "manifest.json").read_bytes()).get("hosts")
        return from_manifest(table) if table else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find(hosts: Hosts, label: str) -> Iterator[tuple[Host, str]]:
    """Each host with a folder of this run, or that cannot be queried; with why, "" if it can."""
    for host in hosts.hosts:
        try:
            connection = Connection(host, hosts.known_hosts)
        except EnvironmentFailed as error:
            yield host, str(error)
            continue
        try:
            if connection.exists(root_of(host.folder, label)):
                yield host, ""
        finally:
            connection.close()


def sweep(host: Host, known_hosts: str, label: str) -> None:
    """Kills what the run left on a host and removes its folder; EnvironmentFailed if that fails."""
    root = root_of(host.folder, label)
    connection = Connection(host, known_hosts)
    try:
        if not connection.exists(root):
            return
        path = [f"PYTHONPATH={root}/code.zip", "PYTHONDONTWRITEBYTECODE=1"]
        words = ["env", *path, host.python, "-S", "-P", "-m", STEWARD, "--sweep", label, root]
        Line(connection, words).close()
    finally:
        connection.close()


def sweep_quietly(host: Host, known_hosts: str, label: str) -> None:
    """The same for a host that may be unreachable; `doctor --clean` finds what is left."""
    with suppress(EnvironmentFailed):
        sweep(host, known_hosts, label)


class OfHosts:
    """Implements `Source`: processes and folders of ended runs on the hosts of their manifests."""

    kinds = ("host",)
    here = False

    def find(self, notes: Sequence[registry.Noted], within_s: float) -> Iterable[Leftover]:
        """Hosts with leftovers, or that cannot be queried. Unregisters a run that has none."""
        for run in notes:
            hosts = hosts_of(Path(run.run_dir)) if not run.alive else None
            if hosts is None:
                continue
            left = list(find(hosts, run.label))
            for host, problem in left:
                text = f"cannot be reached: {problem}" if problem else "has processes or files"
                yield Leftover(
                    kind="host",
                    id=f"{run.run_dir}:{host.name}",
                    label=run.label,
                    text=f"{host.name} {text}",
                )
            if not left:
                registry.forget(run.run_id)

    def clean(self, leftover: Leftover) -> None:
        """Kills and removes what its run left there. Errors: EnvironmentFailed."""
        run_dir, _, name = leftover.id.rpartition(":")
        hosts = hosts_of(Path(run_dir))
        for host in hosts.hosts if hosts is not None else ():
            if hosts is not None and host.name == name:
                sweep(host, hosts.known_hosts, leftover.label)

    def keeps(self, run: registry.Noted) -> bool:
        """If it ran on other hosts."""
        return hosts_of(Path(run.run_dir)) is not None


LEFTOVERS = OfHosts()
