"""The client of the reference service says no more than it knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clusters.systems.reference.client import client
from holdfast.clusters.systems.reference.talk import NEVER_SENT, UNANSWERED
from holdfast.clusters.systems.reference.wire import Frame
from holdfast.harness.events import Answer, Mode, Status
from holdfast.harness.ports import ClientSetup


def acquire(answers: dict[str, Frame]) -> Answer:
    """What an acquire comes to where the service answers each kind of request like this."""
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=(("n1", "127.0.0.1:1"),),
        lease_ns=10**9,
        options={},
        tell=lambda *args, **given: None,
        seed=1,
    )

    async def work() -> Answer:
        asking = client(setup)

        async def once(op: str, **fields: Any) -> Frame:
            return answers[op]

        asking._talk.once = once  # type: ignore[method-assign]
        return await asking.acquire(
            "l", attempt=1, ttl_ns=10**9, wait_ns=10**7, mode=Mode.EXCLUSIVE
        )

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("of_acquire", "of_cancel", "outcome"),
    [
        (UNANSWERED, {"is": "cancelled"}, Status.FAIL),
        (UNANSWERED, UNANSWERED, Status.INFO),
        (UNANSWERED, NEVER_SENT, Status.INFO),
        (NEVER_SENT, UNANSWERED, Status.FAIL),
    ],
)
def test_an_unanswered_acquire_is_refused_only_if_the_service_took_it_back(
    of_acquire: Frame, of_cancel: Frame, outcome: Status
) -> None:
    assert acquire({"acquire": of_acquire, "cancel": of_cancel}).outcome is outcome
