"""A cluster of real processes of this host, without networks: a backend, a service, an agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Leader, Node, Place, System
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.plans.manifest import Options
from holdfast.harness.plans.plan import Plan
from tests.manifests import manifest

STAYS = "exec sleep 600"
PYTHON = "/python"
"""Stands for the interpreter of a node."""


def started(argv: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """A process of its own session, with its output in a log."""
    return subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)


@dataclass
class Machine:
    """A backend whose nodes are processes of this host; `commands`: the last one of each node.

    A server's command is executed. What executes our modules elsewhere only stays here, or does
    what `exits` has under its name.
    """

    folder: Path
    exits: dict[str, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        self.nodes = [
            replace(node, address=f"10.0.0.{n}", python=PYTHON) for n, node in enumerate(nodes, 1)
        ]
        return self.nodes

    async def start(self, node: str, command: Command) -> int:
        self.order.append(node)
        self.commands[node] = command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        argv = command.argv if command.argv[0] != PYTHON else ("sleep", "600")
        argv = ("sh", "-c", self.exits[node]) if node in self.exits else argv
        with command.log.open("ab") as log:
            process = started(argv, log)
        self.processes[node] = process
        self.started.append(process)
        return process.pid

    def holder_pid(self, node: str) -> int:
        return os.getpid()

    def seen_from(self, node: str) -> Sequence[Node]:
        return self.nodes

    def agent_argv(self) -> Sequence[str]:
        return [sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"]

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """Kills and reaps all processes."""
        for process in self.started:
            process.kill()
            process.wait()

    def kill(self, node: str) -> None:
        """Kills the process of a node; it stays a zombie."""
        self.processes[node].send_signal(signal.SIGKILL)
        self.ended(node)

    def ended(self, node: str) -> None:
        """Waits until the process of a node has ended, and does not reap it; another thread may."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.processes[node].pid, os.WEXITED | os.WNOWAIT)


@dataclass
class Service:
    """A system of servers that only stay. `exits`: what the server of that name does instead."""

    exits: dict[str, str] = field(default_factory=dict)
    unready: set[str] = field(default_factory=set)
    leads: str = ""
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    client: str = "tests.harness.test_client:Lock"
    ports: Sequence[int] = (5000, 5001)
    libraries: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    image: Any = None
    ends_with_client: bool = False

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        self.asked.append((node.name, options))
        log = place.run_dir / "logs" / node.name / "server.log"
        script = self.exits.get(node.name, STAYS)
        argv = ("sh", "-c", script)
        return Command(argv=argv, log=log, env=self.env, image=self.image)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        return node.name not in self.unready

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        names = [node.name for node in servers]
        return Leader(self.leads) if self.leads in names else None


SERVICE = Service()
"""The system that a run loads by name."""


@dataclass
class Books:
    """A fault agent that keeps books. refuses: a node that it does not adopt."""

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refuses: str = ""
    before: Callable[[str, dict[str, Any]], None] = lambda do, args: None

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        self.asked.append((do, args))
        self.before(do, args)
        if do == "adopt" and args["processes"] and args["node"] == self.refuses:
            raise EnvironmentFailed("fault agent: adopt: no such process")
        return {"t_ns": now_ns(), "evidence": {}}

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """The arguments of the requests of some kinds."""
        return [args for do, args in self.asked if do in kinds]


PLAN = Plan(system="reference", nodes=2, clients=3, locks=2, lease_ns=SECOND, seed=5)
OPTIONS = Options(system={"flavour": "plain"}, workload={"probe_ns": "1000", "depth": "3"})


def cluster(
    machine: Any,
    service: Any,
    agent: Any,
    *,
    plan: Plan = PLAN,
    options: Options = OPTIONS,
    **other: Any,
) -> Cluster:
    """The cluster of a run in the machine's folder."""
    folder = machine.folder
    runtime = SimpleNamespace(now=now_ns, environ={"HOLDFAST_RUN": "r"})
    return Cluster(
        plan=plan,
        place=Place(run_id="r", run_dir=folder, shared=(folder / "code.zip",), label="r"),
        backend=machine,
        runtime=cast(Runtime, runtime),
        system=cast(System, service),
        agent=agent,
        entries=manifest().entries,
        options=options,
        over_ns=7 * SECOND,
        **other,
    )
