"""Planted bugs of the service's client: a lock depends on its client as much as on its servers.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holdfast.clusters.systems.reference.client.lock_client import ReferenceClient
from holdfast.clusters.systems.reference.client.session import UNANSWERED
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Op, Status, Terms
from holdfast.harness.core.ports import ClientSetup


class SilentRenewal(ReferenceClient):
    """Renews a hold once; later renewals only return ok."""

    def __init__(self, setup: ClientSetup) -> None:
        super().__init__(setup)
        self._renewals: dict[int, int] = {}

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`."""
        seen = self._renewals[grant.attempt] = self._renewals.get(grant.attempt, 0) + 1
        if seen > 1:
            return Answer(outcome=Status.OK, token=grant.token, ttl_ns=ttl_ns)
        return await super().renew(grant, ttl_ns=ttl_ns)


class DeafWaiter(ReferenceClient):
    """Waits for a notification of its turn, without polling and without a timeout."""

    def _decide(self, seq: int, answer: Frame) -> None:
        if answer is not UNANSWERED:
            super()._decide(seq, answer)

    def _on_wait_state(self, seq: int, state: Frame, asked_s: float) -> None:
        """Ignores the state, because it does not poll."""


class LateWord(ReferenceClient):
    """Handles the notification of a grant three seconds after its arrival."""

    def _decide(self, seq: int, answer: Frame) -> None:
        if answer["is"] == "granted":
            asyncio.get_running_loop().call_later(3.0, super()._decide, seq, answer)
        else:
            super()._decide(seq, answer)


class UnheardLoss(ReferenceClient):
    """Drops a hold that it lost, without a loss notification."""

    def _lost(self, attempt: int, reason: str) -> None:
        self._holds.pop(attempt, None)

    def _on_session_lost(self, session: int) -> None:
        tell, self._setup = self._setup, replace(self._setup, tell=_nobody)
        try:
            super()._on_session_lost(session)
        finally:
            self._setup = tell


def _nobody(
    op: Op,
    *,
    attempt: int,
    lock: str,
    res: int = 0,
    text: str = "",
    token: int = NO_TOKEN,
    arg: int = 0,
) -> None:
    """Notifies no callback."""


class CountedFromAnswer(ReferenceClient):
    """Counts the time promised to its session from the response, not from the request."""

    def _alive(self, ttl_ns: int, sent_s: float, session: int) -> None:
        super()._alive(ttl_ns, self._talk.time(), session)


class UnreadAnswer(ReferenceClient):
    """Waits for a response, and treats every one as a grant."""

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """As `TermsLockClient`."""
        answer = await super().acquire_on(
            lock, attempt=attempt, ttl_ns=ttl_ns, wait_ns=wait_ns, terms=terms
        )
        if answer.outcome is not Status.FAIL:
            return answer
        return Answer(outcome=Status.OK, token=answer.token, ttl_ns=ttl_ns)


CLIENTS: dict[str, type[ReferenceClient]] = {
    "silent-renewal": SilentRenewal,
    "deaf-waiter": DeafWaiter,
    "unread-answer": UnreadAnswer,
    "late-word": LateWord,
    "unheard-loss": UnheardLoss,
    "counted-from-answer": CountedFromAnswer,
}
"""name -> the client with that bug"""
