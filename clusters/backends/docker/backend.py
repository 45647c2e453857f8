"""The docker backend: each node is a container with its own address and no capabilities.

The containers of a run wait for a lock that its driver holds, so they exit when the driver ends,
for any reason. Processes are started by exec; faults are injected from the host, by process id and
network namespace, so a node needs no privilege.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clusters.backends import abilities, processes
from holdfast.clusters.backends.docker import engine, launch, user_images
from holdfast.clusters.backends.docker.image import build
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Image, Node, Place

NO_IMAGE = (
    "docker: missing image {}; run `make docker-image`, or from any folder"
    " `python -m holdfast.clusters.backends.docker.image.build`"
)
QUICK_S = 5
THREADS = 8
LOCK = ".driver.lock"
MOST_NODES = 250
SUBNETS, SUBNET_TRIES = ipaddress.ip_network("10.64.0.0/10"), 64
EXEC_NS = 20 * SECOND
ENTERING = (b"runc", b"/proc/self/exe")
AGENT = ("-S", "-P", "-m", "holdfast.nemesis.agent")
NOBODY = "65534:65534"
OPEN_HOME = {"/root": "mode=0711"}
"""Runs under /root are mounted there; a server that refuses to run as root needs access."""
AGENT_CAPABILITIES = ("SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "KILL")
Result = TypeVar("Result")


def precheck() -> str | None:
    """Why no run can use this host's engine, or None: checks engine, image and fault agent."""
    reason = engine.precheck()
    if reason is not None:
        return reason
    try:
        if not engine.connect(timeout_s=QUICK_S).images(build.tag()):
            return NO_IMAGE.format(build.tag())
    except EnvironmentFailed as silent:
        return str(silent)
    except Exception as refused:
        return f"docker: the engine at {engine.url()} does not list its images: {refused}"
    if os.geteuid() == 0:
        reason = abilities.cut()
        return None if reason is None else f"docker: packets cannot be dropped here: {reason}"
    if shutil.which("docker") is None:
        return "docker needs the command docker (package docker.io), or root"
    return None


