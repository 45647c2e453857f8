"""One kind of operation to try on real servers: free, or made impossible in several ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from tests.power.operated_cluster import OperatedCluster, Outcome

Seen = tuple[Outcome, bool | None]
Way = Callable[[], Awaitable[Seen]]
EVERYONE = "all"


class Trials:
    """One kind of operation on one system; `ways`: what makes it impossible, by name.

    few   ways that take seconds: they are tried a few times only
    """

    kind, system, servers = "", "", 1
    options: Mapping[str, str] = {}
    few: Sequence[str] = ()

    def __init__(self, of: OperatedCluster) -> None:
        self.of = of
        self.count = 0

    async def free(self) -> Seen:
        """Nothing hinders the operation."""
        raise NotImplementedError

    def ways(self) -> Mapping[str, Way]:
        raise NotImplementedError

    def address(self, name: str) -> str:
        return self.of.node(name).address
