"""What a lock under test leaves to the system whose servers it uses: all but its client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.clusters.systems.config_files import Configurable
from holdfast.harness.core.fault_traits import (
    COMPACT,
    DEFRAGMENT,
    FORCE,
    HANDOVER,
    REPLACE,
    SNAPSHOT,
    UPGRADE,
)
from holdfast.harness.core.ports import (
    Command,
    FromPackages,
    Leader,
    Node,
    Operated,
    Place,
    Prechecked,
    System,
)

OF_SERVERS = "not for a library under test; use the system without a library"


class WithoutClient:
    """A System without its client: that of `_servers`, asked with the options of `_rest`."""

    _servers: System

    def _rest(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of the servers."""
        raise NotImplementedError

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """As the servers' own system starts one."""
        return self._servers.command(node, servers, place, self._rest(options))

    def server_pins(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `FromPackages`: the packages of the servers."""
        if not isinstance(self._servers, FromPackages):
            return ()
        return self._servers.server_pins(self._rest(options))

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: those of the servers."""
        if not isinstance(self._servers, Configurable):
            return ["--config: its servers take no configuration file"]
        return self._servers.config_problems(self._rest(options))

    def precheck(self) -> str | None:
        """Why this machine cannot start the servers outside a container; None if it can."""
        return self._servers.precheck() if isinstance(self._servers, Prechecked) else None

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server responds."""
        return await self._servers.ready(node, self._rest(options))

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """As the servers' own system reports."""
        return await self._servers.leader(servers, self._rest(options))

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: what the servers support by their files alone."""
        if not isinstance(self._servers, Operated):
            return {}
        allowed = self._servers.operations(self._rest(options))
        own = (SNAPSHOT, REPLACE, UPGRADE, HANDOVER, FORCE, COMPACT, DEFRAGMENT)
        return {**allowed, **dict.fromkeys(own, OF_SERVERS)}

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        """As the servers' own system does."""
        if isinstance(self._servers, Operated):
            await self._servers.flush(server, self._rest(options))

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """As the servers' own system reports."""
        if not isinstance(self._servers, Operated):
            return None
        return await self._servers.position(server, self._rest(options))
