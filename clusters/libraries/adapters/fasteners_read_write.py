"""fasteners' InterProcessReaderWriterLock, by a record lock on a file. It excludes processes, not
the threads of one: the object of a process is used by one of its clients at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from fasteners import InterProcessReaderWriterLock

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.flock.files import path_of
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ERRORS: tuple[tuple[type[Exception], Status], ...] = ()
POLL_S = 0.005
_objects: dict[Path, tuple[threading.Lock, LibraryLock]] = {}
"""One for each file: the close of another descriptor would end the locks of the process."""


class Subject:
    """The lock objects of its process."""

    def __init__(self, setup: ClientSetup) -> None:
        self._folder = setup.folder
        path_of(self._folder, "l").parent.mkdir(parents=True, exist_ok=True)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None,
        mode: str = "exclusive",
    ) -> LibraryLock:  # fmt: skip
        path = path_of(self._folder, name)
        made = InterProcessReaderWriterLock(path) if path not in _objects else None
        return *_objects.setdefault(path, (threading.Lock(), made)), mode == "shared"

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        guard, made, shared = lock
        began_s = time.monotonic()
        if not guard.acquire(timeout=-1 if wait_s is None else wait_s):
            return False
        left_s = None if wait_s is None else max(0.0, wait_s - (time.monotonic() - began_s))
        ask = made.acquire_read_lock if shared else made.acquire_write_lock
        granted = False
        try:
            granted = ask(blocking=left_s != 0, timeout=left_s, delay=POLL_S, max_delay=POLL_S)
        finally:
            if not granted:
                guard.release()
        return bool(granted)

    def release(self, lock: LibraryLock) -> None:
        guard, made, shared = lock
        try:
            (made.release_read_lock if shared else made.release_write_lock)()
        finally:
            guard.release()
