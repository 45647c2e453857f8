"""The client that a recipe of kazoo gets: reports each watch that a server has accepted from it.

A contender that is not the first watches the node before its own. The answer to that request shows
that the service has queued it; the recipe itself does not say so, and no request is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.protocol.states import WatchedEvent, ZnodeStat


class WatchReporter:
    """All of a client, except that `waits` is called after each watch of a node that exists."""

    def __init__(self, client: KazooClient, waits: Callable[[], object]) -> None:
        self._client = client
        self._waits = waits

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def get(
        self, path: str, watch: Callable[[WatchedEvent], object] | None = None
    ) -> tuple[bytes, ZnodeStat]:
        """As `KazooClient.get`; raises what it raises."""
        answer: tuple[bytes, ZnodeStat] = self._client.get(path, watch)
        if watch is not None:
            self._waits()
        return answer
