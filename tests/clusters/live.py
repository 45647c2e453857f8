"""Real server processes on loopback addresses, started as a run would start them."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.operations import Answer, Grant, Mode, Op
from holdfast.harness.core.ports import ClientSetup, LockClient, Node, Place, System

SOURCES = Path(__file__).resolve().parents[2] / "src"
SECOND = 1_000_000_000
_HOSTS = itertools.count(1)


T = TypeVar("T")


async def until(asked: Callable[[], Awaitable[T]], within_s: float) -> T:
    """The first answer that is true. Raises TimeoutError."""
    for _ in range(int(within_s / 0.02)):
        answer = await asked()
        if answer:
            return answer
        await asyncio.sleep(0.02)
    raise TimeoutError(f"not within {within_s} s")


class Live:
    """A few servers of one system. As a context manager it leaves no process behind."""

    def __init__(
        self, system: System, folder: Path, *, nodes: int = 3, options: Mapping[str, str] = {}
    ) -> None:
        self.system = system
        self.options = options
        pid, host = os.getpid(), next(_HOSTS)
        base = f"127.{1 + pid % 250}.{host % 250}"
        self.nodes = [
            Node(name=f"n{n}", role="server", address=f"{base}.{n}", python=sys.executable)
            for n in range(1, nodes + 1)
        ]
        self.place = Place(run_id="live", run_dir=folder, shared=(SOURCES,), label="live")
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Live:
        for node in self.nodes:
            self.start(node.name)
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self.running):
            self.kill(name)

    def start(self, name: str) -> None:
        """Starts a server."""
        node = next(node for node in self.nodes if node.name == name)
        command = self.system.command(node, self.nodes, self.place, self.options)
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with open(command.log, "ab") as log:
            self.running[name] = subprocess.Popen(command.argv, env=dict(command.env), stderr=log)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        """What a server has written."""
        return (self.place.run_dir / "logs" / name / "server.log").read_text()

    async def ready(self, within_s: float = 10.0) -> None:
        """Until every running server is ready."""
        for node in self.nodes:
            if node.name in self.running:
                await until(partial(self.system.ready, node, self.options), within_s)

    async def leader(self, within_s: float = 5.0) -> str:
        """The leader, once there is one."""
        found = await until(lambda: self.system.leader(self.nodes, self.options), within_s)
        assert found is not None
        return found.name

    def user(self, process: int, lease_ns: int = 2 * SECOND) -> User:
        """A client, not opened yet."""
        return User(self, process, lease_ns)


class User:
    """A client with short words for its calls; `told` is what it learned unasked."""

    def __init__(self, live: Live, process: int, lease_ns: int) -> None:
        self.told: list[tuple[Op, int, str]] = []
        self.process = process
        self.lease_ns = lease_ns
        setup = ClientSetup(
            process=process,
            name=f"c{process}",
            servers=[(node.name, node.address) for node in live.nodes],
            lease_ns=lease_ns,
            options=live.options,
            tell=self._tell,
        )
        module, _, factory = live.system.client.partition(":")
        self.client: LockClient = getattr(importlib.import_module(module), factory)(setup)
        self._attempts = itertools.count(1)

    def _tell(
        self,
        op: Op,
        *,
        attempt: int,
        lock: str,
        res: int = 0,
        text: str = "",
        token: int = -1,
        arg: int = 0,
    ) -> None:
        self.told.append((op, attempt, text))

    def lost(self) -> Sequence[tuple[int, str]]:
        """(attempt, reason) of each loss it was told of."""
        return [(attempt, text) for op, attempt, text in self.told if op is Op.LOST]

    async def hears(self, op: Op, within_s: float = 5.0) -> None:
        """Until it has been told such a thing."""

        async def heard() -> bool:
            return op in [told for told, _, _ in self.told]

        await until(heard, within_s)

    async def __aenter__(self) -> User:
        await self.client.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.client.close()

    async def acquire(self, lock: str, wait_s: float = 0.0) -> tuple[Answer, Grant]:
        """The answer, and the grant that it is if it says yes."""
        attempt = self.process << 32 | next(self._attempts)
        answer = await self.client.acquire(
            lock,
            attempt=attempt,
            ttl_ns=self.lease_ns,
            wait_ns=int(wait_s * SECOND),
            mode=Mode.EXCLUSIVE,
        )
        grant = Grant(
            lock=lock,
            attempt=attempt,
            token=answer.token,
            ttl_ns=answer.ttl_ns,
            granted_at_ns=now_ns(),
        )
        return answer, grant

    async def renew(self, grant: Grant) -> Answer:
        """For the same lease again."""
        return await self.client.renew(grant, ttl_ns=self.lease_ns)

    async def release(self, grant: Grant) -> Answer:
        """Gives it back."""
        return await self.client.release(grant)
