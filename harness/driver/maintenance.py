"""Maintenance that an operator requests of one server: compaction of history, defragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.harness.core.ports import Maintained

if TYPE_CHECKING:
    from holdfast.harness.driver.operations import Evidence, Servers


class Maintaining:
    """A request to each server, one after the other. Effective if all of them reported success."""

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._what = what
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Requests it and waits for the responses. Errors: EnvironmentFailed."""
        of, begun_ns = self._of, self._of.now()
        system = of.system
        assert isinstance(system, Maintained), "the plan was refused otherwise"
        for node in of.nodes:
            reported = await system.maintain(node, of.options, self._what)
            self.evidence[node.name] = dict(reported)
        self.evidence |= {"operated_ns": [begun_ns, of.now()], "effective": bool(of.nodes)}
        return begun_ns

    async def end(self) -> None:
        """Nothing is left to do: what was deleted stays deleted."""
