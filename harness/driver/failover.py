"""Failovers that an operator requests: another server becomes the leader of a lock in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import FailsOver
from holdfast.harness.core.waiting import until_answer

if TYPE_CHECKING:
    from holdfast.harness.driver.operations import Evidence, Servers

LEADS_WITHIN_NS = 10 * SECOND


class FailingOver:
    """A leader that is replaced by another server. Effective if the system then reports another."""

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._what = what
        self._before = ""
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Requests it and waits until another server leads."""
        of, begun_ns = self._of, self._of.now()
        system = of.system
        assert isinstance(system, FailsOver), "the plan was refused otherwise"
        leader = await of.cluster.leader()
        if leader is None or leader.name not in of.names:
            raise EnvironmentFailed(f"{' and '.join(of.names)} does not lead any more")
        self._before = leader.name
        (node,) = (node for node in of.nodes if node.name == leader.name)
        await system.fail_over(node, of.all, of.options, self._what)
        moved = await until_answer(self._moved, within_ns=LEADS_WITHIN_NS, now=of.now)
        after = await of.cluster.leader()
        self.evidence |= {
            "leader before": self._before,
            "leader after": "" if after is None else after.name,
            "operated_ns": [begun_ns, of.now()],
            "effective": moved,
        }
        return begun_ns

    async def _moved(self) -> bool:
        leader = await self._of.cluster.leader()
        return leader is not None and leader.name != self._before

    async def end(self) -> None:
        """Nothing is left to do: the new leader stays."""
