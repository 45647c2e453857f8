"""The recorder of a simulated writer, and what all of them have recorded so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.so_far import LOOK_S, CurrentHolds, EventCounts, Hold
from holdfast.harness.recording.segments import Recorder

GRANTS = (Op.ACQUIRE, Op.TRY)
ENDS = (Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK)


class LiveRows:
    """What all writers have recorded so far: what `harness.history.live.Live` reads from files.

    told   what each writer said of itself last
    """

    def __init__(self) -> None:
        self.current = CurrentHolds()
        self.holds = self.current.holds
        self.ops = 0
        self.told: dict[str, int] = {}
        self._events = EventCounts()
        self.happened = self._events.happened
        self._news: list[asyncio.Future[None]] = []
        self._changes: list[asyncio.Future[None]] = []

    @property
    def grants(self) -> int:
        """How many there were."""
        return self.current.grants

    def states(self) -> Mapping[str, int]:
        """What each writer says of itself."""
        return self.told

    def look(self) -> None:
        """Nothing to read: rows are counted as they are recorded."""

    async def news(self) -> None:
        """Returns at the first look after the next grant: as on hosts, one look in LOOK_S."""
        await self._next(self._news)

    async def changes(self) -> None:
        """The same after the next row, or answer to one."""
        await self._next(self._changes)

    async def _next(self, waiting: list[asyncio.Future[None]]) -> None:
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        waiting.append(news)
        await news
        await asyncio.sleep(LOOK_S - loop.time() % LOOK_S)

    def grant(self, hold: Hold) -> None:
        """An acquire was answered ok."""
        self.current.grant(hold)
        _settle(self._news)

    def add(self, op: int, outcome: int, t_ns: int) -> None:
        """A row was begun or answered."""
        self._events.add(op, outcome, t_ns)
        if self._changes:
            _settle(self._changes)


def _settle(waiting: list[asyncio.Future[None]]) -> None:
    for news in waiting:
        if not news.done():
            news.set_result(None)
    waiting.clear()


class SimRecorder:
    """The rows of one simulated writer, in memory; it tells `LiveRows` of grants and their ends.

    dead   its process is gone, nothing is recorded any more
    """

    def __init__(
        self, writer: str, meta: Mapping[str, Any], now: Callable[[], int], live: LiveRows
    ) -> None:
        self.writer = writer
        self.meta = {"writer": writer, **meta}
        self.dead = False
        self._now = now
        self._live = live
        self._kept = Recorder(None, writer, meta, now)
        self._asked: dict[int, tuple[int, int]] = {}
        self._calls: dict[int, Op] = {}
        self._count = 0
        self.intern = self._kept.intern

    def invoke(self, f: Op, process: int, key: int, *, attempt: int = 0, **edges: int) -> int:
        """The call edge; the row number is its identity."""
        if self.dead:
            return -1
        number = self._kept.invoke(f, process, key, attempt=attempt, **edges)
        self._count = number + 1
        self._live.ops += 1
        self._live.add(f, Status.INVOKED, self._now())
        self._calls[number] = f
        if f in GRANTS:
            self._asked[number] = (process, attempt)
        elif f in ENDS:
            self._live.current.end(attempt)
        elif f is Op.CLOSED:
            self._live.current.close(process)
        return number

    def complete(self, number: int, status: Status, **said: Any) -> int:
        """The return edge; the stamp."""
        if self.dead:
            return self._now()
        t_ns = self._kept.complete(number, status, **said)
        if number in self._calls:
            self._live.add(self._calls.pop(number), status, t_ns)
        asked = self._asked.pop(number, None)
        if asked is not None and status is Status.OK:
            process, attempt = asked
            node = str(self.meta["node"])
            hold = Hold(process=process, node=node, attempt=attempt, since_ns=t_ns)
            self._live.grant(hold)
        return t_ns

    @property
    def strings(self) -> list[str]:
        """Every string, by its number."""
        return self._kept.strings()

    def packed(self) -> bytes:
        """All rows as `operations.ROW_FORMAT` has them."""
        return self._kept.rows(self._count)
