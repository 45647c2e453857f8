"""Control groups of memory, of version 1 and 2: one group for each node, made for one fault.

A process that is moved into a group takes nothing along: its memory stays charged to the group
that it came from, and what it gets from then on is charged to the new one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Refused

MOUNTS, PROC = Path("/proc/self/mounts"), Path("/proc")
PREFIX = "holdfast-"
WITHIN_S, POLL_S = 2.0, 0.005
MEMORY = "memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """Where control groups of memory are mounted, and how their files are called.

    refused   counter of the times at which the limit was reached, and its name in that file
    killed    counter of OOM kills, and its name in that file
    """

    root: Path
    number: int
    limit: str
    usage: str
    refused: tuple[str, str]
    killed: tuple[str, str]


def version(mounts: Path = MOUNTS) -> Version:
    """Control groups of memory of this host. Errors: Refused if there are none."""
    rows = [line.split() for line in mounts.read_text().splitlines()]
    for _, place, kind, options, *_ in rows:
        if kind == "cgroup" and MEMORY in options.split(","):
            return Version(
                root=Path(place),
                number=1,
                limit="memory.limit_in_bytes",
                usage="memory.usage_in_bytes",
                refused=("memory.failcnt", ""),
                killed=("memory.oom_control", "oom_kill"),
            )
    for _, place, kind, *_ in rows:
        if kind == "cgroup2" and MEMORY in _words(Path(place) / "cgroup.controllers"):
            return Version(
                root=Path(place),
                number=2,
                limit="memory.max",
                usage="memory.current",
                refused=("memory.events", "max"),
                killed=("memory.events", "oom_kill"),
            )
    raise Refused("memory-limit: this host has no control groups of memory")


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How often the limit of a group was reached, and how many of its processes were killed."""

    refused: int
    killed: int


class Group:
    """A group of a node's processes. `open` makes it, `close` puts the processes back.

    path   of the group; home: of the group that its first process came from
    """

    def __init__(self, name: str, of: Version) -> None:
        self._name = PREFIX + name
        self._of = of
        self.path = Path()
        self.home = Path()
        self._before: dict[Process, Path] = {}
        self._last = Counts(refused=0, killed=0)

    def open(self, members: Iterable[Process], spare: int) -> int:
        """Moves processes into a new group with a limit of what is charged there and `spare` bytes
        more; returns the limit. Errors: Refused, OSError."""
        members = list(members)
        self.home = home_of(members[0], self._of)
        self.path = _parent(self.home, self._of) / self._name
        try:
            self.path.mkdir()
        except OSError as error:
            raise Refused(
                f"memory-limit: {self.path}: {error.strerror}; the fault agent needs root, or a"
                " control group of memory that is delegated to its user"
            ) from error
        try:
            for process in members:
                self._before[process] = home_of(process, self._of)
                self._move(process, self.path)
            limit = self.usage() + spare
            (self.path / self._of.limit).write_text(str(limit))
        except BaseException:
            self.close()
            raise
        return limit

    def usage(self) -> int:
        """Bytes that are charged to the group."""
        return int((self.path / self._of.usage).read_text())

    def members(self) -> list[int]:
        """Pids of the processes in it."""
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def counts(self) -> Counts:
        """Its counters; the last ones if it is gone: a container's manager removes its groups when
        its last process has ended."""
        with suppress(FileNotFoundError):
            self._last = Counts(
                refused=self._count(*self._of.refused), killed=self._count(*self._of.killed)
            )
        return self._last

    def close(self) -> None:
        """Lifts the limit, puts every process back where it was, and removes the group. Errors:
        OSError."""
        if not self.path.is_dir():
            return
        lift(self.path)
        for process, path in self._before.items():
            if processes.state(process) != "gone":
                self._move(process, path)
        remove(self.path, self.home)

    def _move(self, process: Process, to: Path) -> None:
        with suppress(ProcessLookupError):
            (to / "cgroup.procs").write_text(str(process.pid))

    def _count(self, file: str, name: str) -> int:
        lines = (self.path / file).read_text().split("\n")
        if not name:
            return int(lines[0])
        return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)


def home_of(process: Process, of: Version) -> Path:
    """The group of a process. Errors: Refused if it has exited."""
    try:
        lines = (PROC / str(process.pid) / "cgroup").read_text().splitlines()
    except OSError as error:
        raise Refused(
            f"memory-limit: process {process.pid} has exited; restart it first"
        ) from error
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if (MEMORY in controllers.split(",")) if of.number == 1 else not controllers:
            return of.root / path.lstrip("/")
    raise Refused(f"memory-limit: process {process.pid} is in no control group of memory")


def _parent(home: Path, of: Version) -> Path:
    """Where the group is made: beside that of the process, which a container's manager removes with
    all that is in it when the process dies. With version 1 inside it where that is not permitted,
    or if it is the first; with version 2 groups have either processes or limited groups."""
    if of.number == 1:
        return home.parent if home != of.root and os.access(home.parent, os.W_OK) else home
    for place in home.parents:
        if MEMORY in _words(place / "cgroup.subtree_control"):
            return place
        if place == of.root:
            break
    raise Refused("memory-limit: no control group above the process controls memory")


def lift(path: Path) -> None:
    """Removes the limit of a group."""
    for name, most in (("memory.limit_in_bytes", "-1"), ("memory.max", "max")):
        with suppress(OSError):
            if (path / name).exists():
                (path / name).write_text(most)


def remove(path: Path, to: Path) -> None:
    """Moves the processes of a group to another one and removes it. Errors: OSError if a process
    does not leave it within WITHIN_S."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        for pid in _words(path / "cgroup.procs"):
            with suppress(OSError):
                (to / "cgroup.procs").write_text(pid)
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
