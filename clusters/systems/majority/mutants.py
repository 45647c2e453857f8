"""Planted bugs of the majority vote's client, one error each.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.clusters.systems.majority.client import MajorityClient
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.harness.core.ports import ClientSetup


class LeakyRound(MajorityClient):
    """Does not release the leases of a lost round."""

    async def _give_back(
        self, lock: str, owner: int, decided: Callable[[list[Frame]], bool]
    ) -> list[Frame]:
        held = any(owner == kept for kept in self._owners.values())
        return await super()._give_back(lock, owner, decided) if held else []


class WideQuorum(MajorityClient):
    """Quorum too large: half of the servers, rounded up, plus one: all of three, four of five."""

    def __init__(self, setup: ClientSetup) -> None:
        super().__init__(setup)
        self._quorum = (len(self._remotes) + 1) // 2 + 1


class EveryVote(MajorityClient):
    """Requires all replicas."""

    def __init__(self, setup: ClientSetup) -> None:
        super().__init__(setup)
        self._quorum = len(self._remotes)


CLIENTS: dict[str, type[MajorityClient]] = {
    "leaky-round": LeakyRound,
    "wide-quorum": WideQuorum,
    "every-vote": EveryVote,
}
"""name -> the client with that bug"""
