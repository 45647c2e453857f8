"""One lease server as a process: `table.Table` behind a TCP port, nothing on disk.

Run as `python -S -m holdfast.clusters.systems.single.server --config JSON`, where JSON is
{"name", "address", "port", "leases"}; with "trace": file, it writes its steps there. Log lines go
to stderr; it stops with code 0 on SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.clusters.systems.reference.service.server import boot_ns, say
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Frame, Framed
from holdfast.clusters.systems.single.table import Table


def answer(
    table: Table, wire: Framed, frame: Frame, now: Callable[[], int] = time.monotonic_ns
) -> None:
    """Responds to one frame on its connection; the lease clock is the monotonic one."""
    reply = table.answer(now(), frame)
    if not wire.send({"id": frame.get("id"), **reply}):
        wire.drop("it does not read what it is sent")


async def serve(config: Mapping[str, Any]) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    name, address = str(config["name"]), str(config["address"])
    port = int(config.get("port", DEFAULT_PORT))
    table = _table(name, config)

    def connection() -> Framed:
        return Framed(
            lambda wire, frame: answer(table, wire, frame),
            lambda wire, reason: say(f"client {wire.peer}: {reason:.200}"),
        )

    listening = await loop.create_server(connection, address, port, reuse_address=True)
    say(f"{name} listens on {address}:{port}, with an empty table")
    await stop.wait()
    listening.close()


def _table(name: str, config: Mapping[str, object]) -> Table:
    """The table; one that writes its steps to a file if the run has a trace."""
    leases = bool(config.get("leases", True))
    if "trace" not in config:
        return Table(name, leases=leases)
    # What only a run with a trace needs is loaded in such a run.
    from holdfast.clusters.systems.reference.service.trace_file import TraceFile
    from holdfast.clusters.systems.single.tracing import TracedTable

    file = TraceFile(Path(str(config["trace"])))
    return TracedTable(name, leases=leases, emit=file.append, run_ns=boot_ns)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line of a lease server; the exit code."""
    parser = argparse.ArgumentParser(description="a lease server that keeps nothing on disk")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config = json.loads(parser.parse_args(argv).config)
    try:
        asyncio.run(serve(config))
    except OSError as error:
        say(f"cannot go on: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
