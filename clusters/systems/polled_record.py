"""A servers' record that is read by looking at it again and again, until the run is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from holdfast.harness.recording.server_record import ENDED, GAP, RecordEvent, RecordTask


class Looks:
    """The looks at one record. seen_ns: all that was done before this time has been read."""

    def __init__(self, task: RecordTask) -> None:
        self._task = task
        self.seen_ns = task.now()

    async def repeat(self, look: Callable[[], Awaitable[int]], every_s: float) -> None:
        """Looks until the run is over, and once more after that.

        look   one look: when it began, if all that was done by then has been read, else 0. A
               ValueError says why the record cannot go on: it ends with a gap
        """
        task = self._task
        task.following.set()
        while True:
            over = task.over.is_set()
            try:
                looked_ns = await look()
            except ValueError as error:
                now, why = task.now(), str(error)
                task.note(RecordEvent(event=GAP, t_ns=now, from_ns=self.seen_ns, reason=why))
                return
            if over and looked_ns:
                task.note(RecordEvent(event=ENDED, t_ns=looked_ns))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    # Once the run is over there is only the time to wait for.
                    await (asyncio.sleep(every_s) if over else task.over.wait())
