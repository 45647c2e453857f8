"""The adopted nodes of the agent: their processes and networks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.nft import Namespace, NetworkFailed
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Refused

if TYPE_CHECKING:
    from holdfast.nemesis.agent.link_proxy import Proxies

Part = TypeVar("Part")


class Door(Protocol):
    """Packet filter of one node: drops and counts packets by source address."""

    @property
    def dropping(self) -> set[str]: ...

    def drop(self, sources: Iterable[str]) -> None: ...

    def admit(self, sources: Iterable[str]) -> None: ...

    def counts(self) -> dict[str, int]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Adopted:
    """An adopted node. `network` is None if it has no own network.

    unreadable  why it is not known which network its processes are in, "" if it is known
    """

    name: str
    address: str
    roots: tuple[Process, ...]
    network: Namespace | None
    unreadable: str = ""

    @property
    def without_network(self) -> str:
        """Why nothing can be done to its network."""
        if self.unreadable:
            return f"the network of {self.name} cannot be read ({self.unreadable})"
        return f"{self.name} has no own network"


class World:
    """The adopted nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Adopted] = {}
        self.proxies: Proxies | None = None
        self.fronts: dict[tuple[str, str], set[str]] = {}
        """(node, address) -> the addresses of proxies by which the node reaches it"""
        self._parts: dict[object, object] = {}

    def part(self, kind: Callable[[World], Part]) -> Part:
        """The one object of a class that several kinds of fault share, made with this world."""
        if kind not in self._parts:
            self._parts[kind] = kind(self)
        return cast("Part", self._parts[kind])

    def node(self, name: str) -> Adopted:
        """An adopted node. Errors: Refused."""
        if name not in self.nodes:
            known = ", ".join(self.nodes) or "none"
            raise Refused(f"node {name!r} is not adopted (adopted: {known}); send adopt first")
        return self.nodes[name]

    def adopt(self, name: str, pid: int, address: str, pids: Iterable[int]) -> Adopted:
        """Adopts a node, again after a restart. Errors: Refused."""
        roots = []
        for number in pids:
            process = processes.find(number)
            if process is None:
                raise Refused(f"adopt {name}: process {number} has exited; restart it first")
            roots.append(process)
        if os.getpid() in (process.pid for process in processes.tree(roots)):
            raise Refused(
                f"adopt {name}: the fault agent descends from these processes; adopt only nodes"
            )
        unreadable = ""
        try:
            network = self._network(name, pid)
        except PermissionError as error:
            # Of another user's process, without CAP_SYS_PTRACE: it can be paused and killed.
            network, unreadable = None, str(error.strerror)
        self.nodes[name] = Adopted(
            name=name, address=address, roots=tuple(roots), network=network, unreadable=unreadable
        )
        return self.nodes[name]

    def _network(self, name: str, pid: int) -> Namespace | None:
        """The network namespace of a process: the open one if equal, None if it is ours.

        Errors: Refused; PermissionError if this process may not look.
        """
        old = self.nodes[name].network if name in self.nodes else None
        try:
            if old and os.stat(f"/proc/{pid}/ns/net").st_ino == old.inode:
                return old
            network = Namespace(pid)
        except PermissionError:
            if old:
                old.close()
            raise
        except OSError as error:
            raise Refused(f"adopt {name}: network of process {pid}: {error.strerror}") from error
        if old:
            old.close()
        if network.is_ours:
            return None
        for other in self.nodes.values():
            if other.name != name and other.network and other.network.inode == network.inode:
                raise Refused(f"adopt {name}: shares the network of {other.name}; give it its own")
        try:
            network.open()
        except NetworkFailed as error:
            raise Refused(f"adopt {name}: {error}") from error
        return network

    def link(self, src: str, dst: str, listen: str, to: str, ports: list[int]) -> None:
        """Opens the proxy of a directed link. Errors: Refused."""
        # Only a world of proxies pays for loading asyncio.
        from holdfast.nemesis.agent.link_proxy import Proxies

        self.proxies = self.proxies or Proxies()
        self.proxies.add(src, dst, listen, to, ports)
        self.fronts.setdefault((src, to), set()).add(listen)

    def door(self, name: str) -> Door | None:
        """The packet filter of a node, or None."""
        node = self.node(name)
        if node.network or not self.proxies:
            return node.network
        return self.proxies.gate(name, {n.address: n.name for n in self.nodes.values()})

    def cuttable(self, name: str) -> Door:
        """The packet filter of a node. Errors: Refused if it has none."""
        door = self.door(name)
        if door:
            return door
        raise Refused(
            f"cut: {self.node(name).without_network} and no proxy;"
            " give each node a network namespace, or send proxy first"
        )

    def up(self, names: Iterable[str]) -> list[str]:
        """Those of the nodes that have a live process; all if none has.

        Another fault may have killed some of them: that is no reason to leave the others alone.
        """
        names = list(names)
        return [name for name in names if self.living(name)] or names

    def living(self, name: str) -> list[Process]:
        """All live processes of a node, parents first."""
        return processes.tree(self.node(name).roots)
