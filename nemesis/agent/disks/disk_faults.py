"""Faults of a node's own disk: power loss, hang, no space, syncs reported and not made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.disks import loop_mount
from holdfast.nemesis.agent.disks.node_disk import NodeDisk
from holdfast.nemesis.agent.disks.own_disks import OwnDisks
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, FaultClaims, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.agent.signals import Kills
from holdfast.nemesis.agent.tracing.system_calls import SystemCalls

THAW = ("-S", "-P", "-m", "holdfast.nemesis.agent.disks.thaw_at_exit")
FROZEN_AT = "percpu"
"""In the name of the kernel's function where writes to a frozen filesystem sleep,
`percpu_rwsem_wait` since Linux 5.6. A parent of vfork(2) and a reader of another disk sleep too.
"0" is no evidence: a kernel that hides names says so, and of a thread that has just gone on too."""
END_NS = 1_000_000_000
"""Time for a process that was killed while it waited for a disk to exit once it is thawed."""


def disks(world: World, do: str, nodes: Iterable[str]) -> dict[str, NodeDisk]:
    """The disks of nodes. Errors: Refused if one has none, OSError if one is not mounted."""
    own = world.part(OwnDisks).of
    without = [node for node in nodes if node not in own]
    if without:
        raise Refused(f"{do}: {'+'.join(without)} has no disk of its own; send disk first")
    disk_of = {node: own[node] for node in nodes}
    for disk in disk_of.values():
        loop_mount.require(disk.at)
    return disk_of


class Power:
    """Faults of kind `power`: what was not synced is lost; the driver starts the nodes again.

    The disks lose power while all nodes are stopped, so no response depends on a failed write.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._kills = world.part(Kills)
        self._lost: dict[str, Evidence] = {}

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Cuts the power of `nodes`, kills their processes, mounts their disks.

        Errors: Refused, OSError; both before anything is done.
        """
        nodes = _nodes(args)
        mounted = disks(self._world, "power", nodes)
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"power {'+'.join(nodes)}: no live process; restart it first")
        for node in nodes:
            processes.stop(self._world.node(node).roots)
        times: list[int] = []
        try:
            for disk in mounted.values():
                # A disk that kept its power is told by `shut`: the nodes have stopped already.
                with suppress(OSError):
                    times += disk.cut()
            shut = {node: loop_mount.is_shut_down(disk.at) for node, disk in mounted.items()}
            # A process that waits for a frozen disk cannot be killed.
            frozen = [node for node, disk in mounted.items() if loop_mount.thaw(disk.at)]
        finally:
            self._kills.inject(fault, args)
        for node, disk in mounted.items():
            disk.recover()
            if node in frozen:
                disk.freeze()
        self._lost[fault] = {
            "cut_ns": [min(times), max(times)] if times else [],
            "shut down": {**shut},
        }
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Effective if the kernel had shut down every filesystem and all processes are gone."""
        lost = self._lost.get(fault, {})
        shut = lost.get("shut down") or {}
        killed = self._kills.observe(fault)
        assert isinstance(shut, dict)
        return {
            **killed,
            **lost,
            "effective": bool(killed["effective"] and shut and all(shut.values())),
        }

    def heal(self, fault: str) -> Evidence:
        """Returns the nodes to `restart`."""
        evidence = self.observe(fault)
        self._lost.pop(fault, None)
        return {**evidence, "restart": self._kills.heal(fault)["restart"]}

    def settle(self, node: str) -> None:
        """Nothing: a restarted node has its disk again."""


class SyncLie:
    """Faults of kind `sync-lie`: syncs are reported and not made, then the power is lost."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._power = world.part(Power)
        self._calls = SystemCalls(world, "sync-lie")

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Skips every sync of `nodes` from now on. Errors: Refused, OSError."""
        disks(self._world, "sync-lie", _nodes(args))
        return self._calls.inject(fault, args)

    def observe(self, fault: str) -> Evidence:
        """The syncs that were skipped; no effect before the power is lost."""
        return {**self._calls.observe(fault), "effective": False}

    def heal(self, fault: str) -> Evidence:
        """Cuts the power, which is an effect whether or not a sync had been skipped. Returns the
        nodes to `restart`."""
        skipped = self._calls.observe(fault)
        nodes = list(self._calls.traced(fault))
        try:
            self._power.inject(fault, {"nodes": nodes})
            lost = self._power.heal(fault)
        except (Refused, OSError) as error:
            dead = [node for node in nodes if not self._world.living(node)]
            lost = {"effective": False, "problem": str(error), "restart": dead}
        finally:
            self._calls.heal(fault)
        return {**skipped, **lost}

    def settle(self, node: str) -> None:
        """Nothing: a node that was started again is not traced."""


