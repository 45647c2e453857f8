"""A driver for tests: opens a cluster and starts processes in it, as lines on stdin say.

Arguments: backend, run folder, label, number of nodes. Prints one JSON object per line: first what
it opened, then one answer to each request `start NODE WORD...`; at `close` it closes and ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from holdfast.clusters.backends.docker.backend import DockerBackend
from holdfast.clusters.backends.local.backend import LocalBackend
from holdfast.clusters.backends.local.proxy_backend import LocalProxyBackend
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import Command, Node, Place

KINDS: dict[str, Any] = {
    "local": LocalBackend,
    "local-proxy": LocalProxyBackend,
    "docker": DockerBackend,
}


def say(**content: object) -> None:
    """One JSON object as a line on stdout."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


async def lines() -> asyncio.StreamReader:
    """Our stdin, readable without blocking the loop."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def serve(backend: Any, run_dir: Path) -> None:
    """Answers each line until `close` or the end of stdin."""
    requests = await lines()
    while (line := (await requests.readline()).decode().split()) and line[0] == "start":
        node, argv = line[1], tuple(line[2:])
        log = run_dir / "logs" / node / "process.log"
        try:
            say(pid=await backend.start(node, Command(argv=argv, log=log, env={"MARK": node})))
        except EnvironmentFailed as failed:
            say(error=str(failed))


async def main() -> None:
    """One cluster from open to close."""
    kind, folder, label, count = sys.argv[1:]
    run_dir = Path(folder)
    place = Place(run_id=label, run_dir=run_dir, shared=[Path(__file__).parent], label=label)
    backend = KINDS[kind](place)
    try:
        try:
            wanted = [Node(name=f"n{n}", role="server") for n in range(1, int(count) + 1)]
            nodes = await backend.open(wanted)
        except EnvironmentFailed as failed:
            say(error=str(failed))
            return
        holders = {node.name: backend.holder_pid(node.name) for node in nodes}
        say(
            addresses={node.name: node.address for node in nodes},
            pythons={node.name: node.python for node in nodes},
            holders=holders,
        )
        await serve(backend, run_dir)
    finally:
        await backend.close()
    say(closed=True)


if __name__ == "__main__":
    asyncio.run(main())
