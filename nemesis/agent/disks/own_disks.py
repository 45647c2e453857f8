"""The nodes' own disks, as a part of the fault agent: it gives them, and thaws those of before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from holdfast.nemesis.agent.disks import loop_mount, node_disk
from holdfast.nemesis.agent.disks.node_disk import NodeDisk
from holdfast.nemesis.agent.halves import Part
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import MISSING, Args, Form


class OwnDisks(Part):
    """Node -> its disk."""

    forms: ClassVar[Mapping[str, Form]] = {
        "disk": Form(
            says="Gives a node a disk of its own: ext4 in memory, mounted at `path`, an absolute"
            " path. The agent must be in a mount namespace of the run; what is mounted ends with"
            " it.",
            takes={
                "node": ("a name", MISSING),
                "path": ("a name", MISSING),
                "bytes": ("a whole number", MISSING),
            },
        ),
        "sync_disks": Form(
            says="Makes everything durable that is on the disks of the nodes by now."
        ),
    }

    def __init__(self, _: World) -> None:
        self.of: dict[str, NodeDisk] = {}

    def answer(self, do: str, args: Args) -> Evidence:
        """Gives a disk, or syncs all. Errors: Refused, OSError."""
        if do == "disk":
            return self._give(**args)
        for disk in self.of.values():
            loop_mount.sync(disk.at)
        return {"disks": len(self.of)}

    def recover(self) -> Evidence:
        """Thaws the disks of the run that an earlier agent has mounted."""
        return {"thawed": node_disk.thaw_all(os.environ)}

    def abilities(self) -> Evidence:
        """Whether a node can have a disk here, or why not."""
        return {"disk": node_disk.unsupported() or True}

    def _give(self, node: str, path: str, bytes: int) -> Evidence:
        if node in self.of:
            raise Refused(f"disk: {node} has a disk already")
        if not os.path.isabs(path) or bytes < node_disk.LEAST:
            raise Refused(f"disk: needs an absolute path and at least {node_disk.LEAST} bytes")
        if node_disk.shares_mounts():
            raise Refused("disk: this agent has no mount namespace of its own")
        disk = NodeDisk(at=Path(path), size=bytes)
        disk.open()
        self.of[node] = disk
        return {"free bytes": disk.free()}