class DockerBackend:
    """`Backend`, `Namespaces`, `Vantage` and `TestsHealth` over this host's engine."""

    def __init__(self, place: Place, image: str = "") -> None:
        self._place = place
        self._image = image or build.tag()
        self._labels = engine.labels(place)
        self._launcher = Path(launch.__file__).read_text()
        self._engine = engine.ContainerEngine()
        self._pool = ThreadPoolExecutor(THREADS)
        self._lock = -1
        self._nodes: list[Node] = []
        self._pids: dict[str, int] = {}
        self._health: dict[str, Sequence[str]] = {}
        """node -> the health test of what runs on it"""

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Starts one container per node, all on a separate network, which the driver reaches too.

        Raises EnvironmentFailed without an engine, an image or a free subnet.
        """
        if len(nodes) > MOST_NODES:
            raise EnvironmentFailed(
                f"docker: {len(nodes)} nodes; at most {MOST_NODES} are supported"
            )
        await self._call(self._check_image)
        self._lock = _hold(self._place.run_dir / LOCK)
        subnet = await self._call(self._make_network)
        self._nodes = [
            replace(node, address=str(subnet[n]), python="python3")
            for n, node in enumerate(nodes, 2)
        ]
        started = await asyncio.gather(
            *(self._call(self._make_container, node) for node in self._nodes),
            return_exceptions=True,
        )
        for problem in started:
            if isinstance(problem, BaseException):
                raise problem
        return list(self._nodes)

    async def start(self, node: str, command: Command) -> int:
        """Starts the command in the node's container; its host pid after its last exec.

        It runs in the folder of its log, with the environment of the command plus PATH. Raises
        EnvironmentFailed if it cannot be started.
        """
        if command.image is not None:
            return await self._start_guest(node, command, command.image)
        where = f"docker: {node}: {command.argv[0]}"
        command.log.parent.mkdir(parents=True, exist_ok=True)
        if command.nobody:
            _give(command.log)
        execution, pid = await self._call(self._exec, node, command)
        prelude = [command.prelude.encode()] if command.prelude else []
        steps = (*ENTERING, self._launcher.encode(), *prelude)
        try:
            if await processes.became(pid, steps, where=where):
                return pid
        finally:
            if command.nobody:
                command.log.chmod(0o644)
        if await self._call(self._exit_code, execution) == launch.NOT_RUN:
            raise EnvironmentFailed(f"{where}: cannot run: {processes.last_output(command.log)}")
        return pid

    async def _start_guest(self, node: str, command: Command, image: Image) -> int:
        """Starts a user's image beside the node's container; the pid of its process."""
        where = f"docker: {node}: {image.name}"
        command.log.parent.mkdir(parents=True, exist_ok=True)
        host = f"{self._place.label}-{node}"
        self._health[node] = image.health
        begin = partial(user_images.start, where=where)
        pid, hearing = await self._call(begin, self._engine, host, command, self._labels)
        if not await processes.became(pid, user_images.ENTERING, where=where):
            await self._call(hearing.join, user_images.HEARD_S)
            last = processes.last_output(command.log)
            raise EnvironmentFailed(f"{where} exited at its start: {last}")
        return pid

    async def healthy(self, node: str) -> bool:
        """Whether the health test of the image on a node succeeds; true without one."""
        test = self._health.get(node, ())
        host = f"{self._place.label}-{node}"
        return not test or await self._call(user_images.passes, self._engine, host, test)

    def agent_argv(self) -> Sequence[str]:
        """The fault agent: a child of a root driver, else a container that acts on the host."""
        if os.geteuid() == 0:
            return [sys.executable, *AGENT]
        shared = [str(path) for path in self._place.shared]
        return [
            *("docker", "run", "--interactive", "--rm", "--pid=host", "--network=host"),
            *(
                "--user=0",
                "--security-opt=seccomp=unconfined",
                "--security-opt=apparmor=unconfined",
            ),
            *(f"--cap-add={capability}" for capability in AGENT_CAPABILITIES),
            *(f"--label={name}={value}" for name, value in self._labels.items()),
            *(f"--volume={path}:{path}:ro" for path in shared),
            *(f"--env=PYTHONPATH={path}" for path in shared[:1]),
            *("--entrypoint=python3", self._image, *AGENT),
        ]

    def holder_pid(self, node: str) -> int:
        """Host pid of the container's first process, which lives as long as the container."""
        return self._pids[node]

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes; all nodes see them under the same addresses."""
        return list(self._nodes)

    async def service_failure(self) -> str:
        """Why the engine does not respond, "" if it does."""
        return await asyncio.to_thread(engine.silent, QUICK_S)

    async def close(self) -> None:
        """Removes everything with the labels of the run, also after an incomplete `open`."""
        if self._lock < 0:
            return
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._pool = ThreadPoolExecutor(THREADS)
        containers, networks = await self._call(engine.labelled, self._engine, self._labels)
        problems: list[str] = []
        for remove, things in (
            (engine.remove_container, containers),
            (engine.remove_network, networks),
        ):
            for found in things:
                try:
                    await self._call(remove, self._engine, found)
                except engine.Miscounted as kept:
                    # The run is complete, and doctor finds the network: only log it.
                    sys.stderr.write(f"{kept}\n")
                except EnvironmentFailed as refused:
                    # One that cannot be removed must not prevent the removal of the others.
                    problems.append(str(refused))
        await asyncio.to_thread(self._pool.shutdown)
        os.close(self._lock)
        self._lock, self._nodes, self._pids = -1, [], {}
        self._pool = ThreadPoolExecutor(THREADS)
        if problems:
            raise EnvironmentFailed("\n".join(problems))

    async def _call(self, work: Callable[..., Result], *args: object) -> Result:
        """Runs blocking work in a thread; errors of the engine become EnvironmentFailed."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, engine.in_plain_words, work, *args)

    def _check_image(self) -> None:
        if not self._engine.api.images(self._image):
            raise EnvironmentFailed(NO_IMAGE.format(self._image))

    def _make_network(self) -> ipaddress.IPv4Network:
        """A network on the first candidate subnet that neither the host nor the engine uses."""
        for subnet in self._subnets():
            pool = {"Subnet": str(subnet), "Gateway": str(subnet[1])}
            try:
                self._engine.api.create_network(
                    self._place.label,
                    driver="bridge",
                    internal=True,
                    labels=self._labels,
                    ipam={"Driver": "default", "Config": [pool]},
                )
            except Exception as refused:
                if not engine.subnet_taken(refused):
                    raise
            else:
                return subnet
        raise EnvironmentFailed(
            f"docker: no free subnet in {SUBNET_TRIES} of {SUBNETS}; "
            "remove unused networks with `holdfast doctor --clean`"
        )

    def _subnets(self) -> Iterator[ipaddress.IPv4Network]:
        """Candidate subnets, in an order that differs between runs without randomness."""
        first, taken = zlib.crc32(self._place.label.encode()), engine.routes()
        count = SUBNETS.num_addresses >> 8
        for n in range(SUBNET_TRIES):
            base = int(SUBNETS[0]) + ((first + n) % count << 8)
            subnet = ipaddress.IPv4Network((base, 24))
            if not any(subnet.overlaps(route) for route in taken):
                yield subnet

    def _make_container(self, node: Node) -> None:
        api, place = self._engine.api, self._place
        address = api.create_endpoint_config(ipv4_address=node.address)
        read_only = {str(path): {"bind": str(path), "mode": "ro"} for path in place.shared}
        run_dir = {str(place.run_dir): {"bind": str(place.run_dir), "mode": "rw"}}
        made = api.create_container(
            self._image,
            ["flock", "--shared", str(place.run_dir / LOCK), "true"],
            name=f"{place.label}-{node.name}",
            hostname=node.aliases[0] if node.aliases else node.name,
            user=f"{os.getuid()}:{os.getgid()}",
            labels=self._labels,
            networking_config=api.create_networking_config({place.label: address}),
            host_config=api.create_host_config(
                network_mode=place.label,
                binds=read_only | run_dir,
                extra_hosts={
                    name: other.address for other in self._nodes for name in other.aliases
                },
                tmpfs=OPEN_HOME,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                log_config={"Type": "none", "Config": {}},
            ),
        )
        api.start(made["Id"])
        pid = api.inspect_container(made["Id"])["State"]["Pid"]
        if not pid:
            raise EnvironmentFailed(f"docker: the container of {node.name} exited at its start")
        self._pids[node.name] = pid

    def _exec(self, node: str, command: Command) -> tuple[str, int]:
        """The exec's id and the host pid of its process."""
        api = self._engine.api
        python = next(known.python for known in self._nodes if known.name == node)
        pairs = [f"{name}={value}" for name, value in command.env.items()]
        launcher = [python, "-I", "-S", "-c", self._launcher, str(command.log), *pairs, "--"]
        made = api.exec_create(
            f"{self._place.label}-{node}",
            [*launcher, *command.argv],
            stdout=False,
            stderr=False,
            user=NOBODY if command.nobody else "",
        )
        api.exec_start(made["Id"], detach=True)
        deadline = now_ns() + EXEC_NS
        while now_ns() < deadline:
            seen: dict[str, Any] = api.exec_inspect(made["Id"])
            if seen["Pid"]:
                return made["Id"], int(seen["Pid"])
            if seen["ExitCode"] is not None:
                break
        raise EnvironmentFailed(f"docker: {node}: the engine did not start {command.argv[0]}")

    def _exit_code(self, execution: str) -> int | None:
        """Exit code of an exec whose process is gone; the engine may notice a moment later."""
        deadline, code = now_ns() + EXEC_NS, None
        while code is None and now_ns() < deadline:
            code = self._engine.api.exec_inspect(execution)["ExitCode"]
        return code


def _give(log: Path) -> None:
    """Lets the server's user `nobody` open its log: by chown if permitted.

    Otherwise the log is world-writable until the server has opened it, and no longer from then on.
    """
    log.touch()
    if os.geteuid() == 0:
        os.chown(log, *map(int, NOBODY.split(":")))
    else:
        log.chmod(0o666)


def _hold(path: Path) -> int:
    """Acquires the file lock that the containers wait for; the kernel frees it at our end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as taken:
        os.close(descriptor)
        raise EnvironmentFailed(f"docker: {path.parent} is in use by another driver") from taken
    return descriptor
