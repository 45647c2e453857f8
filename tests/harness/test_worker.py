"""A client that is started again while its servers are away waits for them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from holdfast.harness.client import worker
from holdfast.harness.client.context import Context
from holdfast.harness.recording.phase import GO, STOP


class Clients:
    """Makes clients whose servers are away for the first few; knows which were closed."""

    def __init__(self, *raised: Exception) -> None:
        self.raised = list(raised)
        self.made: list[Any] = []

    def make(self) -> Context:
        self.made.append(_Client(self.raised.pop(0) if self.raised else None))
        return cast("Context", self.made[-1])


class _Client:
    def __init__(self, raises: Exception | None) -> None:
        self.raises = raises
        self.closed = 0

    async def open(self) -> None:
        if self.raises is not None:
            raise self.raises

    async def close(self) -> None:
        self.closed += 1


def open_one(clients: Clients, *, again: bool, phases: list[int]) -> Context | None:
    def phase() -> int:
        return phases.pop(0) if len(phases) > 1 else phases[0]

    return asyncio.run(worker.opened(clients.make, phase, again=again))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "AGAIN_S", 0)


def test_it_is_made_and_opened_anew_until_its_servers_are_back() -> None:
    clients = Clients(ConnectionRefusedError(), TimeoutError(), RuntimeError("no servers"))
    ctx = open_one(clients, again=True, phases=[GO])
    assert ctx is clients.made[3]
    assert [one.closed for one in clients.made] == [1, 1, 1, 0]


def test_it_gives_up_when_no_new_work_may_begin() -> None:
    clients = Clients(*(ConnectionRefusedError() for _ in range(9)))
    assert open_one(clients, again=True, phases=[GO, GO, STOP]) is None
    assert len(clients.made) == 3


def test_the_first_start_of_a_client_is_not_repeated() -> None:
    with pytest.raises(ConnectionRefusedError):
        open_one(Clients(ConnectionRefusedError()), again=False, phases=[GO])


def test_a_mistake_in_code_is_not_repeated() -> None:
    with pytest.raises(ModuleNotFoundError):
        open_one(Clients(ModuleNotFoundError("redis")), again=True, phases=[GO])
