"""The ssh backend: each node is a network namespace on one of several machines, on one network.

The n-th server, and the n-th client, is on the n-th host, round-robin; the protected resource and
the probe are on the last. A host agent on each host does what the local backend does on one; a
tunnel joins the hosts' bridges. Recordings are fetched continuously, into the same files of the run
directory as if they had been written there, with timestamps of each host's clock.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from holdfast.clusters.backends.ssh.fault_agents import Agents
from holdfast.clusters.backends.ssh.hosts_file import Hosts, from_manifest, root_of
from holdfast.clusters.backends.ssh.leftovers import sweep_quietly
from holdfast.clusters.backends.ssh.remote_host import HostLost, RemoteHost
from holdfast.harness.core import extras
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Leader, Node, Place, System
from holdfast.harness.history import host_clocks

NETWORK = "10.77"
MOST_NODES = 250
PULSE_NS = 40 * MILLISECOND
SAMPLES_AROUND = 8
"""Number of clock samples before the first and after the last op."""


def precheck() -> str | None:
    """Why this machine cannot drive hosts, or None."""
    reason = extras.problem("paramiko")
    return None if reason is None else f"ssh {reason}"


def inside(number: int) -> str:
    """The address of a host in the network of a run, by its number from 1."""
    return f"{NETWORK}.0.{number}"


class SshBackend:
    """`Backend`, `Namespaces`, `Vantage` and `Distant` over hosts with an sshd."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._hosts: Hosts = from_manifest(place.hosts)
        self._remotes = [
            RemoteHost(host, root_of(host.folder, place.label), place.run_dir)
            for host in self._hosts.hosts
        ]
        self._nodes: list[Node] = []
        self._where: dict[str, RemoteHost] = {}
        self._pulses: list[asyncio.Task[None]] = []
        self._lost: asyncio.Future[None] | None = None

    async def agents(self) -> Agents:
        """Connect all hosts and start a fault agent on each; returns one interface to all of them.

        EnvironmentFailed has one line for every host that cannot be used.
        """
        self._lost = asyncio.get_running_loop().create_future()
        packed = [self._packed(path) for path in self._place.shared[1:]]
        known = self._hosts.known_hosts
        await _all(r.connect(known, self._place.shared[0], packed) for r in self._remotes)
        names = [path.name for path in self._place.shared[1:]]
        await _all(
            r.ask("begin", host=r.host.name, label=self._place.label, libraries=names)
            for r in self._remotes
        )
        return Agents(self._remotes)

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Gives every node a host, a namespace and an address that all other nodes reach."""
        if len(nodes) > MOST_NODES:
            raise EnvironmentFailed(f"ssh: {len(nodes)} nodes; at most {MOST_NODES} are supported")
        counts: dict[str, int] = {}
        for n, node in enumerate(nodes, 1):
            turn = counts[node.role] = counts.get(node.role, 0) + 1
            alone = node.role in ("resource", "probe")
            remote = self._remotes[-1 if alone else (turn - 1) % len(self._remotes)]
            made = replace(node, address=f"{NETWORK}.1.{n}", python=remote.host.python)
            self._nodes.append(made)
            remote.nodes.append(made)
            self._where[node.name] = remote
        self._note_hosts()
        await _all(self._open_one(n, remote) for n, remote in enumerate(self._remotes, 1))
        await self._reach_each_other()
        for _ in range(SAMPLES_AROUND):
            await _all(remote.look() for remote in self._remotes)
        self._pulses = [asyncio.ensure_future(self._pulse(remote)) for remote in self._remotes]
        return list(self._nodes)

    async def start(self, node: str, command: Command) -> int:
        """Starts the command on the node's host, as the login user; its pid there."""
        remote = self._where[node]
        answer = await remote.ask(
            "start",
            node=node,
            argv=list(command.argv),
            env=dict(command.env),
            log=str(command.log),
            prelude=command.prelude,
            nobody=command.nobody,
        )
        remote.ended.discard(node)
        return int(answer["pid"])

    def agent_argv(self) -> Sequence[str]:
        """There is no agent on this machine; `agents` is the interface to those of the hosts."""
        raise EnvironmentFailed("ssh: its fault agents are on the hosts")

    def holder_pid(self, node: str) -> int:
        """Pid, on its host, of the process that holds the node's network namespace."""
        return self._where[node].holders[node]

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes; all nodes see them under the same addresses."""
        return list(self._nodes)

    def place_of(self, node: str) -> Place:
        """The place of the run on a node's host: its folder, with code and libraries."""
        root = Path(self._where[node].root)
        shared = tuple(root / path.name for path in self._place.shared)
        return replace(self._place, run_dir=root, shared=shared)

    async def put(self, node: str, name: str, text: str) -> None:
        """Writes a small file under the run's folder on the node's host, and under ours."""
        (self._place.run_dir / name).write_text(text)
        await self._where[node].ask("put", name=name, text=text)

    def alive(self, node: str) -> bool:
        """Whether the process of a node runs, by the last response of its host."""
        remote = self._where[node]
        return node not in remote.ended and not remote.lost

    def tell_phase(self, phase: int) -> None:
        """Sends the phase of the run to every host."""
        for remote in self._remotes:
            remote.post("phase", value=phase)

    def shift_ns(self, node: str) -> int:
        """Approximate offset from a timestamp of the node's host to the driver's clock."""
        return self._where[node].offset_ns if node in self._where else 0

    def system(self, entry: str, system: System) -> System:
        """The same system, queried from inside the nodes' network."""
        return _OnHosts(entry, system, self._where)

    async def command(
        self, system: str, node: Node, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Command:
        """The command of a system's server on this node, computed on the node's host."""
        place = self.place_of(node.name)
        given = {"run_id": place.run_id, "label": place.label, "seed": place.seed}
        paths = {"run_dir": str(place.run_dir), "shared": [str(path) for path in place.shared]}
        said = await self._where[node.name].system(
            system,
            do="command",
            node=asdict(node),
            servers=[asdict(server) for server in servers],
            options=dict(options),
            place={**given, **paths},
        )
        return Command(
            argv=tuple(said["argv"]),
            log=Path(said["log"]),
            env=said["env"],
            prelude=said["prelude"],
            nobody=said["nobody"],
        )

    async def refresh(self) -> None:
        """Fetches what was recorded until now. A lost host is reported by `until_lost`."""
        await asyncio.gather(*(r.look() for r in self._remotes), return_exceptions=True)

    async def until_lost(self) -> None:
        """Never returns; HostLost as soon as a host no longer responds."""
        assert self._lost is not None
        await asyncio.shield(self._lost)

    async def close(self) -> None:
        """Kills every process, fetches the remaining recordings, and removes every folder.

        A lost host is tried once more: reconnected, and cleaned.
        """
        for pulse in self._pulses:
            pulse.cancel()
        await asyncio.gather(*self._pulses, return_exceptions=True)
        if self._lost is not None and self._lost.done():
            self._lost.exception()
        await asyncio.gather(*(self._close_one(remote) for remote in self._remotes))
        for path in self._place.shared[1:]:
            self._zip_of(path).unlink(missing_ok=True)

    async def _close_one(self, remote: RemoteHost) -> None:
        try:
            if remote.nodes and not remote.lost:
                await remote.ask("end")
                for _ in range(SAMPLES_AROUND):
                    await remote.look()
                remote.whole()
            if remote.began and not remote.lost:
                await remote.ask("remove")
        except EnvironmentFailed:
            # What was fetched is kept; the missing mark of the host shows that it is incomplete.
            pass
        await remote.close()
        if remote.began and remote.lost:
            await asyncio.to_thread(
                sweep_quietly, remote.host, self._hosts.known_hosts, self._place.label
            )

    async def _open_one(self, n: int, remote: RemoteHost) -> None:
        answer = await remote.ask(
            "open",
            fabric={
                "own": remote.host.reached,
                "peers": [r.host.reached for r in self._remotes if r is not remote],
                "inside": inside(n),
                "number": zlib.crc32(self._place.label.encode()) & 0xFFFFFF,
                "port": self._hosts.tunnel_port,
            },
            nodes={node.name: node.address for node in remote.nodes},
        )
        remote.holders, remote.fabric = answer["holders"], answer["fabric"]
        remote.become = answer["become"]

    async def _reach_each_other(self) -> None:
        """EnvironmentFailed names each host whose packets another does not get."""
        names = {inside(n): r.host.name for n, r in enumerate(self._remotes, 1)}
        told = await _all(
            remote.ask("reach", others=[other for other in names if other != own])
            for own, remote in zip(names, self._remotes, strict=True)
        )
        lost = [
            f"{name} to {to}"
            for (own, to), answer in zip(names.items(), told, strict=True)
            for address, name in names.items()
            if address != own and address not in answer["heard"]
        ]
        if lost:
            raise EnvironmentFailed(
                f"ssh: no packet passes the tunnel from {', '.join(lost)}: each host needs UDP port"
                f" {self._hosts.tunnel_port} of all others, in both directions; open it in their"
                " firewalls, or set `tunnel_port`, or as `inner` the addresses under which they"
                " reach each other"
            )

    async def _pulse(self, remote: RemoteHost) -> None:
        """Polls a host until it is lost or the run is over."""
        assert self._lost is not None
        try:
            while True:
                await remote.look()
                await asyncio.sleep(PULSE_NS / SECOND)
        except HostLost as error:
            if not self._lost.done():
                self._lost.set_exception(error)

    def _note_hosts(self) -> None:
        host_clocks.begin(
            self._place.run_dir / host_clocks.FILE,
            asked_ns=self._hosts.clock_bound_ns,
            hosts={r.host.name: [node.name for node in r.nodes] for r in self._remotes},
        )

    def _zip_of(self, folder: Path) -> Path:
        return self._place.run_dir / f"{folder.name}.zip"

    def _packed(self, folder: Path) -> Path:
        """A folder of libraries as one archive, to unpack on the hosts."""
        target = self._zip_of(folder)
        with ZipFile(target, "w", ZIP_DEFLATED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(folder))
        return target


class _OnHosts:
    """A system whose servers only nodes can reach: `ready` and `leader` are called on a host."""

    def __init__(self, entry: str, system: System, where: Mapping[str, RemoteHost]) -> None:
        self._entry = entry
        self._system = system
        self._where = where

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        asked = {"do": "ready", "node": asdict(node), "options": dict(options)}
        return bool(await self._where[node.name].system(self._entry, **asked))

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        asked = {
            "do": "leader",
            "servers": [asdict(server) for server in servers],
            "options": dict(options),
        }
        said = await self._where[servers[0].name].system(self._entry, **asked)
        return None if said is None else Leader(*said)


async def _all(works: Any) -> list[Any]:
    """Every result, or one EnvironmentFailed with a line for each that failed."""
    pending: list[Awaitable[Any]] = list(works)
    done = await asyncio.gather(*pending, return_exceptions=True)
    failed = [each for each in done if isinstance(each, BaseException)]
    for each in failed:
        if not isinstance(each, EnvironmentFailed):
            raise each
    if failed:
        raise EnvironmentFailed("\n".join(str(each) for each in failed))
    return list(done)
