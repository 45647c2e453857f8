"""Failovers that an operator requests: another server becomes the leader of a lock in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import FORCE, HANDOVER
from holdfast.harness.core.ports import FailsOver, Leader, Node, Rejoins
from holdfast.harness.core.waiting import until_answer
from holdfast.harness.runs.journal import WAITED

if TYPE_CHECKING:
    from holdfast.harness.driver.operations import Evidence, Servers

LEADS_WITHIN_NS = 10 * SECOND
REPLICA_WITHIN_NS = 20 * SECOND
"""Wait for a replica that can be promoted: a former leader may still be copied."""


class FailingOver:
    """A leader that is replaced by another server. Effective if the system then reports another.

    Where a former leader is no replica by itself (port `Rejoins`) it becomes one: at once after a
    handover, for which it is shut down first; at the heal if it was forced, so that it runs on as a
    second leader until then.
    """

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._what = what
        self._before = ""
        self._second: Node | None = None
        self._begun_ns = 0
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Requests it and waits until another server leads."""
        of = self._of
        leader = await self._leader()
        (node,) = (node for node in of.nodes if node.name == leader.name)
        if isinstance(of.system, Rejoins):
            await self._until_replaceable(node, of.system)
            leader = await self._leader()
            (node,) = (node for node in of.nodes if node.name == leader.name)
        self._begun_ns = of.now()
        self._before = leader.name
        if self._what == HANDOVER and isinstance(of.system, Rejoins):
            moved = await self._switch_over(node, of.system)
        else:
            moved = await self._move(node)
            self._second = node if moved and isinstance(of.system, Rejoins) else None
        after = await of.cluster.leader()
        terms = {"term before": leader.term, "term after": after.term if after else None}
        self.evidence |= {name: term for name, term in terms.items() if term is not None}
        self.evidence |= {
            "leader before": self._before,
            "leader after": "" if after is None else after.name,
            "operated_ns": [self._begun_ns, of.now()],
            "effective": moved,
        }
        return self._begun_ns

    async def end(self) -> None:
        """A forced former leader becomes a replica; it may have been killed by another fault, which
        starts it again. Otherwise nothing is left to do: the new leader stays."""
        of, node, system = self._of, self._second, self._of.system
        if node is None:
            return
        assert isinstance(system, Rejoins)
        begun_ns = of.now()
        if of.cluster.alive(node.name):
            async with of.stopped([node.name]):
                system.rejoin(node, of.place, self._what)
            try:
                await of.ready([node])
            except EnvironmentFailed as late:
                self.evidence["problem"] = str(late)
        else:
            system.rejoin(node, of.place, self._what)
        # What the second leader granted until now is undone here, not by the promotion.
        self.evidence |= {"rejoined": node.name, "rejoined_ns": [begun_ns, of.now()]}

    async def _leader(self) -> Leader:
        """The present leader. One that does not respond is the only target of a forced failover."""
        of = self._of
        leader = await of.cluster.leader()
        if leader is None and self._what == FORCE and len(of.nodes) == 1:
            return Leader(of.names[0])
        if leader is None or leader.name not in of.names:
            raise EnvironmentFailed(f"{' and '.join(of.names)} does not lead any more")
        return leader

    async def _until_replaceable(self, node: Node, system: Rejoins) -> None:
        """Waits until another server can be promoted. Errors: EnvironmentFailed."""
        of, since_ns = self._of, self._of.now()

        async def replaceable() -> bool:
            return await system.replaceable(node, of.all, of.options, self._what)

        if not await until_answer(replaceable, within_ns=REPLICA_WITHIN_NS, now=of.now):
            bound = f"{REPLICA_WITHIN_NS // SECOND} s"
            raise EnvironmentFailed(
                f"no other server than {node.name} was a replica that could be promoted within"
                f" {bound}"
            )
        self.evidence[WAITED] = of.now() - since_ns

    async def _switch_over(self, node: Node, system: Rejoins) -> bool:
        """Shuts the leader down, moves the lead and starts it again; a replica if that worked."""
        of, moved = self._of, False
        await of.shut_down(node, system.stops_with)
        try:
            moved = await self._move(node)
            if moved:
                system.rejoin(node, of.place, self._what)
        finally:
            await of.cluster.start(node.name)
        try:
            await of.ready([node])
        except EnvironmentFailed as late:
            self.evidence["problem"] = str(late)
        return moved

    async def _move(self, node: Node) -> bool:
        """Requests another leader; whether there is one within a bound."""
        of = self._of
        assert isinstance(of.system, FailsOver), "the plan was refused otherwise"
        await of.system.fail_over(node, of.all, of.options, self._what)
        return await until_answer(self._moved, within_ns=LEADS_WITHIN_NS, now=of.now)

    async def _moved(self) -> bool:
        leader = await self._of.cluster.leader()
        return leader is not None and leader.name != self._before
