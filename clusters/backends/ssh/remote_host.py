"""The driver's view of one host: its connection, host agent, clock and files."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clusters.backends.ssh.connect import Connection
from holdfast.clusters.backends.ssh.host_channel import GONE_S, HostAnswer, HostGone, Line
from holdfast.clusters.backends.ssh.hosts_file import Host
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Node
from holdfast.harness.history import host_clocks
from holdfast.harness.history.host_clocks import MOST_PPM
from holdfast.harness.runs import directory

STEWARD = "holdfast.clusters.backends.ssh.host_agent"
ASKER = "holdfast.clusters.backends.ssh.system_queries"
MIRRORED = re.compile(r"(history/[\w.+-]+\.(seg|strings)|logs/[\w.-]+/[\w.-]+\.log)")
Result = TypeVar("Result")


class HostLost(EnvironmentFailed):
    """A host that was connected no longer responds."""


class Copies:
    """The run's files on the driver's side, written as hosts send their pieces."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, int] = {}

    def write(self, name: str, at: int, data: bytes) -> None:
        """Writes a piece into its file. A host may write to histories and logs only."""
        if not MIRRORED.fullmatch(name) or ".." in name:
            raise EnvironmentFailed(f"ssh: a host sent a file with an invalid name {name!r}")
        if name not in self._open:
            path = self._root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open[name] = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(self._open[name], data, at)

    def close(self) -> None:
        for file in self._open.values():
            os.close(file)
        self._open.clear()


class RemoteHost:
    """A host of a run. Requests run one after the other, in the host's own thread.

    become     words that run a command there as the login user instead of root
    lost       why it no longer responds, "" while it does
    offset_ns  driver's clock minus the host's, by the narrowest recent sample
    ended      nodes whose process has ended
    """

    def __init__(self, host: Host, root: str, run_dir: Path) -> None:
        self.host = host
        self.root = root
        self.nodes: list[Node] = []
        self.holders: dict[str, int] = {}
        self.fabric = -1
        self.become: list[str] = []
        self.lost = ""
        self.offset_ns = 0
        self.ended: set[str] = set()
        self._run_dir = run_dir
        self._copies = Copies(run_dir)
        self._thread = ThreadPoolExecutor(1, f"ssh-{host.name}")
        self._asks = ThreadPoolExecutor(1, f"ssh-asks-{host.name}")
        self._connection: Connection | None = None
        self._steward: Line | None = None
        self._asker: Line | None = None

    async def connect(self, known_hosts: str, code: Path, libraries: Sequence[Path]) -> None:
        """Connect, upload the code, start the host agent. EnvironmentFailed has the reason."""

        def work() -> None:
            connection = self._connection = Connection(self.host, known_hosts)
            connection.make_folder(self.root)
            try:
                for path in (code, *libraries):
                    connection.upload(path, f"{self.root}/{path.name}")
                words = [*self.python(), STEWARD, self.root]
                self._steward = Line(connection, words)
            except EnvironmentFailed:
                # There is no host agent yet that would remove the folder.
                with suppress(EnvironmentFailed):
                    connection.run(["rm", "-r", "--", self.root]).recv_exit_status()
                raise

        await self._in_thread(work)

    @property
    def began(self) -> bool:
        """Whether its host agent ever started."""
        return self._steward is not None

    def python(self) -> list[str]:
        """Words that run a module of ours on the host."""
        path = [f"PYTHONPATH={self.root}/code.zip", "PYTHONDONTWRITEBYTECODE=1"]
        return ["env", *path, self.host.python, "-S", "-P", "-m"]

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """One request to the host agent. HostLost without a response, else EnvironmentFailed."""
        return (await self._answered(do, args)).answer

    def post(self, do: str, **args: Any) -> None:
        """The same without waiting for the response; nothing happens if the host is lost."""
        self._thread.submit(lambda: self._asked(do, args))

    async def system(self, entry: str, **request: Any) -> Any:
        """A system's response, queried on the host, from inside the nodes' network."""

        def work() -> Any:
            assert self._connection is not None
            if self._asker is None:
                inside = ["nsenter", f"--net=/proc/{self.fabric}/ns/net", "--"]
                words = [*inside, *self.become, *self.python(), ASKER, entry]
                self._asker = Line(self._connection, words)
            return self._asker.ask(request).answer

        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._asks, work)
        except HostGone as error:
            raise HostLost(f"ssh: host {self.host.name}: {error}") from error
        if not answer["ok"]:
            raise EnvironmentFailed(f"ssh: host {self.host.name}: {answer['error']}")
        return answer["said"]

    async def look(self) -> None:
        """Fetch what was written, and use the request as a sample of the host's clock."""
        more = True
        while more:
            found = await self._answered("look", {})
            answer = found.answer
            for name, at, data in answer["pieces"]:
                self._copies.write(name, at, base64.b64decode(data))
            self.ended.update(answer["ended"])
            if not answer["agent"]:
                raise HostLost(f"ssh: the fault agent of host {self.host.name} exited")
            more = answer["more"]
        self._sample(found)

    def whole(self) -> None:
        """Record that everything was fetched."""
        directory.append(self._run_dir / host_clocks.FILE, {"host": self.host.name, "whole": True})

    async def close(self) -> None:
        """Closes the connection, which ends the host agent, if it is still running."""

        def work() -> None:
            for line in (self._asker, self._steward):
                if line is not None:
                    line.close()
            if self._connection is not None:
                self._connection.close()

        await asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._thread.shutdown(wait=False)
        self._asks.shutdown(wait=False)
        self._copies.close()

    def _sample(self, found: HostAnswer) -> None:
        """Records a clock sample from a request; the host's own processing time is subtracted."""
        asked, answered = found.answer["asked_ns"], found.answer["answered_ns"]
        inside = answered - asked
        drift = inside * MOST_PPM // 1_000_000 + 1
        received_ns = found.received_ns - inside + drift
        self.offset_ns = (found.sent_ns + received_ns) // 2 - asked
        row = {"sent_ns": found.sent_ns, "host_ns": asked, "received_ns": received_ns}
        directory.append(self._run_dir / host_clocks.FILE, {"host": self.host.name, **row})

    async def _answered(self, do: str, args: Mapping[str, Any]) -> HostAnswer:
        found = await self._in_thread(lambda: self._asked(do, args))
        if found is None:
            raise HostLost(f"ssh: host {self.host.name} was lost: {self.lost}")
        if not found.answer["ok"]:
            raise EnvironmentFailed(f"ssh: host {self.host.name}: {found.answer['error']}")
        return found

    def _asked(self, do: str, args: Mapping[str, Any]) -> HostAnswer | None:
        """In the host's thread. None once the host is lost; `lost` says why."""
        if not self.lost:
            assert self._steward is not None
            request = {"do": do, **args}
            try:
                if do == "look":
                    return self._steward.ask(request, GONE_S)
                return self._steward.ask(request)
            except (HostGone, ValueError) as error:
                self.lost = str(error)
        return None

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
