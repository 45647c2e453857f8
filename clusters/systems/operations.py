"""What operators can do to the servers of most systems, as the port `Operated` declares it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.harness.core.fault_traits import (
    COMPACT,
    COPY,
    DEFRAGMENT,
    FORCE,
    HANDOVER,
    REPLACE,
    RESTART,
    SNAPSHOT,
    UPGRADE,
)
from holdfast.harness.core.ports import Node

NO_SNAPSHOT = "it has no snapshot command here: use via=copy"
ONE_SERVER = "it has one server, so no other member can remove it"
ONE_LEADER = "it has one server, so no other can lead"
NO_LEADER = "its servers do not know each other: none of them leads"
NO_MAINTENANCE = "its servers have no such command"
NOT_REPLACED = "Holdfast does not add a replica to its configuration"
ONE_RELEASE = "no second release of its servers can be had"
OWN_RELEASE = "its servers are part of Holdfast, so there is one release of them"
EMULATED = "its server is an emulator, whose releases say nothing about the service"
FAILOVERS = (HANDOVER, FORCE)
IN_MEMORY = "its servers keep everything in memory, so there is nothing to back up"


class KeepsFiles:
    """Mixin of a System whose servers keep their state in data/<node> of the run's folder.

    no_members    why a member cannot be removed and added
    no_failover   why no other server can be made the leader
    no_release    why its servers cannot be started with another release
    """

    no_members = ONE_SERVER
    no_failover = ONE_LEADER
    no_release = ONE_RELEASE

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: copies and restarts, and nothing else."""
        return {
            COPY: "",
            RESTART: "",
            SNAPSHOT: NO_SNAPSHOT,
            REPLACE: self.no_members,
            UPGRADE: self.no_release,
            **dict.fromkeys(FAILOVERS, self.no_failover),
            **dict.fromkeys((COMPACT, DEFRAGMENT), NO_MAINTENANCE),
        }

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        """Nothing: every write goes to a file."""

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """None: it reports no number of its state."""
        return None


class InMemory(KeepsFiles):
    """Mixin of a System whose servers lose everything when they stop."""

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: restarts only."""
        refused = dict.fromkeys((COPY, SNAPSHOT), IN_MEMORY)
        return {**super().operations(options), **refused}


class Replicated(KeepsFiles):
    """Mixin of a System with replicas that an operator can promote.

    promoted_by   HANDOVER and FORCE -> why it refuses that, "" if it supports it
    """

    no_members = NOT_REPLACED
    promoted_by: Mapping[str, str] = MappingProxyType({HANDOVER: "", FORCE: ""})

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: copies, restarts and failovers."""
        return {**super().operations(options), **self.promoted_by}
