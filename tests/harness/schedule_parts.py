"""What a schedule needs beside its faults: a cluster of nodes, and clients that hold nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.harness.core.ports import Leader, Node
from holdfast.harness.history.so_far import Hold
from holdfast.harness.plans.events import Event


@dataclass
class Nodes:
    """A cluster without a leader; `started` lists the nodes that the schedule started again."""

    nodes: Sequence[Node]
    started: list[str] = field(default_factory=list)

    async def leader(self) -> Leader | None:
        return None

    async def start(self, name: str) -> None:
        self.started.append(name)

    async def refresh(self) -> None:
        return


class NoHolders:
    """The current holders of a run in which nobody acquires."""

    def holds(self) -> Sequence[Hold]:
        return []

    async def news(self) -> None:
        return

    def happened(self, what: Event) -> tuple[int, int]:
        return 0, 0

    changes = news
