"""Driver side of a lock in any language, from a `[system]` table or from `--client`.

`holdfast.clusters.systems.program.system:JSON` is the System of a table in JSON.

Promises: those in the table's `promises`; by default those of any lock
Does not promise: anything else
Tested with: the clients in examples/clients and the servers of `holdfast new program` and `image`
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.program import command_line
from holdfast.clusters.systems.program.client import SENDERS
from holdfast.clusters.systems.program.table import has_servers, problems, server_of
from holdfast.clusters.systems.user_class.system import CHOICES, IN_TURN, declared
from holdfast.clusters.systems.user_class.terms import able
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Command, Image, Leader, Mount, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.runs.directory import RunDir

ANSWER_S = 0.5
ANSWER_BYTES = 65536


class ProgramSystem:
    """A System for one table; an empty one has no server and takes everything from the options."""

    client = "holdfast.clusters.systems.program.client:client"
    confined_because = "starts its servers from a container image"
    ends_with_client = True
    """A client that exits unexpectedly is a failure of the environment, not of the lock."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self.ports: Sequence[int] = tuple(table.get("ports", ()))
        self.files: Sequence[str] = tuple(table.get("files", ()))
        self.libraries: Sequence[str] = tuple(table.get("libraries", ()))
        self.environment = str(table.get("environment", ""))
        self.nodes = int(table.get("nodes", 1 if has_servers(table) else 0))
        self.server_of = server_of(table)
        self.outside = not (self.nodes or self.server_of or "compose" in table)
        self.in_turn = table.get("start") == IN_TURN
        self.states_promises = "promises" in table
        self.backends: Sequence[str] = ("docker",) if "image" in table else ()
        """the only backends that can run it, none for all"""

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What the table promises. UsageError for invalid options."""
        return declared(
            self._chosen(options),
            promises=self._table.get("promises"),
            proves=bool(self._table.get("proves", True)),
            evidence=self.evidence(options),
            listed=self.listed(),
            session_ms=int(self._table.get("session_ms", 0)),
            lapse_ms=self._table.get("lapse_ms"),
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """Those that the table lists; the program gets their keys with each acquire."""
        return able(self.listed())

    def evidence(self, options: Mapping[str, str]) -> str:
        """What this lock is, for the sheet of its promises."""
        return f"the client program {' '.join(self.argv(options))}"

    def listed(self) -> Sequence[str]:
        """What the table lists, as it lists it."""
        return tuple(self._table.get("abilities", ()))

    def option_names(self) -> Sequence[str]:
        """The options that it reads: without a table also the declarations of a lock."""
        names = ("client", "sender", "argv", "folder", "abilities", "path")
        return names if self._table else (*names, *CHOICES)

    def argv(self, options: Mapping[str, str]) -> list[str]:
        """The words that start the client program."""
        return command_line.split(self._table.get("client") or options.get("client", ""))

    def server_words(self) -> list[str]:
        """The words that start a server on a node; none without a server, or with an image."""
        return [] if "image" in self._table else command_line.split(self._table.get("server", ""))

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        given = {name: text for name, text in options.items() if name != "client"}
        chosen: dict[str, str] = {}
        wrong: list[str] = []
        known: dict[str, Sequence[str]] = {**CHOICES, "sender": SENDERS}
        if self._table:
            known = {n: (self._table.get(n, v[0]),) for n, v in CHOICES.items()}
            known["sender"] = SENDERS
        if not self._table and "client" in options:
            wrong += problems({"client": options["client"]})
        elif "client" in options:
            wrong.append("--client conflicts with the client in the [system] table")
        try:
            chosen = choose("program", given, known)
        except UsageError as error:
            wrong += error.problems
        if wrong:
            raise UsageError(*(f"program: {line.removeprefix('program: ')}" for line in wrong))
        return chosen

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The table's server, with the node's name, address, data folder and peers filled in."""
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        everyone = [f"{other.name}={other.address}" for other in servers]
        values = {
            "node": node.name,
            "address": node.address,
            "data": str(data),
            "peers": ",".join(everyone),
            "others": ",".join(
                f"{other.name}={other.address}" for other in servers if other.name != node.name
            ),
            "servers": ",".join(other.address for other in servers),
            "python": node.python,
        }
        image = self._image(data)
        folder = None if image else RunDir(place.run_dir).program
        if image:
            values |= {"data": image.mounts[0].at, "python": "python3"}
        argv, env = command_line.split(self._table.get("server", "")), self._table.get("env", {})
        return Command(
            argv=command_line.filled(argv, values, folder),
            log=place.run_dir / "logs" / node.name / "server.log",
            env=({} if image else {"PYTHONPATH": ""})
            | {name: command_line.filled([text], values, folder)[0] for name, text in env.items()},
            image=image,
        )

    def _image(self, data: Path) -> Image | None:
        """The table's image, with a data folder where the table puts it."""
        if "image" not in self._table:
            return None
        mount = Mount(source=data, at=self._table.get("data", str(data)), writable=True)
        return Image(name=self._table["image"], mounts=(mount,))

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether it responds to the table's check as expected, or listens if there is none."""
        return await self.responds(node, self._table.get("ready", {}))

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The first server with the leader's response; the first one if the table has no check."""
        question = self._table.get("leader")
        if question is None:
            return Leader(servers[0].name) if servers else None
        leads = await asyncio.gather(*(self.responds(node, question) for node in servers))
        return next(
            (Leader(node.name) for node, yes in zip(servers, leads, strict=True) if yes), None
        )

    async def responds(self, node: Node, question: Mapping[str, Any]) -> bool:
        """Whether a node responds to a check as expected."""
        port = question.get("port", self.ports[0])
        expect = question.get("expect", "").encode()
        received = b""
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_connection(node.address, port)
                try:
                    writer.write(question.get("send", "").encode())
                    while expect not in received and len(received) < ANSWER_BYTES:
                        part = await reader.read(4096)
                        if not part:
                            break
                        received += part
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
        return expect in received


def checked(table: Mapping[str, Any], where: str) -> ProgramSystem:
    """The System of a table. UsageError lists all errors in it."""
    wrong = problems(table)
    if wrong:
        raise UsageError(*(f"{where}: [system]: {line}" for line in wrong))
    return ProgramSystem(table)


def __getattr__(name: str) -> ProgramSystem:
    """The System of a table written as JSON."""
    if not name.startswith("{"):
        raise AttributeError(name)
    return ProgramSystem(json.loads(name))


SYSTEM = ProgramSystem({})
