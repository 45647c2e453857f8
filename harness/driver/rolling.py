"""Operations on one server after the other: rolling restarts and upgrades to another release."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Node, Releases

if TYPE_CHECKING:
    from holdfast.harness.driver.operations import Evidence, Servers


class Restarting:
    """Servers that are killed and started again, each after its predecessor is ready. Effective if
    each runs as another process then."""

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Restarts them all."""
        of, begun_ns = self._of, self._of.now()
        before = self._pids()
        for node in of.nodes:
            async with of.stopped([node.name]):
                pass
            await of.ready([node])
        after = self._pids()
        restarted: list[Json] = [name for name in of.names if before[name] != after[name]]
        self.evidence |= {
            "operated_ns": [begun_ns, of.now()],
            "restarted": restarted,
            "effective": len(restarted) == len(of.names) > 0,
        }
        return begun_ns

    def _pids(self) -> dict[str, int]:
        """The process of each server."""
        return {name: self._of.cluster.running[name].pid for name in self._of.names}

    async def end(self) -> None:
        """Nothing is left to do."""


class Upgrading:
    """Servers that are started with another release, each after its predecessor is ready.

    A server that does not serve with it gets its present release back at once, as an operator would
    do it, and the others keep theirs. At the heal all get the plan's release if the fault says so.
    """

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._begun_ns = 0
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Starts them with the other release."""
        of = self._of
        self._begun_ns = of.now()
        self.evidence["before"] = before = await self._releases()
        assert isinstance(of.system, Releases), "the plan was refused otherwise"
        release = of.system.releases(of.options)[str(of.args["to"])]
        await self._roll(of.nodes, release)
        self.evidence["after"] = after = await self._releases()
        both = [(before[name], after[name]) for name in of.names]
        self._note(any(old and new and old != new for old, new in both))
        return self._begun_ns

    async def end(self) -> None:
        """Starts them with the plan's release again, the last one first, if the fault says so."""
        of = self._of
        if of.args["back"]:
            upgraded = [node for node in of.nodes if node.name in of.cluster.upgraded]
            await self._roll(upgraded[::-1], None)
            self.evidence["back"] = await self._releases()
            self._note(bool(self.evidence["effective"]))

    async def _roll(self, nodes: Sequence[Node], release: Mapping[str, str] | None) -> None:
        """Starts servers with the options of a release, None for that of the plan; stops at the
        first that does not serve with it, which gets its present release back."""
        for node in nodes:
            present = self._of.cluster.upgraded.get(node.name)
            try:
                await self._start(node, release)
            except EnvironmentFailed as refused:
                self.evidence["problem"] = str(refused)
                await self._start(node, present)
                return

    async def _start(self, node: Node, release: Mapping[str, str] | None) -> None:
        """Starts one server with a release and waits until it serves. Errors: EnvironmentFailed."""
        cluster = self._of.cluster
        async with AsyncExitStack() as stack:
            running = cluster.alive(node.name)
            if running:
                await stack.enter_async_context(self._of.stopped([node.name]))
            if release is None:
                cluster.upgraded.pop(node.name, None)
            else:
                cluster.upgraded[node.name] = release
        if not running:
            await cluster.start(node.name)
        await self._of.ready([node])

    async def _releases(self) -> dict[str, Json]:
        of = self._of
        assert isinstance(of.system, Releases), "the plan was refused otherwise"
        asked = await asyncio.gather(*(of.system.release(n, of.options) for n in of.nodes))
        return dict(zip(of.names, asked, strict=True))

    def _note(self, effective: bool) -> None:
        """Adds the verdict on the effect, and between which times servers were restarted."""
        operated = [self._begun_ns, self._of.now()]
        self.evidence |= {"effective": effective, "operated_ns": operated}
