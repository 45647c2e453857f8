"""A client leaves a server that is silent, though the kernel still takes its connections."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest

from holdfast.clusters.systems.reference.client import session as talk
from holdfast.clusters.systems.reference.client.session import UNANSWERED, Talk
from holdfast.clusters.systems.reference.wire.frames import Frame

SHORT_S = 0.2


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_silent_server_is_left_by_whoever_waited_its_time(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(talk, "TRY_S", SHORT_S)
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        listening = [f"127.0.0.1:{each.getsockname()[1]}" for each in (one, two)]
        asking = Talk(
            servers=[("n1", listening[0]), ("n2", listening[1])],
            rng=random.Random(1),
            session_ns=0,
            on_event=lambda frame: None,
            on_lost=lambda session: None,
        )

        async def ask() -> tuple[int, int]:
            asked = asking._at
            asking._session = 7
            seq = asking.begin()
            until_s = asking.time() + share * SHORT_S
            # A call that has just the time of one try has less of it when the question leaves.
            await asyncio.sleep(0.001)
            assert await asking.once("renew", seq=seq, until_s=until_s) == UNANSWERED
            left = asking._at
            asking.close()
            return asked, left

        asked, left = asyncio.run(ask())
    assert (asked != left) == (share == 1.0), "a caller in a hurry does not blame the server"


def test_a_session_is_not_asked_about_what_the_one_before_was_asked() -> None:
    asking = Talk(
        servers=[("n1", "127.0.0.1:1")],
        rng=random.Random(1),
        session_ns=0,
        on_event=lambda frame: None,
        on_lost=lambda session: None,
    )
    sent: list[tuple[str, int]] = []

    async def ask(question: dict[str, Any], until_s: float) -> Frame:
        sent.append((question["op"], question["session"]))
        return {"is": "queued" if question["op"] == "acquire" else "cancelled"}

    asking._ask = ask  # type: ignore[method-assign]

    async def work(session: int) -> tuple[Frame, Frame]:
        asking._session = 7
        wait, cancel, until_s = asking.begin(), asking.begin(), asking.time() + 1
        await asking.once("acquire", seq=wait, until_s=until_s)
        asking._session = session
        again = await asking.once("acquire", seq=wait, until_s=until_s)
        return again, await asking.once("cancel", seq=cancel, about=wait, until_s=until_s)

    assert asyncio.run(work(7)) == ({"is": "queued"}, {"is": "cancelled"})
    assert sent == [("acquire", 7), ("acquire", 7), ("cancel", 7)]
    sent.clear()
    assert asyncio.run(work(8)) == (UNANSWERED, UNANSWERED)
    assert sent == [("acquire", 7)]
