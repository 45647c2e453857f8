"""A lease server in the simulator: the same table, without persistence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.clusters.systems.reference.service.simulated_node import Host
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Framed
from holdfast.clusters.systems.single.server import answer
from holdfast.clusters.systems.single.table import Table


async def serve(config: Mapping[str, Any], host: Host) -> None:
    """One lease server, until its process ends."""
    table = Table(str(config["name"]), leases=bool(config.get("leases", True)))

    def connection() -> Framed:
        return Framed(
            lambda wire, frame: answer(table, wire, frame, host.mono_ns),
            lambda wire, reason: host.say(f"client {wire.peer}: {reason:.200}"),
        )

    loop = asyncio.get_running_loop()
    await loop.create_server(connection, str(config["address"]), DEFAULT_PORT)
    await loop.create_future()
