"""The client of the reference service says no more than it knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clusters.systems.reference.client.session import NEVER_SENT, UNANSWERED
from holdfast.clusters.systems.reference.factory import client
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup

GRANT = Grant(lock="l", attempt=1, token=1, ttl_ns=1, granted_at_ns=0)


def setup_of(options: dict[str, str]) -> ClientSetup:
    """A client of a server that is not there."""
    return ClientSetup(
        process=1,
        name="c1",
        servers=(("n1", "127.0.0.1:1"),),
        lease_ns=10**9,
        options=options,
        tell=lambda *args, **given: None,
        seed=1,
    )


def acquire(answers: dict[str, Frame], asked: list[Frame] | None = None, **options: str) -> Answer:
    """What an acquire comes to where the service answers each kind of request like this.

    asked: takes in what the client asked for, until nothing more is under way.
    """
    setup = setup_of(options)

    async def work() -> Answer:
        asking = client(setup)

        async def once(op: str, **fields: Any) -> Frame:
            if asked is not None:
                asked.append({"op": op, **fields})
            return answers[op]

        asking._talk.once = once  # type: ignore[method-assign]
        answer = await asking.acquire(
            "l", attempt=1, ttl_ns=10**9, wait_ns=10**7, mode=Mode.EXCLUSIVE
        )
        await asyncio.gather(*asking._tasks)
        return answer

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


@pytest.mark.parametrize(("options", "taken_back"), [({"session_ms": "900"}, [True]), ({}, [])])
def test_an_acquire_of_unknown_outcome_is_taken_back_where_no_lease_would_end_its_hold(
    options: dict[str, str], taken_back: list[bool]
) -> None:
    asked: list[Frame] = []
    answer = acquire(
        {"acquire": {"is": "no-session"}, "cancel": {"is": "cancelled"}}, asked, **options
    )
    assert answer.outcome is Status.INFO
    assert [one["drop"] for one in asked if one["op"] == "cancel"] == taken_back


@pytest.mark.parametrize("first", [UNANSWERED, NEVER_SENT])
@pytest.mark.parametrize(("options", "times"), [({"session_ms": "900"}, 2), ({}, 1)])
def test_a_release_without_an_answer_is_asked_again_where_no_lease_would_end_the_hold(
    options: dict[str, str], times: int, first: Frame
) -> None:
    answers = iter([first, {"is": "released"}])

    async def work() -> tuple[Answer, list[str]]:
        releasing = client(setup_of(options))
        asked: list[str] = []

        async def once(op: str, **fields: Any) -> Frame:
            asked.append(op)
            return next(answers)

        releasing._talk.once = once  # type: ignore[method-assign]
        answer = await releasing.release(GRANT)
        await asyncio.gather(*releasing._tasks)
        return answer, asked

    answer, asked = asyncio.run(work())
    surely_not = times == 1 and first is NEVER_SENT
    assert answer.outcome is (Status.FAIL if surely_not else Status.INFO)
    assert asked == ["release"] * times


@pytest.mark.parametrize(("lost", "outcome"), [(7, Status.INFO), (6, Status.OK)])
def test_nobody_waits_on_in_a_session_that_is_over(lost: int, outcome: Status) -> None:
    async def work() -> Answer:
        waiting = client(setup_of({"session_ms": "900"}))
        queued = asyncio.Event()

        async def once(op: str, **fields: Any) -> Frame:
            queued.set()
            return {"is": "queued", "place": 0} if op == "acquire" else {"is": "cancelled"}

        waiting._talk.once = once  # type: ignore[method-assign]
        waiting._talk.sent_in = lambda seq: 7  # type: ignore[method-assign]
        asking = waiting.acquire("l", attempt=1, ttl_ns=10**9, wait_ns=10**12, mode=Mode.EXCLUSIVE)
        task = asyncio.get_running_loop().create_task(asking)
        await queued.wait()
        await asyncio.sleep(0)
        waiting._on_session_lost(lost)
        waiting._decide(1, {"is": "granted", "token": 1})
        answer = await asyncio.wait_for(task, 10)
        assert waiting._looking is not None
        waiting._looking.cancel()
        await asyncio.gather(*waiting._tasks)
        return answer

    assert asyncio.run(work()).outcome is outcome
