"""Servers that already run: on each node a relay forwards to one of them, in place of a server.

Run as `python -S -P -m holdfast.clusters.systems.relay --config JSON`, where JSON is {"listen",
"port", "host", "to"}: an address and a port to listen on, a host and its port to forward to. So the
clients' way to the servers is one of the run's links, and nothing else of the servers is touched.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence

from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.plans.plan import RUNNING

MODULE = "holdfast.clusters.systems.relay"
COMMAND = f"{MODULE}:command"
CHUNK = 65536


def given(options: Mapping[str, str]) -> list[tuple[str, int]]:
    """Host and port of each server; the port 0 where the text has none that is one."""
    endpoints = []
    for word in options.get(RUNNING, "").split(","):
        host, _, port = word.strip().rpartition(":")
        good = port.isdecimal() and 0 < int(port) < 65536
        endpoints.append((host.strip("[]"), int(port) if good else 0))
    return endpoints


def command(
    node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str], port: int
) -> Command:
    """The relay of a node."""
    number = [server.name for server in servers].index(node.name)
    host, to = given(options)[number]
    config = {"listen": node.address, "port": port, "host": host, "to": to}
    return Command(
        argv=(node.python, "-S", "-P", "-m", MODULE, "--config", json.dumps(config)),
        log=place.run_dir / "logs" / node.name / "relay.log",
    )


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward until one side ends; then the other side hears the end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def serve(listen: str, port: int, host: str, to: int) -> None:
    """Relay every connection; one that the server refuses is closed."""

    async def relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(host, to)
            with contextlib.closing(far_writer):
                ways = _copied(reader, far_writer), _copied(far_reader, writer)
                await asyncio.gather(*ways)

    server = await asyncio.start_server(relayed, listen, port)
    async with server:
        await server.serve_forever()


def main(argv: Sequence[str] | None = None) -> None:
    """Does not return: the relay ends with its process."""
    parser = argparse.ArgumentParser(description="forwards connections to a running server")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config = json.loads(parser.parse_args(argv).config)
    asyncio.run(serve(**config))


if __name__ == "__main__":
    main()
