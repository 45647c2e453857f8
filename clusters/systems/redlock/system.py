"""Driver side of Redlock: independent Redis servers, and the promises that its users rely on.

Promises: exclusion while every server keeps acknowledged keys and all clocks run at one rate
Does not promise: exclusion across a clock step or a restart with data loss, fencing tokens, loss
notification
Tested with: Debian's redis-server 7.0, 5 servers, and our own client; in the simulator the same
client and wire format against our own servers, whose keys expire by their own wall clocks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.operations import NO_LEADER, KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.server import CONFIG_FILE, flush, missing, redis_server, said
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CRASHES, CUTS, STOPS
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"persistence": ("always", "stock", "none")}


class RedlockSystem(KeepsFiles):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.redlock.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (PORT,)
    no_members = "its servers do not know each other"
    no_failover = NO_LEADER

    def promises(self, options: Mapping[str, str]) -> Promises:
        """The promises with the chosen persistence. Raises UsageError."""
        persistence = choose("redlock", options, OPTIONS)["persistence"]
        keeps_time = (
            CUTS,
            STOPS,
            *((CRASHES,) if persistence == "always" else ()),
        )
        reachable = (CUTS, STOPS, CRASHES)
        return replace(
            LEASE,
            slip_ns=5 * MILLISECOND,
            recovery_ns=5 * SECOND,
            keeps=kept(keeps_time, reachable),
            sheet={
                "owner identity": "a value unique to one round of one attempt",
                "acquisition": "SET NX PX on all servers in parallel; more than half must succeed",
                "lease": "the key's time to live on each server's wall clock; ttl - elapsed"
                " - (1% + 2 ms) is the validity",
                "renewal": "compare-and-PEXPIRE on more than half",
                "token enforcement": "none: the value is unique, but not ordered",
                "timeout": "a server without a response within 200 ms counts as a rejection",
                "retry": "a lost round is released; the next begins 10 to 60 ms later",
                "consequence": "a server that loses data or whose clock jumps votes twice: two"
                " clients can both have a majority",
                "clock assumptions": "wall clocks of servers do not step; about one rate",
                "evidence": f"persistence: {persistence}",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """An independent server on every node."""
        chosen = choose("redlock", options, OPTIONS)
        return redis_server(node, place, chosen["persistence"], options)

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: a redis.conf, of each server."""
        return CONFIG_FILE.problems(options)

    def simulated_config(self, node: Node, options: Mapping[str, str]) -> Mapping[str, Json]:
        """The configuration of one server for `redlock.simulated`."""
        persistence = choose("redlock", options, OPTIONS)["persistence"]
        return {"address": node.address, "port": PORT, "persistence": persistence}

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return missing()

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        """SAVE, where no log has every write."""
        await flush(server, choose("redlock", options, OPTIONS)["persistence"])

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node responds to PING."""
        return await said(node.address, PORT, "PING") == ["PONG"]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """There is none."""
        return None


SYSTEM = RedlockSystem()