class DiskHang:
    """Faults of kind `disk-hang`: whatever writes waits until the heal, or the agent's end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[str] = FaultClaims()
        self._times: dict[str, list[int]] = {}
        self._thawing: subprocess.Popen[bytes] | None = None

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Freezes the disks of `nodes`. Errors: Refused, OSError."""
        mounted = disks(self._world, "disk-hang", _nodes(args))
        self._guard()
        free = [node for node in mounted if not self._claims.claimants(node)]
        with ExitStack() as undo:
            for node in free:
                mounted[node].freeze()
                undo.callback(mounted[node].thaw)
            undo.pop_all()
        self._claims.claim(fault, _nodes(args))
        self._times[fault] = [time.clock_gettime_ns(time.CLOCK_BOOTTIME)]
        return self.observe(fault)

    def _guard(self) -> None:
        """Starts the process that thaws all disks if this agent is killed."""
        if self._thawing is None:
            folders = [str(disk.at) for disk in self._world.part(OwnDisks).of.values()]
            self._thawing = subprocess.Popen(
                [sys.executable, *THAW, *folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def observe(self, fault: str) -> Evidence:
        """The threads that wait for a frozen disk; effective if there is one."""
        waiting = {
            node: sum(
                FROZEN_AT in where
                for process in self._world.living(node)
                for where in processes.sleeps(process)
            )
            for node in self._claims.of(fault)
        }
        return {"effective": any(waiting.values()), "waiting": {**waiting}}

    def heal(self, fault: str) -> Evidence:
        """Thaws disks that no other fault hangs; `restart` names the nodes that have died."""
        evidence = self.observe(fault)
        begun = self._times.pop(fault, [])
        evidence["frozen_ns"] = [*begun, time.clock_gettime_ns(time.CLOCK_BOOTTIME)]
        nodes = self._claims.release(fault)
        for node in nodes:
            if not self._claims.claimants(node):
                with suppress(OSError):
                    self._world.part(OwnDisks).of[node].thaw()
        return {**evidence, "restart": _ended(self._world, nodes)}

    def settle(self, node: str) -> None:
        """Nothing: a disk stays as it is when its node is started again."""


class DiskFull:
    """Faults of kind `disk-full`: a file without a name takes all free space until the heal."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[str] = FaultClaims()

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Fills the disks of `nodes`. Errors: Refused, OSError."""
        nodes = _nodes(args)
        disks(self._world, "disk-full", nodes)
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"disk-full {'+'.join(nodes)}: no live process; restart it first")
        self._claims.claim(fault, nodes)
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """The free bytes of each disk; effective if the kernel refuses all of them a block, which
        it does not yet where a write waits because the disk hangs."""
        mounted = {node: self._world.part(OwnDisks).of[node] for node in self._claims.of(fault)}
        free: dict[str, Json] = {node: disk.free() for node, disk in mounted.items()}
        for disk in mounted.values():
            disk.fill()  # What the node has deleted meanwhile; it returns when a block is refused.
        refused = [disk.is_full for disk in mounted.values()]
        return {"effective": bool(refused) and all(refused), "free bytes": free}

    def heal(self, fault: str) -> Evidence:
        """Gives back the space that no other fault takes; `restart` names nodes that have died."""
        evidence = self.observe(fault)
        nodes = self._claims.release(fault)
        for node in nodes:
            if not self._claims.claimants(node):
                self._world.part(OwnDisks).of[node].empty()
        return {**evidence, "restart": _ended(self._world, nodes)}

    def settle(self, node: str) -> None:
        """Nothing: a disk stays as it is when its node is started again."""


def _nodes(args: Mapping[str, Json]) -> list[str]:
    nodes = args["nodes"]
    assert isinstance(nodes, list)
    return [str(node) for node in nodes]


def _ended(world: World, nodes: Iterable[str]) -> list[str]:
    """The nodes without a living process; one that was killed may need a moment to exit."""
    ended = []
    for node in nodes:
        deadline = time.monotonic_ns() + END_NS
        for process in world.living(node):
            if processes.is_killed(process):
                processes.settled(process, ("gone",), deadline)
        if not world.living(node):
            ended.append(node)
    return ended


POWER = Half(
    request="power",
    form=Form(
        says="Power loss of the nodes: what was not synced to their disks is lost, then SIGKILL to"
        " all their processes. Each node needs a disk.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=lambda world: world.part(Power),
)
SYNC_LIE = Half(
    request="sync-lie",
    form=Form(
        says="Reports every fsync and fdatasync of the nodes as done without making it; the heal"
        " is a power loss. Each node needs a disk.",
        takes={"fault": FAULT, "nodes": NODES, "count": ("a whole number", 0)},
    ),
    make=SyncLie,
)
DISK_HANG = Half(
    request="disk-hang",
    form=Form(
        says="Freezes the disks of the nodes: every write and sync waits until the heal.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=DiskHang,
)
DISK_FULL = Half(
    request="disk-full",
    form=Form(
        says="Takes all free space of the disks of the nodes.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=DiskFull,
)
