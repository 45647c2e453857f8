"""The local backend: each node is a network namespace with its own address, on one bridge.

The host's network is not changed. The whole run is started under `launch_prefix()`, so that its
driver runs in a new network namespace, the fabric, which has the bridge; each node's namespace is
held by its own process. Runs as root, or as an ordinary user if the kernel permits user namespaces.
Everything ends with its processes, and they end with the driver.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.backends import abilities, frozen_disks, processes
from holdfast.clusters.backends.children import Children
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.plans.manifest import DISK

DEFAULTS: dict[str, int] = {DISK: 0}
"""The options of this backend, whole numbers: MiB of each server's own disk, 0 for none."""
MOUNTS_VARIABLE = "HOLDFAST_MOUNTS"
"""Read by the fault agent (nemesis/agent/disks/node_disk.py)."""
OUTSIDE_VARIABLE = "HOLDFAST_OUTSIDE"
TOOLS = {"env": "coreutils", "sleep": "coreutils", "ip": "iproute2"} | dict.fromkeys(
    ("unshare", "nsenter", "setpriv"), "util-linux"
)
NETWORK, PREFIX_LENGTH, MOST_NODES = "10.77", 16, 250
CAP_NET_ADMIN, CAP_SYS_ADMIN = 1 << 12, 1 << 21
PROBE_S = 10


def launch_prefix(disks: bool = False) -> list[str]:
    """Words to put before a command line so that it runs in its own fabric.

    The command keeps its pid, folder and environment; an ordinary user appears as root in it.
    disks: also in a mount namespace, so that the disks of its nodes end with it.
    """
    mapped = [] if _privileged() else ["--user", "--map-root-user"]
    outside, own = [f"{OUTSIDE_VARIABLE}={_network()}"], ["--net"]
    if disks:
        outside.append(f"{MOUNTS_VARIABLE}={os.readlink('/proc/self/ns/mnt')}")
        own.append("--mount")
    return ["env", *outside, "unshare", *mapped, *own, "--"]


def diskless() -> str | None:
    """Why servers cannot have disks of their own on this machine, or None; takes 0.3 s."""
    if not _privileged():
        return "disks of servers need loop devices: run as root with CAP_SYS_ADMIN"
    undone = abilities.disk(launch_prefix(disks=True))
    return None if undone is None else f"disks of servers need what is missing here: {undone}"


def precheck() -> str | None:
    """Why this machine cannot run the local backend, or None; takes 0.2 s the first time.

    Tries everything that a run uses: the commands, a bridge and a veth pair in a network namespace,
    and a dropped packet, as the fault agent drops it.
    """
    for tool, package in TOOLS.items():
        if _which(tool) is None:
            return f"local needs the command {tool} (package {package})"
    unlinked = _links()
    if unlinked is not None:
        return unlinked
    undroppable = abilities.cut(launch_prefix())
    return None if undroppable is None else f"local cannot drop packets here: {undroppable}"


def _links() -> str | None:
    """Why no bridge or veth pair can be made in a network namespace, or None."""
    attempt = [*launch_prefix(), _tool("ip"), "-batch", "-"]
    links = ["link add name probe type bridge", "link add name h0 type veth peer name h1"]
    try:
        probe = subprocess.run(
            attempt, input="\n".join(links), capture_output=True, text=True, timeout=PROBE_S
        )
    except subprocess.TimeoutExpired:
        return f"local cannot create a network namespace: no response within {PROBE_S} s"
    if probe.returncode:
        reason = (probe.stderr.strip().splitlines() or ["no reason given"])[0]
        return f"local cannot create network namespaces and links here: {reason}"
    return None


