"""A client's way to servers: one connection at a time, answers matched to questions by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.clusters.systems.reference.wire import DEFAULT_PORT, Frame, Framed, endpoint

CONNECT_S = 0.5


class NotSent(Exception):
    """The question never left: it surely has no effect."""


class NoAnswer(Exception):
    """The question may have arrived; whether it took effect is unknown."""


def _give_up(answer: asyncio.Future[Frame], after_s: float) -> None:
    if not answer.done():
        answer.set_exception(NoAnswer(f"no answer within {after_s:.3f} s"))


class Link:
    """One connection to one server. `on_event` gets what the server says unasked."""

    def __init__(self, on_event: Callable[[Frame], None]) -> None:
        self._on_event = on_event
        self._wire: Framed | None = None
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._number = 0

    @property
    def open(self) -> bool:
        """Whether there is a connection, as far as is known here."""
        return self._wire is not None

    async def connect(self, address: str, within_s: float, port: int = DEFAULT_PORT) -> None:
        """Opens the connection. Raises NotSent."""
        loop = asyncio.get_running_loop()
        host, at = endpoint(address, port)
        try:
            async with asyncio.timeout(min(CONNECT_S, within_s)):
                _, wire = await loop.create_connection(self._make, host, at)
        except (OSError, TimeoutError) as error:
            raise NotSent(f"{address}: {error or 'no connection in time'}") from None
        self._wire = wire

    async def ask(self, question: dict[str, Any], within_s: float) -> Frame:
        """The answer to a question, within so many seconds. Raises NotSent, NoAnswer."""
        loop = asyncio.get_running_loop()
        self._number += 1
        number = self._number
        if self._wire is None or not self._wire.send({"id": number, **question}):
            raise NotSent("the connection is closed")
        answer: asyncio.Future[Frame] = loop.create_future()
        self._waiting[number] = answer
        # After a stop of this process both are there at once; loops look at what has come before
        # they look at what is due, so that the answer counts.
        timer = loop.call_later(within_s, _give_up, answer, within_s)
        try:
            return await answer
        finally:
            timer.cancel()
            self._waiting.pop(number, None)

    def close(self, reason: str) -> None:
        """Ends the connection; whoever still waits for an answer gets NoAnswer."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop(reason)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoAnswer(reason))

    def _make(self) -> Framed:
        return Framed(self._on_frame, self._on_close)

    def _on_frame(self, wire: Framed, frame: Frame) -> None:
        if wire is not self._wire:
            return
        if "event" in frame:
            self._on_event(frame)
            return
        number = frame.get("id")
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is not None and not answer.done():
            answer.set_result(frame)

    def _on_close(self, wire: Framed, reason: str) -> None:
        if wire is self._wire:
            self._wire = None
            self.close(reason)
