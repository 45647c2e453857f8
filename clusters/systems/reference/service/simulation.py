"""A node of the service in the simulator: the same `server.Server`, on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Save,
    Tail,
)
from holdfast.clusters.systems.reference.service.server import Server


class Host(Protocol):
    """What the simulator gives a node: a place on its disk, its clock, its log.

    kept    what is durable, None on a new disk
    sync    makes something durable: calls it back, after as long as that takes, unless the node
            crashes first; it sends nothing meanwhile. A crash may tear the write: then the second
            callback is given the share of it that is durable
    """

    kept: Any

    def mono_ns(self) -> int: ...

    def wall_ns(self) -> int: ...

    def run_ns(self) -> int: ...

    def say(self, text: str) -> None: ...

    def sync(self, keep: Callable[[], None], tear: Callable[[float], None]) -> None: ...


class Kept:
    """What is on a disk."""

    def __init__(self) -> None:
        self.ballot = NOTHING.ballot
        self.snapshot = NOTHING.snapshot
        self.entries: list[Entry] = []

    def take(self, saves: Iterable[Save]) -> None:
        """The disk after some saves."""
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


def torn(saves: Sequence[Save], share: float) -> list[Save]:
    """What is left of a write that a crash tore: its beginning, to the last whole record."""
    records = [len(save.entries) if isinstance(save, Tail) else 1 for save in saves]
    left, found = int(share * sum(records)), list[Save]()
    for save, size in zip(saves, records, strict=True):
        if left < size:
            if isinstance(save, Tail) and left:
                found.append(replace(save, entries=save.entries[:left]))
            break
        found.append(save)
        left -= size
    return found


class MemoryDisk:
    """What is written is lost in a crash until it is synced."""

    def __init__(self, host: Host) -> None:
        self._host = host
        if host.kept is None:
            host.kept = Kept()
        self._kept: Kept = host.kept
        self._unsynced: list[Save] = []
        self.cut_bytes = 0

    def load(self) -> Durable:
        """All that was kept."""
        kept = self._kept
        return Durable(ballot=kept.ballot, snapshot=kept.snapshot, entries=tuple(kept.entries))

    def write(self, save: Save) -> None:
        """Kept once `sync` returns."""
        self._unsynced.append(save)

    def sync(self) -> None:
        """Makes all that was written durable."""
        if self._unsynced:
            saves, self._unsynced = self._unsynced, []
            kept = self._kept
            self._host.sync(lambda: kept.take(saves), lambda share: kept.take(torn(saves, share)))

    def close(self) -> None:
        """Nothing to let go."""


async def serve(config: Mapping[str, Any], host: Host) -> None:
    """One node, until its process ends. Raises what made it impossible to go on."""
    clocks = {"monotonic": host.mono_ns, "wall": host.wall_ns, "run": host.run_ns}
    server = Server(config, disk=MemoryDisk(host), clocks=clocks, say=host.say)
    await server.run(asyncio.Event())
