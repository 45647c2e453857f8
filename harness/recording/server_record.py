"""The servers' own record of who held a lock: its events, and the systems that have one.

A lock has entries, each with a rank; the entry with the lowest rank holds it. A lock without a
queue has one entry at most. Standard library only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast.harness.core.json_value import OMITTED
from holdfast.harness.core.ports import Node

MOST_BYTES = 64 << 20
"""Upper bound of a record's size."""


MOST_LINE = 4096
"""Upper bound of one line, in bytes."""


BEGUN, PUT, GONE, STATE, SEEN, GAP, ENDED = "begun", "put", "gone", "state", "seen", "gap", "ended"
EVENTS = (BEGUN, PUT, GONE, STATE, SEEN, GAP, ENDED)
NOT_IN_RECORD = -1
EXPIRED = "expired"
"""Reason of a `gone` which the server does not announce: it was so at some time before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordEvent:
    """One line of server-record.jsonl, in the order in which the servers did it.

    event    begun: `reason` names the source. put: an entry was made. gone: it was deleted, all
             entries of the lock if it has no rank. state: what a lock has after a gap, an event for
             each entry, or one without an owner. seen: what has a later place than `at` was done
             after `t_ns`. gap: what was done from `from_ns` to `t_ns` was not seen. ended:
             everything that was done until `t_ns` was seen
    t_ns     when the event was read, on the run's clock: never before the server did it
    at       place in the servers' own order: revision, zxid, number of the command
    lock     its name; rank: of the entry in its lock
    owner    text of the attempt that made the entry, "" for none
    token    the attempt's fencing token by the record, -1 if it has none
    reason   of a gap; of a `gone` that the server did not announce: EXPIRED
    """

    event: str
    t_ns: int
    at: int = 0
    lock: str = field(default="", metadata=OMITTED)
    rank: int = field(default=0, metadata=OMITTED)
    owner: str = field(default="", metadata=OMITTED)
    token: int = field(default=NOT_IN_RECORD, metadata=OMITTED)
    from_ns: int = field(default=0, metadata=OMITTED)
    reason: str = field(default="", metadata=OMITTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordTask:
    """What the reader of the servers' record works with, for one run (`KeepsRecord.follow`).

    locks      names of the locks of the run
    data       folder of the servers' data folders, data/<node>
    now        the run's clock, ns
    note       adds an event
    following  set by the reader once it sees everything that happens from now on
    over       set by the driver when the clients have ended: read the rest, then return
    """

    servers: Sequence[Node]
    options: Mapping[str, str]
    locks: Sequence[str]
    data: Path
    now: Callable[[], int]
    note: Callable[[RecordEvent], None]
    following: asyncio.Event
    over: asyncio.Event


@runtime_checkable
class KeepsRecord(Protocol):
    """A System whose servers keep a record of their locks that can be read from outside."""

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        """Why the record of servers with these options cannot be compared with what clients were
        answered; None if it can."""
        ...

    async def follow(self, task: RecordTask) -> None:
        """Reads the record until the run is over, through all faults. What it may not have seen
        lies in a gap; the last event is `ended`, unless the rest could not be read in time."""
        ...
