"""Writes the servers' own record of the locks into the run directory while the run goes on.

The reader of the system (`KeepsRecord.follow`) is a task of the driver. It starts when the servers
are ready and ends after the last client, before they are stopped.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.waiting import cancel_until_done
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.recording.server_record import (
    GAP,
    MOST_BYTES,
    MOST_LINE,
    KeepsRecord,
    RecordEvent,
    RecordTask,
)
from holdfast.harness.runs import files
from holdfast.harness.runs.directory import RunDir

FOLLOWS_WITHIN_S = 20.0
ENDS_WITHIN_S = 15.0
FULL = "the record has reached its largest size"
"""Without its last event a record says nothing about what is later than its last lines."""


class RecordFile:
    """The file of a record, of bounded size: it ends with the first event that does not fit."""

    def __init__(self, write: Callable[[bytes], object], now: Callable[[], int]) -> None:
        self._write, self._now = write, now
        self._left = MOST_BYTES - MOST_LINE
        self._full = False

    def note(self, event: RecordEvent) -> None:
        """Adds an event as one line, unless the record has ended with a gap."""
        line = _line(event)
        if self._full:
            return
        self._full = len(line) > min(MOST_LINE, self._left)
        if self._full:
            now = self._now()
            line = _line(RecordEvent(event=GAP, t_ns=now, from_ns=event.t_ns, reason=FULL))
        self._left -= len(line)
        self._write(line)


@asynccontextmanager
async def recorded(cluster: Cluster) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Records what the plan asks for; nothing if it asks for nothing.

    Yields a call that reads the rest of the record, for the end of the run. EnvironmentFailed if
    the record cannot be read from the start.
    """
    system, over = cluster.system, asyncio.Event()
    if not cluster.plan.server_record or not isinstance(system, KeepsRecord):
        yield _nothing
        return
    run = RunDir(cluster.place.run_dir)
    with files.appending(run.path, run.server_record.name) as write:
        task = RecordTask(
            servers=cluster.named("server"),
            options=cluster.options.system,
            locks=cluster.lock_names(),
            data=run.path / "data",
            now=cluster.runtime.now,
            note=RecordFile(write, cluster.runtime.now).note,
            following=asyncio.Event(),
            over=over,
        )
        reading = asyncio.ensure_future(system.follow(task))
        begun = asyncio.ensure_future(task.following.wait())
        try:
            await asyncio.wait(
                {reading, begun},
                timeout=FOLLOWS_WITHIN_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not begun.done():
                raise EnvironmentFailed(
                    f"{cluster.plan.system}: the servers' record could not be read within"
                    f" {FOLLOWS_WITHIN_S:g} s{_why(reading)}"
                )

            async def finish() -> None:
                over.set()
                await asyncio.wait({reading}, timeout=ENDS_WITHIN_S)

            yield finish
        finally:
            await cancel_until_done(reading, begun)
            if not reading.cancelled() and reading.exception() is not None:
                # The run is judged without the rest of its record; driver.log has the cause.
                traceback.print_exception(reading.exception())


def _line(event: RecordEvent) -> bytes:
    return json.dumps(plain(event)).encode() + b"\n"


async def _nothing() -> None:
    pass


def _why(reading: asyncio.Future[None]) -> str:
    if not reading.done():
        return ""
    with suppress(asyncio.CancelledError):
        return f": {reading.exception()}"
    return ""
