"""Locks of one lock file by one attempt: a kernel lock on it, or its exclusive creation.

A kernel lock is seen in `/proc/self/fdinfo`, which lists the locks that a descriptor holds: no
guess from what this process did earlier. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from holdfast.harness.core.clock import SECOND

FOLDER = "data/locks"
"""in the run's folder"""
HELD = "lock:"
"""begins a line of fdinfo about a lock that the descriptor holds"""


class LockFile(Protocol):
    """How an attempt locks a file, one object per client."""

    def take(self, path: Path, attempt: int, ttl_ns: int, *, shared: bool = False) -> bool:
        """Whether the attempt was granted the lock, without waiting. Raises OSError."""
        ...

    def keep(self, path: Path, attempt: int) -> bool:
        """Whether the attempt still holds it; a lease begins again. Raises OSError."""
        ...

    def free(self, path: Path, attempt: int) -> bool:
        """Whether the attempt held it; it does no longer. Raises OSError."""
        ...

    def close(self) -> None:
        """Closes every descriptor, without an unlock."""
        ...


class KernelLock:
    """A `LockFile`: `operation` (`fcntl.flock` or `fcntl.lockf`) locks a descriptor per attempt.

    A record lock belongs to the process, which has to exclude its own threads itself: `_paths` does
    that. With `inspect` the owner's name is written into the file and read back through another
    descriptor, whose close ends every record lock that this process has on the file.
    """

    def __init__(self, operation: Callable[[int, int], None], *, inspect: bool) -> None:
        self._operation, self._inspect = operation, inspect
        self._held: dict[int, tuple[Path, int]] = {}

    def take(self, path: Path, attempt: int, ttl_ns: int, *, shared: bool = False) -> bool:
        """As `LockFile`."""
        if _paths.setdefault(path, attempt) != attempt:
            return False
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            self._operation(descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            del _paths[path]
            if descriptor >= 0:
                os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._held[attempt] = path, descriptor
        if self._inspect:
            os.pwrite(descriptor, str(attempt).encode().ljust(24), 0)
            path.read_text()
        return True

    def keep(self, path: Path, attempt: int) -> bool:
        """As `LockFile`. A lock that was lost cannot come back: only a grant locks."""
        if attempt not in self._held:
            return False
        return self._inspect or _locks(self._held[attempt][1])

    def free(self, path: Path, attempt: int) -> bool:
        """As `LockFile`. It unlocks: a forked child may have the descriptor open, too."""
        held = self.keep(path, attempt)
        if attempt in self._held:
            _, descriptor = self._held.pop(attempt)
            try:
                self._operation(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)
                del _paths[path]
        return held

    def close(self) -> None:
        """As `LockFile`."""
        for path, descriptor in self._held.values():
            os.close(descriptor)
            del _paths[path]
        self._held.clear()


_paths: dict[Path, int] = {}
"""Files that this process locks: fcntl would grant them to it again. Its clients have a thread
each; `setdefault` is atomic."""


def _locks(descriptor: int) -> bool:
    return f"\n{HELD}" in Path(f"/proc/self/fdinfo/{descriptor}").read_text()


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Content of a file that is a lock."""

    pid: int
    attempt: int
    ttl_ns: int


class ExclusiveFile:
    """A `LockFile`: the file exists while it is held; its content names process and attempt.

    A file is stale if its process is gone, or if it is older than its lease by the wall clock. Who
    sees a stale file removes it, then creates its own. Between the look and the removal another
    client may have done both, whose new file is then removed: the race of every such lock.
    """

    def take(self, path: Path, attempt: int, ttl_ns: int, *, shared: bool = False) -> bool:
        """As `LockFile`; a file that exists is always exclusive."""
        if _stale(path, ttl_ns):
            path.unlink(missing_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        try:
            owner = {"pid": os.getpid(), "attempt": attempt, "ttl_ns": ttl_ns}
            os.write(descriptor, json.dumps(owner).encode())
            now = time.time()
            os.utime(descriptor, (now, now))
        finally:
            os.close(descriptor)
        return True

    def keep(self, path: Path, attempt: int) -> bool:
        """As `LockFile`: it is touched. Another file may have its place since it was read."""
        owner = _owner(path)
        if owner is None or owner.attempt != attempt:
            return False
        now = time.time()
        try:
            os.utime(path, (now, now))
        except FileNotFoundError:
            return False
        return True

    def free(self, path: Path, attempt: int) -> bool:
        """As `LockFile`: it is removed, or the file that has its place since it was read."""
        owner = _owner(path)
        if owner is None or owner.attempt != attempt:
            return False
        path.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """As `LockFile`. Nothing is open; files of this process become stale."""


def _owner(path: Path) -> Owner | None:
    """None without a file, and while its content is not written yet."""
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        return Owner(**json.loads(path.read_text()))
    return None


def _stale(path: Path, ttl_ns: int) -> bool:
    """A file without content, whose process died before it wrote, has the lease of the caller."""
    owner = _owner(path)
    try:
        if owner is not None:
            os.kill(owner.pid, 0)
            ttl_ns = owner.ttl_ns
        return time.time() - path.stat().st_mtime > ttl_ns / SECOND
    except ProcessLookupError:
        return True
    except (FileNotFoundError, PermissionError):
        return False


def lock_file(via: str, *, inspect: bool) -> LockFile:
    """The way to lock files that an option names."""
    if via == "excl":
        return ExclusiveFile()
    return KernelLock(fcntl.flock if via == "flock" else fcntl.lockf, inspect=inspect)


def path_of(folder: str, lock: str) -> Path:
    """The file of a lock; a lock's name may be any text."""
    return Path(folder) / FOLDER / f"{quote(lock, safe='')}.lock"
