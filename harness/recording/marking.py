"""The recorder of a client whose calls a fault may count from: it marks their begin and end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.harness.core.operations import Op, Stamped, Status
from holdfast.harness.recording.call_marks import END, FOLDER, MARKED
from holdfast.harness.recording.segments import HOST_CLOCK, Recorder


class MarkingRecorder(Recorder):
    """A `Recorder` that marks each call after it was stored, and its end after its answer was."""

    def __init__(
        self,
        directory: Path | None,
        writer: str,
        meta: Mapping[str, object],
        now: Callable[[], int] = HOST_CLOCK,
    ) -> None:
        super().__init__(directory, writer, meta, now)
        self._open: set[int] = set()
        """rows of calls that were marked and have no answer yet; a notice within one is no call"""

    def invoke(self, f: Op, process: int, key: int, **edges: int) -> int:
        """As `Recorder`."""
        number = super().invoke(f, process, key, **edges)
        if f in MARKED:
            self._open.add(number)
            os.access(FOLDER + MARKED[f], os.F_OK)
        return number

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
        """As `Recorder`."""
        columns = {"res": res, "err": err, "spent": spent}
        t_ret = super().complete(number, status, token=token, **columns, stamped=stamped)
        if number in self._open:
            self._open.remove(number)
            os.access(END, os.F_OK)
        return t_ret
