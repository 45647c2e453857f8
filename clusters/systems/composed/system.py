"""Driver side of a cluster that a user describes in a compose file, with a client of the user.

`holdfast.clusters.systems.composed.system:JSON` is the System of a table in JSON whose `services`
are those of the file.

Promises: those in the table's `promises`; by default those of any lock
Does not promise: anything else
Tested with: a Redis Sentinel of five services and an etcd of three
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from holdfast.clusters.systems.composed.compose_file import read, waves
from holdfast.clusters.systems.composed.service import BuildOf, Service, Volume
from holdfast.clusters.systems.program.system import ProgramSystem
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Build, Command, Image, Leader, Mount, Node, Place
from holdfast.harness.runs.directory import RunDir

READY_NS = 60 * SECOND
"""A service may copy the state of another first, or elect a leader."""
BUILT = "holdfast-compose-{}"


class ComposedSystem(ProgramSystem):
    """A System for one table with the services of its compose file."""

    confined_because = "starts the services of a compose file, in containers"
    ready_within_ns = READY_NS

    def __init__(self, table: Mapping[str, Json]) -> None:
        super().__init__(table)
        self.services = msgspec.convert(table["services"], tuple[Service, ...])
        self._folder = Path(str(table["compose"])).parent
        self.backends = ("docker",)
        self.nodes = len(self.services)
        listed = [port for service in self.services for port in service.ports]
        self.ports = self.ports or tuple(dict.fromkeys(listed))
        mounted = [v.file for one in self.services for v in one.volumes if v.file]
        self.mounted = [str(self._folder / file) for file in dict.fromkeys(mounted)]
        """files and folders of the user that the services mount"""
        self.files = tuple(dict.fromkeys((*self.files, *self.mounted)))
        node_of = {one.name: f"n{n}" for n, one in enumerate(self.services, 1)}
        self.server_names = {node_of[one.name]: one.aliases for one in self.services}
        self.waves = [
            ([node_of[name] for name in ready], [node_of[name] for name in starts])
            for ready, starts in waves(self.services)
        ]
        self._service = {node_of[one.name]: one for one in self.services}

    def evidence(self, options: Mapping[str, str]) -> str:
        """What this lock is, and which node is which service."""
        nodes = ", ".join(f"{node} is {one.name}" for node, one in self._service.items())
        return f"{super().evidence(options)}; of {self._table['compose']}: {nodes}"

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The service of a node, with folders of the run as its volumes."""
        service = self._service[node.name]
        mounts = tuple(
            self._mount(volume, n, node, place) for n, volume in enumerate(service.volumes)
        )
        return Command(
            argv=service.command,
            log=place.run_dir / "logs" / node.name / "server.log",
            env=dict(service.env),
            image=Image(
                name=service.image or BUILT.format(service.name.lower()),
                mounts=mounts,
                build=self._build(service.build),
                entrypoint=service.entrypoint,
                folder=service.folder,
                user=service.user,
                tmpfs=service.tmpfs,
                own_rights=True,
                health=service.health,
            ),
        )

    def _mount(self, volume: Volume, number: int, node: Node, place: Place) -> Mount:
        if volume.file:
            source = RunDir(place.run_dir).program / self._folder / volume.file
            return Mount(source=source, at=volume.at)
        data = place.run_dir / "data" / node.name / (volume.name or f"volume-{number}")
        data.mkdir(parents=True, exist_ok=True)
        # The service may have a user of its own, as the owner of a volume of its image has. Other
        # users of this host do not get through to it.
        data.parent.chmod(0o700)
        data.chmod(0o777)
        return Mount(source=data, at=volume.at, writable=True)

    def _build(self, build: BuildOf | None) -> Build | None:
        if build is None:
            return None
        folder = Path(str(self._table["base"])) / self._folder / build.folder
        return Build(folder=folder, dockerfile=build.dockerfile, args=build.args, stage=build.stage)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether it listens on its first port; one with a health test, or without a port that the
        file names, is ready without that."""
        service = self._service[node.name]
        if service.health or not service.ports:
            return True
        return await self.responds(node, {"port": service.ports[0]})

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The first server with the leader's response; None if the table has no check."""
        if "leader" not in self._table:
            return None
        return await super().leader(servers, options)


def described(table: Mapping[str, Json], base: Path, where: str) -> dict[str, Json]:
    """A table, with the services of its compose file. UsageError lists all errors of both.

    base  the folder of the table's file
    """
    name = str(table["compose"])
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UsageError(f"{where}: [system]: compose: expected a path below the table's folder")
    services = read(base / name)
    return {**table, "base": str(base.resolve()), "services": [asdict(one) for one in services]}


def __getattr__(name: str) -> ComposedSystem:
    """The System of a table written as JSON."""
    if not name.startswith("{"):
        raise AttributeError(name)
    return ComposedSystem(json.loads(name))
