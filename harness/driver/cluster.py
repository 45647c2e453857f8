"""The deployed cluster of one run: its nodes, what runs on each, and how to start it again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import (
    LONGEST_LINE,
    NEXT,
    EnvironmentFailed,
    first_error,
    is_error,
)
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import GENERATION
from holdfast.harness.core.ports import (
    Command,
    Distant,
    Exits,
    Fabric,
    Hosting,
    Leader,
    NamesServers,
    Node,
    OnService,
    Place,
    StartsSlowly,
    System,
)
from holdfast.harness.core.waiting import until_answer
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.driver.schedule import Agent
from holdfast.harness.plans.manifest import Entries, Options
from holdfast.harness.plans.plan import RUNNING, SIMULATOR, Plan, lock_names
from holdfast.harness.recording import full_disk
from holdfast.harness.runs.directory import RunDir, write_json

READY_WITHIN_NS = 20 * SECOND
EXIT_LOOK_NS = 200 * MILLISECOND
"""Interval between two checks of which processes run."""
STAMPED_LINE = r"^\d{10,} "
LOG_LINES, RECENT_LINES = 3, 40
START_WITHIN_NS = 120 * SECOND
"""Bound for the start of all clients; a process that waits for its turn costs nothing yet."""
STARTS_AT_ONCE = 16
"""Each start is polled until its last exec: hundreds at once would delay each other."""
TAPS = "127.78.0"
LETTERS = 6
"""Letters of a run in the names of its locks."""


@dataclass(slots=True)
class Running:
    """One process of the cluster, and how often this node's process was started before."""

    pid: int
    generation: int
    writer: str
    name: str


@runtime_checkable
class Forwarding(Protocol):
    """A backend whose nodes share a network: the fault agent forwards every link."""

    def proxy_links(self, ports: Sequence[int]) -> Sequence[Mapping[str, str | list[int]]]:
        """The links to forward, as the request `proxy` takes them, to these ports of the nodes."""
        ...


@runtime_checkable
class TestsHealth(Protocol):
    """A backend that can run the health test of a server's image."""

    async def healthy(self, node: str) -> bool:
        """Whether the test of what runs on a node succeeds now; true without one."""
        ...


@runtime_checkable
class StartsInTurn(Protocol):
    """A System whose servers may have to start one after another."""

    in_turn: bool


@runtime_checkable
class Outside(Protocol):
    """A System whose locks may lie in a service that the run does not start."""

    outside: bool


@runtime_checkable
class ServersImport(Protocol):
    """A System whose servers may import the packages of its clients."""

    servers_import: bool


