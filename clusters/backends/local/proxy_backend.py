"""The local-proxy backend: nodes on loopback addresses, every directed link through a proxy.

For machines that do not permit network namespaces. A node listens on its own address; each other
node gets a different address for it, on which the fault agent listens and forwards, so that one
link can be cut and not the rest. Only traffic over those links can be cut, and a cut link accepts
new connections and lets them hang, while a network would not respond at all.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypedDict

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.children import Children
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.runs import registry

MOST_NODES = 250
BLOCKS = 254


class Link(TypedDict):
    """One link, in the format of the fault agent's `proxy` request: src reaches dst at `listen`."""

    src: str
    dst: str
    listen: str
    to: str
    ports: list[int]


def precheck() -> str | None:
    """Why this machine cannot run this backend, or None."""
    if shutil.which("setpriv") is None:
        return "local-proxy needs the command setpriv (package util-linux)"
    return None


class LocalProxyBackend:
    """`Backend`, `Namespaces` and `Vantage` without any privilege.

    Two runs share no address: each takes one of the blocks 127.A.0.0/16, A from 1 to 254. In it,
    node i is 127.A.0.i, and node i reaches node j at 127.A.i.j.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._children = Children(place)
        self._nodes: list[Node] = []
        self._claim: socket.socket | None = None
        self._block = 0

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Gives each node a loopback address; EnvironmentFailed if there is none left."""
        if len(nodes) > MOST_NODES:
            raise EnvironmentFailed(
                f"local-proxy: {len(nodes)} nodes; at most {MOST_NODES} are supported"
            )
        self._claim, self._block = _claim_block(self._place.label)
        self._nodes = [
            replace(node, address=self._address(0, n), python=sys.executable)
            for n, node in enumerate(nodes, 1)
        ]
        return list(self._nodes)

    async def start(self, node: str, command: Command) -> int:
        """Starts the command, and returns its pid after its last exec.

        It runs in the folder of its log. Raises EnvironmentFailed if it cannot be started.
        """
        return await self._children.start(command, where=f"local-proxy: {node}")

    def agent_argv(self) -> Sequence[str]:
        """The fault agent is a child of the driver."""
        return [sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"]

    def holder_pid(self, node: str) -> int:
        """Our own pid: all nodes share the namespace of their driver."""
        return os.getpid()

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes as `node` reaches them: itself directly, each other one through a proxy."""
        i = self._number(node)
        return [
            known if i == j else replace(known, address=self._address(i, j))
            for j, known in enumerate(self._nodes, 1)
        ]

    def proxy_links(self, ports: Sequence[int]) -> list[Link]:
        """The links that the fault agent has to forward, to these TCP ports of every node."""
        return [
            Link(
                src=source.name, dst=seen.name, listen=seen.address, to=node.address,
                ports=list(ports),
            )
            for source in self._nodes
            for node, seen in zip(self._nodes, self.seen_from(source.name), strict=True)
            if seen is not node
        ]  # fmt: skip

    async def close(self) -> None:
        """Kills every process of the run, also a fault agent with its marks; frees the
        addresses."""
        await self._children.end(self._marked)
        if self._claim is not None:
            self._claim.close()
        self._claim, self._nodes = None, []

    def _marked(self) -> Iterable[int]:
        """Every process with the marks of our run, or working in its folder."""
        wanted = registry.environ(self._place.label).items()
        folder = self._place.run_dir
        return [
            pid
            for pid in processes.pids()
            if processes.environ(pid).items() >= wanted or processes.works_in(pid, folder)
        ]

    def _address(self, i: int, j: int) -> str:
        return f"127.{self._block}.{i}.{j}"

    def _number(self, node: str) -> int:
        return next(n for n, known in enumerate(self._nodes, 1) if known.name == node)


def _claim_block(label: str) -> tuple[socket.socket, int]:
    """An exclusive block of addresses: the kernel frees its name when the socket is closed."""
    first = zlib.crc32(label.encode())
    for n in range(BLOCKS):
        block = 1 + (first + n) % BLOCKS
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0holdfast-loopback-{block}")
        except OSError:
            claim.close()
        else:
            return claim, block
    raise EnvironmentFailed(f"local-proxy: all {BLOCKS} blocks of addresses are in use")