class LocalBackend:
    """`Backend`, `Namespaces` and `Vantage` over network namespaces of this host."""

    def __init__(self, place: Place) -> None:
        self._nodes: list[Node] = []
        self._holders: dict[str, asyncio.subprocess.Process] = {}
        self._label = place.label
        self._children = Children(place)
        self._namespaces: dict[str, int] = {}

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Gives each node a namespace and an address; all of them reach each other and the driver.

        Raises EnvironmentFailed outside a fabric, or if the kernel does not permit it.
        """
        outside = os.environ.get(OUTSIDE_VARIABLE)
        if outside is None or outside == _network():
            raise EnvironmentFailed(
                "local: this process is not in its own network namespace; "
                "start the run with `holdfast run --backend local`"
            )
        if len(nodes) > MOST_NODES:
            raise EnvironmentFailed(
                f"local: {len(nodes)} nodes; at most {MOST_NODES} are supported"
            )
        for node in nodes:
            holder = await self._children.hold("unshare", "--net", "--", "sleep", "infinity")
            self._holders[node.name] = holder
        await asyncio.gather(*(self._isolated(node.name) for node in nodes))
        self._nodes = [
            replace(node, address=f"{NETWORK}.1.{n}", python=sys.executable)
            for n, node in enumerate(nodes, 1)
        ]
        await self._ip(
            "link set lo up",
            "link add name fabric type bridge",
            f"addr add {NETWORK}.0.1/{PREFIX_LENGTH} dev fabric",
            "link set fabric up",
            *(line for n, node in enumerate(nodes) for line in self._cable(n, node.name)),
        )
        await asyncio.gather(*(self._inside(node) for node in self._nodes))
        return list(self._nodes)

    async def start(self, node: str, command: Command) -> int:
        """Starts the command in the node's namespace and returns its pid after its last exec.

        It runs in the folder of its log. Raises EnvironmentFailed if it cannot be started.
        """
        enter = self._enter(node)
        return await self._children.start(command, where=f"local: {node}", enter=enter)

    def agent_argv(self) -> Sequence[str]:
        """The fault agent is a child of the driver, also in the fabric."""
        return [sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"]

    def holder_pid(self, node: str) -> int:
        """Pid of the process that holds the node's network namespace."""
        return self._holders[node].pid

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes; all nodes see them under the same addresses."""
        return list(self._nodes)

    async def close(self) -> None:
        """Ends every process in the nodes' namespaces, then the namespaces and the bridge."""
        # The fault agent, and the process that thaws after it, may be gone.
        frozen_disks.thaw_run(self._label)
        await self._children.end(self._inhabitants)
        if self._holders:
            links = ["fabric", *(f"h{n}" for n in range(len(self._holders)))]
            await self._ip(*(f"link del {link}" for link in links), forced=True)
        for descriptor in self._namespaces.values():
            os.close(descriptor)
        self._nodes, self._holders, self._namespaces = [], {}, {}

    def _inhabitants(self) -> Iterable[int]:
        return [pid for pid in processes.pids() if _network(pid) in self._namespaces]

    async def _isolated(self, node: str) -> None:
        """Waits until the holder of a node is in its own namespace, and keeps that open.

        An open namespace keeps its inode number. Otherwise `close` could mistake another namespace
        that reuses the number of a dead one for ours.
        """
        holder, own = self._holders[node], _network()
        await processes.until(
            lambda: _network(holder.pid) not in ("", own) or holder.returncode is not None,
            bound_ns=processes.START_NS,
            where=f"local: {node}",
            what="creating a network namespace",
        )
        if holder.returncode is not None:
            raise EnvironmentFailed(f"local: {node}: the kernel refused a network namespace")
        descriptor = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
        self._namespaces[f"net:[{os.fstat(descriptor).st_ino}]"] = descriptor

    def _cable(self, n: int, node: str) -> Sequence[str]:
        pid = self._holders[node].pid
        return (
            f"link add name h{n} type veth peer name eth0 netns {pid}",
            f"link set h{n} master fabric up",
        )

    async def _inside(self, node: Node) -> None:
        await self._ip(
            "link set lo up",
            f"addr add {node.address}/{PREFIX_LENGTH} dev eth0",
            "link set eth0 up",
            enter=self._enter(node.name),
        )

    def _enter(self, node: str) -> Sequence[str]:
        return ("nsenter", f"--net=/proc/{self._holders[node].pid}/ns/net", "--")

    async def _ip(self, *lines: str, enter: Sequence[str] = (), forced: bool = False) -> None:
        """One batch of `ip`; EnvironmentFailed if a line fails, unless it is `forced` through."""
        process = await asyncio.create_subprocess_exec(
            *enter, _tool("ip"), *(["-force"] if forced else []), "-batch", "-",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, said = await process.communicate("\n".join(lines).encode())
        if process.returncode and not forced:
            raise EnvironmentFailed(f"local: ip: {said.decode(errors='replace').strip()}")


def _network(pid: int | str = "self") -> str:
    """The network namespace of a process, as /proc names it; empty if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _privileged() -> bool:
    status = Path("/proc/self/status").read_text()
    (effective,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    wanted = CAP_NET_ADMIN | CAP_SYS_ADMIN
    return int(effective.split()[1], 16) & wanted == wanted


def _which(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")


def _tool(name: str) -> str:
    found = _which(name)
    if found is None:
        raise EnvironmentFailed(f"local: missing command {name}; install {TOOLS[name]}")
    return found
