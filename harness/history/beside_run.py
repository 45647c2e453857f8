"""A thread of low priority that reads or packs the history of a run while that goes on."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Self

NICENESS = 10


class BesideRun:
    """Calls `work` in a thread from entry to exit."""

    def __init__(self, name: str) -> None:
        self.over = threading.Event()
        """set when the run has ended: `work` is to return soon"""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def work(self) -> None:
        """What is done beside the run."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self._thread.join()

    def _work(self) -> None:
        # On Linux a thread has a niceness of its own: clients and servers come first.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self.work()
