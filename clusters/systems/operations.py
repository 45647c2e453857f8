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
    OPERATIONS,
    REPLACE,
    RESTART,
    SNAPSHOT,
    UPGRADE,
)
from holdfast.harness.core.ports import Node

NO_SNAPSHOT = "it has no snapshot command here: use via=copy"
ONE_SERVER = "it has one server, so no other member can remove it"
NO_HANDOVER = "it has no command that moves the leader"
NO_MAINTENANCE = "its servers have no such command"
NOT_BUILT = "not built for its replicas"
ONE_RELEASE = "no second release of its servers can be had"
IN_MEMORY = "its servers keep everything in memory, so there is nothing to back up"


class KeepsFiles:
    """Mixin of a System whose servers keep their state in data/<node> of the run's folder.

    no_members   why a member cannot be removed and added
    """

    no_members = ONE_SERVER

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: copies and restarts, and nothing else."""
        return {
            COPY: "",
            RESTART: "",
            SNAPSHOT: NO_SNAPSHOT,
            REPLACE: self.no_members,
            UPGRADE: ONE_RELEASE,
            **dict.fromkeys((HANDOVER, FORCE), NO_HANDOVER),
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
        refused = dict.fromkeys((COPY, SNAPSHOT, REPLACE), IN_MEMORY)
        return {**super().operations(options), **refused}


class Replicated(KeepsFiles):
    """Mixin of a System with replicas that an operator can promote, and nothing else so far.

    promoted_by   HANDOVER and FORCE -> why it refuses that, "" if it supports it
    """

    promoted_by: Mapping[str, str] = MappingProxyType({HANDOVER: "", FORCE: ""})

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: failovers only."""
        return {**dict.fromkeys(OPERATIONS, NOT_BUILT), **self.promoted_by}
