"""A node of the service in the simulator: the same `server.Server`, on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Save,
    Tail,
)
from holdfast.clusters.systems.reference.consensus.storage import Corrupt
from holdfast.clusters.systems.reference.consensus.stored_records import (
    log_file,
    log_lines,
    read_log,
    read_snapshot,
    snapshot_file,
)
from holdfast.clusters.systems.reference.service.server import Server
from holdfast.clusters.systems.reference.service.tracing import ServiceTracer, traced


class Host(Protocol):
    """The simulator's interface for a node: disk, clock, log.

    kept    the durable state, None on a new disk
    sync    makes something durable: calls it back after the duration of the sync, unless the node
            crashes first; it sends nothing meanwhile. A crash may tear the write: then the second
            callback gets the share of it that is durable
    """

    kept: Any

    def mono_ns(self) -> int: ...

    def wall_ns(self) -> int: ...

    def run_ns(self) -> int: ...

    def say(self, text: str) -> None: ...

    def sync(self, keep: Callable[[], None], tear: Callable[[float], None]) -> None: ...


class TracedHost(Host, Protocol):
    """A host of the reference service, which notes that the node leads from now on.

    trace   where the steps of all nodes are recorded; None without a trace
    """

    trace: list[object] | None

    def elected(self, term: int) -> None: ...


class DiskContent:
    """The content of a disk: what the node has saved, and the files of it that a restart reads.

    log     saves since the snapshot file was written, and bytes of a record that a crash tore
    """

    def __init__(self) -> None:
        self.ballot = NOTHING.ballot
        self.snapshot = NOTHING.snapshot
        self.entries: list[Entry] = []
        self.log: list[Save | bytes] = []

    def take(self, saves: Iterable[Save]) -> None:
        """Applies saves to the disk."""
        for save in saves:
            self._take(save)

    def _take(self, save: Save) -> None:
        if isinstance(save, Tail):
            self.entries[save.first - self.snapshot.index - 1 :] = save.entries
        elif isinstance(save, Ballot):
            self.ballot = save
        else:
            self.ballot, self.snapshot = save.ballot, save.snapshot
            self.entries = list(save.entries)
            self.log.clear()
        self.log.append(save)

    def tear(self, saves: Sequence[Save], share: float) -> Sequence[Save]:
        """Applies a share of saves: complete records, which it returns, and the beginning of the
        next record."""
        left, beginning = torn(saves, share)
        self.take(left)
        if beginning:
            self.log.append(beginning)
        return left

    def read(self) -> tuple[Durable, int]:
        """What a node reads from its files, and how many bytes it cuts off. Raises Corrupt."""
        snapshot = NOTHING.snapshot
        if self.snapshot.index:
            snapshot = read_snapshot(snapshot_file(self.snapshot))
        data = b"".join(map(_appended, self.log))
        try:
            log = read_log(data, snapshot)
        except ValueError as error:
            raise Corrupt(f"log: {error}") from None
        self.log = [one for one in self.log if not isinstance(one, bytes)]
        durable = Durable(ballot=log.ballot, snapshot=snapshot, entries=log.entries)
        return durable, len(data) - log.size


def _appended(save: Save | bytes) -> bytes:
    """What is in the log of one save."""
    if isinstance(save, bytes):
        return save
    return log_file(save) if isinstance(save, Durable) else log_lines(save)


def torn(saves: Sequence[Save], share: float) -> tuple[list[Save], bytes]:
    """The complete records at the beginning of a torn write, and what there is of the next line."""
    records = [len(save.entries) if isinstance(save, Tail) else 1 for save in saves]
    left, complete = int(share * sum(records)), list[Save]()
    for save, size in zip(saves, records, strict=True):
        if left >= size:
            complete.append(save)
            left -= size
            continue
        if isinstance(save, Durable):
            return complete, b""
        if isinstance(save, Tail):
            if left:
                complete.append(replace(save, entries=save.entries[:left]))
            save = replace(save, first=save.first + left, entries=save.entries[left:])
        line = log_lines(save).partition(b"\n")[0]
        return complete, line[: 1 + int(share * (len(line) - 1))]
    return complete, b""


class MemoryDisk:
    """A disk in memory; unsynced writes are lost in a crash."""

    def __init__(self, host: Host) -> None:
        self._host = host
        if host.kept is None:
            host.kept = DiskContent()
        self._kept: DiskContent = host.kept
        self._unsynced: list[Save] = []
        self.cut_bytes = 0

    def load(self) -> Durable:
        """The durable state, as a node reads it from its files. Raises Corrupt."""
        durable, self.cut_bytes = self._kept.read()
        return durable

    def write(self, save: Save) -> None:
        """Durable once `sync` returns."""
        self._unsynced.append(save)

    def sync(self) -> None:
        """Makes all that was written durable."""
        if self._unsynced:
            saves, self._unsynced = self._unsynced, []
            kept = self._kept

            def tear(share: float) -> None:
                kept.tear(saves, share)

            self._host.sync(lambda: kept.take(saves), tear)

    def close(self) -> None:
        """Nothing to close."""


class TracedDisk(MemoryDisk):
    """A disk that tells when the saves of a step are durable, or what is left of them."""

    def __init__(self, host: Host, tracer: ServiceTracer) -> None:
        super().__init__(host)
        self._tracer = tracer

    def sync(self) -> None:
        """As `MemoryDisk`."""
        if not self._unsynced:
            return
        saves, self._unsynced = self._unsynced, []
        kept, tracer = self._kept, self._tracer

        def keep() -> None:
            kept.take(saves)
            tracer.durable()

        def tear(share: float) -> None:
            tracer.torn(kept.tear(saves, share))

        self._host.sync(keep, tear)


async def serve(config: Mapping[str, object], host: TracedHost) -> None:
    """One node, until its process ends. Raises the error that made it impossible to continue."""
    clocks = {"monotonic": host.mono_ns, "wall": host.wall_ns, "run": host.run_ns}
    if host.trace is None:
        server = Server(
            config, disk=MemoryDisk(host), clocks=clocks, say=host.say, elected=host.elected
        )
    else:
        tracer = ServiceTracer(str(config["name"]), host.trace.append, host.run_ns)
        disk, watched = TracedDisk(host, tracer), partial(traced, tracer=tracer)
        server = Server(
            config,
            disk=disk,
            clocks=clocks,
            say=host.say,
            watched=watched,
            elected=host.elected,
        )
    await server.run(asyncio.Event())
