"""A client's connection to a server: responses are matched to requests by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT, Frame, Framed, endpoint

CONNECT_S = 0.5


class NotSent(Exception):
    """The request was never sent: certainly no effect."""


class NoAnswer(Exception):
    """The request may have arrived; whether it took effect is unknown."""


class Link:
    """One connection to one server. `on_event` receives the server's notifications."""

    def __init__(self, on_event: Callable[[Frame], None]) -> None:
        self._on_event = on_event
        self._wire: Framed | None = None
        self._waiting: dict[int, tuple[asyncio.Future[Frame], float, float]] = {}
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def open(self) -> bool:
        """Whether there is a connection, as far as this end knows."""
        return self._wire is not None

    async def connect(self, address: str, within_s: float, port: int = DEFAULT_PORT) -> None:
        """Opens the connection. Raises NotSent."""
        loop = self._loop = asyncio.get_running_loop()
        host, at = endpoint(address, port)
        try:
            async with asyncio.timeout(min(CONNECT_S, within_s)):
                _, wire = await loop.create_connection(self._make, host, at)
        except (OSError, TimeoutError) as error:
            raise NotSent(f"{address}: {error or 'no connection in time'}") from None
        self._wire = wire

    async def ask(self, question: dict[str, Any], within_s: float) -> Frame:
        """The response to a request, within a timeout. Raises NotSent, NoAnswer.

        The request gets a number, and belongs to the link from then on.
        """
        number = self._number = question["id"] = self._number + 1
        wire, loop = self._wire, self._loop
        if wire is None or loop is None or not wire.send(question):
            raise NotSent("the connection is closed")
        answer: asyncio.Future[Frame] = loop.create_future()
        until_s = loop.time() + within_s
        self._waiting[number] = (answer, until_s, within_s)
        if self._timer is None or until_s < self._timer_s:
            self._set_timer(loop, until_s)
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    def close(self, reason: str) -> None:
        """Closes the connection; calls that still wait for a response get NoAnswer."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop(reason)
        for answer, _, _ in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoAnswer(reason))

    def _set_timer(self, loop: asyncio.AbstractEventLoop, until_s: float) -> None:
        """One timer for all requests: one for each would cost more than the request."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = until_s
        self._timer = loop.call_at(until_s, self._on_timer)

    def _on_timer(self) -> None:
        """Times out what is due. After a pause of this process (GC pause, SIGSTOP) a response may
        have arrived as well: event loops read sockets before they run timers, so the response
        counts."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now_s, left_s = loop.time(), list[float]()
        for answer, until_s, within_s in self._waiting.values():
            if answer.done():
                continue
            if until_s <= now_s:
                answer.set_exception(NoAnswer(f"no answer within {within_s:.3f} s"))
            else:
                left_s.append(until_s)
        if left_s:
            self._set_timer(loop, min(left_s))

    def _make(self) -> Framed:
        return Framed(self._on_frame, self._on_close)

    def _on_frame(self, wire: Framed, frame: Frame) -> None:
        if wire is not self._wire:
            return
        if "event" in frame:
            self._on_event(frame)
            return
        number = frame.get("id")
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(frame)

    def _on_close(self, wire: Framed, reason: str) -> None:
        if wire is self._wire:
            self._wire = None
            self.close(reason)
