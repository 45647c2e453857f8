"""The planted bugs of the majority vote's client, each one thing done wrong.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.clusters.systems.majority.client import MajorityClient
from holdfast.clusters.systems.reference.wire.frames import Frame


class LeakyRound(MajorityClient):
    """Gives nothing back of a round that it lost."""

    async def _give_back(
        self, lock: str, owner: int, decided: Callable[[list[Frame]], bool]
    ) -> list[Frame]:
        held = any(owner == kept for kept in self._owners.values())
        return await super()._give_back(lock, owner, decided) if held else []


class WideQuorum(MajorityClient):
    """Wants half of the servers, rounded up, and one more: of three all, of five four."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._quorum = (len(self._remotes) + 1) // 2 + 1


class EveryVote(MajorityClient):
    """Wants a yes from every server."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._quorum = len(self._remotes)


CLIENTS: dict[str, type[MajorityClient]] = {
    "leaky-round": LeakyRound,
    "wide-quorum": WideQuorum,
    "every-vote": EveryVote,
}
"""name -> the client with that bug"""
