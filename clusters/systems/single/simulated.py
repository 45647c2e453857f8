"""A lease server in the simulator: the same table, without persistence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from holdfast.clusters.systems.reference.service.simulated_node import TracedHost
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Framed
from holdfast.clusters.systems.single.server import answer
from holdfast.clusters.systems.single.specification import Answered, Started
from holdfast.clusters.systems.single.table import Table


class TracedTable(Table):
    """A table that tells each of its answers."""

    def __init__(self, name: str, *, leases: bool, trace: list[object], host: TracedHost) -> None:
        super().__init__(name, leases=leases)
        self._trace, self._host = trace, host
        trace.append(Started(name, host.run_ns()))

    def answer(self, now_ns: int, question: Mapping[str, object]) -> Mapping[str, object]:
        """As `Table`."""
        said = super().answer(now_ns, question)
        step = Answered(self.name, self._host.run_ns(), now_ns, question, said)
        self._trace.append(step)
        return said


async def serve(config: Mapping[str, object], host: TracedHost) -> None:
    """One lease server, until its process ends."""
    name, leases = str(config["name"]), bool(config.get("leases", True))
    if host.trace is None:
        table = Table(name, leases=leases)
    else:
        table = TracedTable(name, leases=leases, trace=host.trace, host=host)

    def connection() -> Framed:
        return Framed(
            lambda wire, frame: answer(table, wire, frame, host.mono_ns),
            lambda wire, reason: host.say(f"client {wire.peer}: {reason:.200}"),
        )

    loop = asyncio.get_running_loop()
    await loop.create_server(connection, str(config["address"]), DEFAULT_PORT)
    await loop.create_future()
