"""The planted bugs of the service's client: a lock is its client as much as its servers.

The front door's table says of each what it breaks. None of this is loaded unless a run asks for it.
"""

from __future__ import annotations

from typing import Any

from holdfast.clusters.systems.reference.client import ReferenceClient
from holdfast.clusters.systems.reference.talk import UNANSWERED
from holdfast.clusters.systems.reference.wire import Frame
from holdfast.harness.events import Answer, Grant, Status


class SilentRenewal(ReferenceClient):
    """Renews a hold twice; from then on it only says so."""

    def __init__(self, setup: Any) -> None:
        super().__init__(setup)
        self._renewals: dict[int, int] = {}

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`."""
        seen = self._renewals[grant.attempt] = self._renewals.get(grant.attempt, 0) + 1
        if seen > 2:
            return Answer(outcome=Status.OK, token=grant.token, ttl_ns=ttl_ns)
        return await super().renew(grant, ttl_ns=ttl_ns)


class DeafHolder(ReferenceClient):
    """Tells nobody that a hold was lost."""

    def _lost(self, attempt: int, reason: str) -> None:
        self._holds.pop(attempt, None)


class DeafWaiter(ReferenceClient):
    """Waits for word of its turn, and neither asks nor looks at the time."""

    def _decide(self, seq: int, answer: Frame) -> None:
        if answer is not UNANSWERED:
            super()._decide(seq, answer)

    def _on_wait_state(self, seq: int, state: Frame) -> None:
        """Does not ask, so it learns nothing."""


class BeatFromTheAnswer(ReferenceClient):
    """Counts the time of its session from when it heard of it."""

    def _left_ns(self, answer: Frame, sent_s: float) -> int:
        return int(answer["ttl_ns"])


class QuietSessionEnd(ReferenceClient):
    """Opens a new session where the old one has ended, and goes on with its holds."""

    def _on_session_lost(self) -> None:
        """Keeps it to itself."""


CLIENTS: dict[str, type[ReferenceClient]] = {
    "silent-renewal": SilentRenewal,
    "deaf-holder": DeafHolder,
    "deaf-waiter": DeafWaiter,
    "beat-from-the-answer": BeatFromTheAnswer,
    "quiet-session-end": QuietSessionEnd,
}
"""name -> the client with that bug"""