@dataclass(slots=True)
class Cluster:
    """Starts and restarts what a plan deploys, and reports every process to the fault agent.

    entries   names of what processes load by themselves, "module:attr" each, as in the manifest
    site      import folders of installed packages for the clients, after all others
    upgraded  server -> its options, if it runs another release than the plan's
    """

    plan: Plan
    place: Place
    backend: Fabric
    runtime: Runtime
    system: System
    agent: Agent
    entries: Entries
    options: Options
    over_ns: int
    site: Sequence[str] = ()
    tapped: bool = False
    ordered: bool = False
    marked: bool = False
    nodes: Sequence[Node] = ()
    running: dict[str, Running] = field(default_factory=dict)
    upgraded: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _distant: Distant | None = field(init=False)
    _hosting: Hosting | None = field(init=False)
    _exits: Exits | None = field(init=False)
    _tests_health: TestsHealth | None = field(init=False)

    def __post_init__(self) -> None:
        # The abilities of the backend, looked up once: isinstance of a Protocol costs 10 us.
        backend = self.backend
        self._distant = backend if isinstance(backend, Distant) else None
        self._hosting = backend if isinstance(backend, Hosting) else None
        self._exits = backend if isinstance(backend, Exits) else None
        self._tests_health = backend if isinstance(backend, TestsHealth) else None

    def lock_names(self) -> list[str]:
        """Names of the run's locks. Where they lie in a service that is there before the run and
        after it, they end with letters of the run: it must not meet what another run holds."""
        outside = isinstance(self.system, Outside) and self.system.outside
        outside = self.plan.backend != SIMULATOR and (outside or RUNNING in self.options.system)
        letters = hashlib.sha256(self.place.label.encode()).hexdigest()[:LETTERS]
        return lock_names(self.plan, f"-{letters}" if outside else "")

    def named(self, role: str) -> list[Node]:
        return [node for node in self.nodes if node.role == role]

    async def open(self) -> None:
        """Make the nodes, then start servers, resource and clients; wait until all are ready."""
        wanted = [
            *(self._server(f"n{n}") for n in range(1, self.plan.nodes + 1)),
            Node(name="resource", role="resource"),
            *(Node(name=f"c{n}", role="client") for n in range(1, self._workers() + 1)),
            Node(name="probe", role="probe"),
        ]
        self.nodes = tuple(await self.backend.open(wanted))
        await self._forward()
        for node in self.nodes:
            await self.adopt(node.name, self.agent)
        await self._tap()
        await self._give_disks()
        await self._start_servers()
        if self.options.disk_bytes:
            # What a server wrote before it was ready (its empty database) is older than the run.
            await self.agent.ask("sync_disks")
        rest = [node.name for node in self.nodes if node.role != "server"]
        deadline = self.runtime.now() + START_WITHIN_NS
        for at in range(0, len(rest), STARTS_AT_ONCE):
            if self.runtime.now() > deadline:
                raise EnvironmentFailed(
                    f"{at} of {len(rest)} processes were started within"
                    f" {START_WITHIN_NS // SECOND} s: this machine cannot carry"
                    f" {self.plan.clients} clients now"
                )
            await asyncio.gather(*(self.start(name) for name in rest[at : at + STARTS_AT_ONCE]))

    def _server(self, name: str) -> Node:
        system = self.system
        named = system.server_names.get(name, ()) if isinstance(system, NamesServers) else ()
        return Node(name=name, role="server", aliases=named)

    async def _forward(self) -> None:
        """On a backend without networks, routes every directed link through the agent."""
        if isinstance(self.backend, Forwarding):
            ports = [*self.system.ports, self.entries.resource_port]
            await self.agent.ask("proxy", links=self.backend.proxy_links(ports))

    async def _tap(self) -> None:
        """Routes the clients' connections through the agent if the plan has faults on them."""
        for node in self.named("client") if self.tapped else ():
            servers = [other for other in self.nodes if other.role == "server"]
            links = [
                {"listen": listen, "to": server.address, "ports": list(self.system.ports)}
                for server, listen in zip(servers, _tap_addresses(len(servers)), strict=True)
            ]
            await self.agent.ask("tap", node=node.name, links=links)

    async def _give_disks(self) -> None:
        """Mounts a separate disk as each server's data folder if the plan has faults on disks."""
        for node in self.named("server") if self.options.disk_bytes else ():
            path = str(self.place.run_dir / "data" / node.name)
            await self.agent.ask("disk", node=node.name, path=path, bytes=self.options.disk_bytes)

    async def _start_servers(self) -> None:
        """All at once, or in waves, each of which may have to wait for some nodes."""
        servers = {node.name: node for node in self.named("server")}
        for ready, starts in self._waves(list(servers)):
            await self._wait_for([servers[name] for name in ready])
            await asyncio.gather(*map(self.start, starts))
        await self._wait_for(list(servers.values()))

    def _waves(self, servers: Sequence[str]) -> Sequence[tuple[Sequence[str], Sequence[str]]]:
        """The nodes that must be ready, and those that start then, in their order."""
        if isinstance(self.system, NamesServers):
            return self.system.waves
        if isinstance(self.system, StartsInTurn) and self.system.in_turn:
            return [(servers[:n], [name]) for n, name in enumerate(servers)]
        return [((), servers)]

    async def _wait_for(self, servers: Sequence[Node]) -> None:
        options = self.options.system
        system, within_ns = self.system, READY_WITHIN_NS
        if isinstance(system, StartsSlowly):
            within_ns = system.ready_within_ns

        async def ready(node: Node) -> bool:
            if not self.alive(node.name):
                await self.require_service()
                raise EnvironmentFailed(self.exit_message(node.name))
            if self._tests_health is not None and not await self._tests_health.healthy(node.name):
                return False
            return await self.system.ready(node, options)

        for node in servers:
            answered = until_answer(partial(ready, node), within_ns=within_ns, now=self.runtime.now)
            if not await answered:
                raise EnvironmentFailed(
                    f"{self.plan.system}: {node.name} was not ready within"
                    f" {within_ns // SECOND} s{self._last_output(node.name)}"
                )

    async def start(self, name: str) -> None:
        """Starts or restarts what runs on a node; a client gets new process numbers."""
        node = next(node for node in self.nodes if node.name == name)
        before = self.running.get(name)
        generation = 0 if before is None else before.generation + 1
        writer = name if generation == 0 else f"{name}.{generation}"
        command = await self._command(node, writer, generation)
        pid = await self.backend.start(name, command)
        self.running[name] = Running(
            pid=pid,
            generation=generation,
            writer=writer,
            name=command.log.stem,
        )
        try:
            await self.adopt(name, self.agent)
        except EnvironmentFailed as refused:
            if self.alive(name):
                raise
            await self.require_service()
            raise EnvironmentFailed(self.exit_message(name)) from refused

    async def adopt(self, name: str, agent: Agent) -> None:
        """Registers a node, and the process that runs on it, with a fault agent."""
        node = next(node for node in self.nodes if node.name == name)
        running = self.running.get(name)
        await agent.ask(
            "adopt",
            node=name,
            pid=self.backend.holder_pid(name),
            address=node.address,
            processes=[running.pid] if running else [],
        )

    async def leader(self) -> Leader | None:
        """The present leader according to the system; None without one."""
        return await self.system.leader(self.named("server"), self.options.system)

    async def refresh(self) -> None:
        """Fetches what distant nodes have recorded so far; does nothing on one host."""
        if self._hosting is not None:
            await self._hosting.refresh()

    def alive(self, name: str) -> bool:
        """Whether the process of a node runs; a zombie process does not."""
        running = self.running.get(name)
        if running is None:
            return False
        if self._distant is not None:
            return self._distant.alive(name)
        try:
            stat = Path(f"/proc/{running.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] not in ("Z", "X")

    async def exited(self, resting: Collection[str]) -> Sequence[str]:
        """The nodes whose process exited, at the next check; `resting` ones were killed by a fault.

        Waits for a backend that reports exits itself.
        """
        if self._exits is not None:
            return await self._exits.exited()
        await asyncio.sleep(EXIT_LOOK_NS / SECOND)
        return self.exited_now(resting)

    def exited_now(self, resting: Collection[str]) -> Sequence[str]:
        """The same without waiting; nothing of a backend that reports exits itself."""
        if self._exits is not None:
            return ()
        names = [node.name for node in self.nodes]
        return [name for name in names if name not in resting and not self.alive(name)]

    async def require_service(self) -> None:
        """EnvironmentFailed if a service that the backend depends on is gone; asked before a node
        is blamed for its exit."""
        why = await self.backend.service_failure() if isinstance(self.backend, OnService) else ""
        if why:
            raise EnvironmentFailed(why)

    def exit_message(self, name: str) -> str:
        """One sentence about a process that exited unexpectedly, with its last log line."""
        return f"{name} exited unexpectedly{self._last_output(name)}"

    def _last_output(self, name: str) -> str:
        """The first error and the last lines of a process's log, as the end of a sentence."""
        if self._exits is not None:
            last = self._exits.last_output(name)
            return f": {last}" if last else ""
        log = RunDir(self.place.run_dir).log(name, self.running[name].name)
        try:
            lines = log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        # Our own servers start each line with their clock, which is omitted here.
        shown = [re.sub(STAMPED_LINE, "", line)[:LONGEST_LINE] for line in lines[-LOG_LINES:]]
        if shown and is_error(shown[-1]):
            # The end of a traceback: what stands before it are lines of code.
            shown = shown[-1:]
        error = first_error(lines[-RECENT_LINES:])
        if error and not any(error in line or is_error(line) for line in shown):
            shown.insert(0, error)
        last = " | ".join(shown)
        if not last and full_disk.has_little(self.place.run_dir):
            # The log is on the run directory's disk, as the rows are.
            return f": {full_disk.REASON} for the run directory: {NEXT}"
        return f": {last or 'no output'}{full_disk.next_step(last)} (see {log})"

    def _workers(self) -> int:
        """Number of processes that the clients share, each on its own node."""
        return int(self.options.workload.get("workers", "0")) or self.plan.clients

    def _place_of(self, name: str) -> Place:
        """The run as a node's processes see it."""
        return self._distant.place_of(name) if self._distant is not None else self.place

    def _environment(self, place: Place) -> dict[str, str]:
        return {
            "PYTHONPATH": os.pathsep.join(str(path) for path in place.shared),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.runtime.environ,
        }

    async def _command(self, node: Node, writer: str, generation: int) -> Command:
        seen = self.backend.seen_from(node.name)
        place = self._place_of(node.name)
        there = RunDir(place.run_dir)
        environment = self._environment(place)
        if node.role == "server":
            servers = [other for other in seen if other.role == "server"]
            command = await self._server_command(node, servers, place)
            # An image has all that it needs; the path of our code would only mislead it.
            if isinstance(self.system, ServersImport) and self.system.servers_import:
                environment["PYTHONPATH"] = os.pathsep.join((environment["PYTHONPATH"], *self.site))
            ours = environment if command.image is None else self.runtime.environ
            return replace(command, env={**ours, **command.env})
        config = self._config(node, seen, writer, generation, there)
        name = f"workers/{writer}.json"
        if self._distant is not None:
            await self._distant.put(node.name, name, json.dumps(config))
        else:
            write_json(self.place.run_dir / name, config)
        if node.role == "resource":
            module = self.entries.resource_main
        else:
            module = "holdfast.harness.client.worker"
        return Command(
            argv=(node.python, "-S", "-P", "-m", module, str(there.path / name)),
            log=there.path / "logs" / node.name / "worker.log",
            env=environment,
        )

    async def _server_command(self, node: Node, servers: Sequence[Node], place: Place) -> Command:
        options = self.upgraded.get(node.name, self.options.system)
        if self.entries.server_command:
            (port,) = self.system.ports
            made: Command = load(self.entries.server_command)(node, servers, place, options, port)
            return made
        if self._hosting is not None:
            return await self._hosting.command(self.entries.system, node, servers, options)
        return self.system.command(node, servers, place, options)

    def _config(
        self, node: Node, seen: Sequence[Node], writer: str, generation: int, there: RunDir
    ) -> dict[str, object]:
        common = {
            "writer": writer,
            "node": node.name,
            "role": node.role,
            "history": str(there.history),
            "phase": str(there.phase),
            "over_ns": self.over_ns,
        }
        if node.role == "resource":
            earlier = [node.name if g == 0 else f"{node.name}.{g}" for g in range(generation)]
            mode = {"mode": self.plan.resource, "earlier": earlier, "address": node.address}
            mode |= self.options.resource
            return {**common, **mode}
        resource = next(other for other in seen if other.role == "resource")
        probe = node.role == "probe"
        servers = [(other.name, other.address) for other in seen if other.role == "server"]
        if self.tapped and not probe:
            taps = _tap_addresses(len(servers))
            servers = [(name, tap) for (name, _), tap in zip(servers, taps, strict=True)]
        orders = str(self.place.run_dir / "workers" / f"{writer}.order")
        clients = self.plan.clients
        numbers = (
            [clients + 1] if probe else range(int(node.name[1:]), clients + 1, self._workers())
        )
        return {
            **common,
            "processes": [number + GENERATION * generation for number in numbers],
            "servers": servers,
            "clients": [
                (other.name, other.address) for other in seen if other.role in ("client", "probe")
            ],
            "orders": orders if self.ordered and not probe else "",
            "marked": self.marked and not probe,
            "again": generation > 0,
            "client": self.system.client,
            "workload": self.entries.probe if probe else self.entries.workload,
            "resource": {"connect": self.entries.resource_client, "address": resource.address},
            "options": dict(self.options.system),
            "workload_options": dict(self.options.workload),
            "lease_ns": self.plan.lease_ns,
            "seed": self.plan.seed,
            "folder": str(there.path),
            "locks": self.lock_names(),
            "site": list(self.site),
        }


def _tap_addresses(count: int) -> list[str]:
    """Loopback addresses of a client under which it reaches the servers, one for each."""
    return [f"{TAPS}.{n}" for n in range(1, count + 1)]
