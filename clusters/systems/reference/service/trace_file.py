"""The trace of a node that is a process: a file of JSON lines, each written before its effects.

A step without saves is in the file before anything of it is sent; one with saves twice: before its
first write (`Begun`), and when its saves are on the disk. So a SIGKILL at any moment loses no step
that another node or a client can know of. Standard library only.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.clusters.systems.reference.consensus.messages import Durable, Save
from holdfast.clusters.systems.reference.consensus.storage import Storage
from holdfast.clusters.systems.reference.service.tracing import ServiceTracer, traced
from holdfast.clusters.systems.reference.specification.trace import Boot, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.clusters.systems.reference.service.node import LockNode


class Event(Protocol):
    """A NamedTuple."""

    def _asdict(self) -> Mapping[str, object]: ...


class TraceFile:
    """Appends events, which are NamedTuples, to the trace of one node."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, event: Event) -> None:
        """One line. OSError if it cannot be written."""
        data = line(event)
        while data:
            data = data[os.write(self._file, data) :]


def line(event: Event) -> bytes:
    """An event as JSON: its fields by name, and the name of its type as "event"."""
    fields = dict(event._asdict())
    if isinstance(event, Boot | Step):
        fields["done"] = [[type(one).__name__, *one] for one in event.done]
    text = json.dumps({"event": type(event).__name__, **fields}, separators=(",", ":"))
    return text.encode() + b"\n"


class TracedStorage:
    """The files of a node that tells when its writes begin and when they are durable."""

    def __init__(self, storage: Storage, tracer: ServiceTracer) -> None:
        self._storage, self._tracer = storage, tracer
        self._writes = False
        self.cut_bytes = 0

    def load(self) -> Durable:
        """As `Storage`."""
        durable = self._storage.load()
        self.cut_bytes = self._storage.cut_bytes
        return durable

    def write(self, save: Save) -> None:
        """As `Storage`."""
        if not self._writes:
            self._writes = True
            self._tracer.begins()
        self._storage.write(save)

    def sync(self) -> None:
        """As `Storage`."""
        self._storage.sync()
        self._writes = False
        self._tracer.durable()

    def close(self) -> None:
        """As `Storage`."""
        self._storage.close()


def tracing(
    name: str, path: Path, data: Path, now: Callable[[], int]
) -> tuple[TracedStorage, Callable[[type[LockNode]], Callable[..., LockNode]]]:
    """The disk and the kind of node of a server whose steps are written to a file."""
    tracer = ServiceTracer(name, TraceFile(path).append, now)
    return TracedStorage(Storage(data), tracer), partial(traced, tracer=tracer)
