"""A lease server in the simulator: the same table, without persistence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from holdfast.clusters.systems.reference.service.simulated_node import TracedHost
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Framed
from holdfast.clusters.systems.single.server import answer
from holdfast.clusters.systems.single.table import Table
from holdfast.clusters.systems.single.tracing import TracedTable


async def serve(config: Mapping[str, object], host: TracedHost) -> None:
    """One lease server, until its process ends."""
    name, leases = str(config["name"]), bool(config.get("leases", True))
    if host.trace is None:
        table = Table(name, leases=leases)
    else:
        table = TracedTable(name, leases=leases, emit=host.trace.append, run_ns=host.run_ns)

    def connection() -> Framed:
        return Framed(
            lambda wire, frame: answer(table, wire, frame, host.mono_ns),
            lambda wire, reason: host.say(f"client {wire.peer}: {reason:.200}"),
        )

    loop = asyncio.get_running_loop()
    await loop.create_server(connection, str(config["address"]), DEFAULT_PORT)
    await loop.create_future()
