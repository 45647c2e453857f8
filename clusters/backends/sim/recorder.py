"""Rows in memory: what `harness.segments.Recorder` is on a host, on virtual time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.harness.core.operations import NO_TOKEN, ROW_FORMAT, Op, Stamped, Status
from holdfast.harness.history.current_holders import LOOK_S, Hold

_ROW = struct.Struct(ROW_FORMAT)
_GRANTS = (int(Op.ACQUIRE), int(Op.TRY))
_ENDS = (int(Op.RELEASE), int(Op.LOST), int(Op.FORCE_UNLOCK))
_CLOSED = int(Op.CLOSED)
T_RET, ATTEMPT, TOKEN, RES, PROCESS, ERR, KIND, STATUS, SPENT = 1, 2, 3, 5, 10, 12, 14, 17, 18


class LiveRows:
    """What all writers have recorded so far: what `harness.history.live.Live` reads from files.

    told   what each writer said of itself last
    """

    def __init__(self) -> None:
        self._holds: dict[int, Hold] = {}
        self.grants = 0
        self.ops = 0
        self.told: dict[str, int] = {}
        self._news: list[asyncio.Future[None]] = []

    def states(self) -> Mapping[str, int]:
        """What each writer says of itself."""
        return self.told

    def look(self) -> None:
        """Nothing to read: rows are counted as they are recorded."""

    async def news(self) -> None:
        """Returns at the first look after the next grant: as on hosts, one look in LOOK_S."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        self._news.append(news)
        await news
        await asyncio.sleep(LOOK_S - loop.time() % LOOK_S)

    def grant(self, process: int, node: str, attempt: int, since_ns: int) -> None:
        """An acquire was answered ok."""
        self.grants += 1
        self._holds[attempt] = Hold(process=process, node=node, attempt=attempt, since_ns=since_ns)
        waiting, self._news = self._news, []
        for news in waiting:
            if not news.done():
                news.set_result(None)

    def end(self, attempt: int) -> None:
        """A release was sent, or the holder was told of a loss."""
        self._holds.pop(attempt, None)

    def close(self, process: int) -> None:
        """All holds of a client ended with its session."""
        for hold in [h for h in self._holds.values() if h.process == process]:
            del self._holds[hold.attempt]

    def holds(self) -> list[Hold]:
        """Current holds, the most recently granted first."""
        return sorted(self._holds.values(), key=lambda hold: -hold.since_ns)


class MemoryRecorder:
    """The rows of one writer. `dead`: its process is gone, nothing is recorded any more."""

    def __init__(
        self, writer: str, meta: Mapping[str, Any], now: Callable[[], int], live: LiveRows
    ) -> None:
        self.writer = writer
        self.meta = {"writer": writer, **meta}
        self.strings = [""]
        self.rows: list[list[int]] = []
        self.dead = False
        self._numbers = {"": 0}
        self._node = str(meta["node"])
        self._now = now
        self._live = live

    def intern(self, text: str) -> int:
        """The number of a string."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.strings)
            self.strings.append(text[:4096])
        return number

    def invoke(
        self,
        f: Op,
        process: int,
        key: int,
        *,
        attempt: int = 0,
        token: int = NO_TOKEN,
        arg: int = 0,
        aux: int = 0,
        op: int = 0,
        mode: int = 0,
        late: int = 0,
    ) -> int:
        """The call edge; the row number is its identity."""
        if self.dead:
            return -1
        rows, t_ns, kind = self.rows, self._now(), int(f)
        # One literal, though it is not easy to read: see `events.COLUMNS`.
        rows.append(
            [
                t_ns,
                0,
                attempt,
                token,
                arg,
                0,
                aux,
                op,
                0,
                0,
                process,
                key,
                0,
                late,
                kind,
                0,
                mode,
                1,
                0,
            ]
        )
        if kind in _ENDS:
            self._live.end(attempt)
        elif kind == _CLOSED:
            self._live.close(process)
        return len(rows) - 1

    def complete(
        self,
        number: int,
        status: Status,
        *,
        token: int | None = None,
        res: int = 0,
        err: int = 0,
        spent: int = 0,
        stamped: Stamped | None = None,
    ) -> int:
        """The return edge; the stamp. There is no kernel, so `stamped` is None."""
        t_ns = self._now()
        if self.dead:
            return t_ns
        row = self.rows[number]
        row[T_RET] = t_ns
        if token is not None:
            row[TOKEN] = token
        if res:
            row[RES] = res
        if err:
            row[ERR] = err
        if spent:
            row[SPENT] = spent
        row[STATUS] = int(status)
        if status is Status.OK and row[KIND] in _GRANTS:
            self._live.grant(row[PROCESS], self._node, row[ATTEMPT], t_ns)
        return t_ns

    def packed(self) -> bytes:
        """All rows as `events.ROW_FORMAT` has them."""
        pack = _ROW.pack
        return b"".join([pack(*row) for row in self.rows])
