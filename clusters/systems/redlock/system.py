"""Redlock as the driver sees it: independent Redis servers, and what the algorithm's users rely on.

Promises: exclusion while every server keeps what it answered and all clocks run at one pace
Does not promise: exclusion across a clock step or a restart that forgets, fencing tokens, notices
Tested with: Debian's redis-server 7.0, five of them, and our own client; in the simulator the same
client and wire format against servers of ours that keep keys by their own wall clocks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.server import missing, redis_server, said
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"persistence": ("always", "stock", "none")}


class RedlockSystem:
    """A System; `SYSTEM` is the one."""

    client = "holdfast.clusters.systems.redlock.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (PORT,)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What holds for the chosen persistence. Raises UsageError."""
        persistence = choose("redlock", options, OPTIONS)["persistence"]
        keeps_time = ("partition", "pause", *(("kill",) if persistence == "always" else ()))
        reachable = ("partition", "pause", "kill")
        return Promises(
            purpose="correctness",
            bound="lease",
            renew_proves=True,
            release_proves=True,
            release_once=True,
            slip_ns=5 * MILLISECOND,
            drift_ppm=1000,
            tokens="none",
            tokens_unique=False,
            order="racing",
            notice_ns=0,
            recovery_ns=5 * SECOND,
            keeps={
                "mutual-exclusion": keeps_time,
                "ownership": keeps_time,
                "deadlock-freedom": reachable,
                "orphan-freedom": reachable,
                "no-hung-request": ("any",),
            },
            sheet={
                "owner identity": "a value unique to one round of one attempt",
                "acquisition": "SET NX PX on all servers at once; more than half must do it",
                "lease": "the key's time to live on each server's wall clock; ttl - elapsed"
                " - (1 percent + 2 ms) of it counts",
                "renewal": "compare-and-PEXPIRE on more than half",
                "token enforcement": "none: the value is unique, but says nothing about order",
                "timeout": "a server that is silent for 200 ms has not voted",
                "retry": "a lost round is given back; the next begins 10 to 60 ms later",
                "consequence": "a server that forgets, or whose clock jumps, votes twice, and two"
                " clients can both have more than half",
                "clock assumptions": "no wall clock of a server steps; all run at nearly one pace",
                "evidence": f"persistence: {persistence}",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """A server of its own on every node; none knows of the others."""
        return redis_server(node, place, choose("redlock", options, OPTIONS)["persistence"])

    def simulated_config(self, node: Node, options: Mapping[str, str]) -> Mapping[str, Any]:
        """What `redlock.simulated` needs to know of one server."""
        persistence = choose("redlock", options, OPTIONS)["persistence"]
        return {"address": node.address, "port": PORT, "persistence": persistence}

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return missing()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node answers PING."""
        return await said(node.address, PORT, "PING") == ["PONG"]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> str | None:
        """There is none."""
        return None


SYSTEM = RedlockSystem()
