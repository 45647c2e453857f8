"""A task of reading a record, whose events a test looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.harness.core.ports import Node
from holdfast.harness.recording.server_record import RecordEvent, RecordTask


def task(
    noted: list[RecordEvent],
    *,
    locks: Sequence[str] = ("db",),
    servers: Sequence[Node] = (),
    data: Path = Path(),
    options: Mapping[str, str] | None = None,
) -> RecordTask:
    """A task that adds its events to `noted`."""
    return RecordTask(
        servers=servers,
        options=options or {},
        locks=locks,
        data=data,
        now=lambda: 7,
        note=noted.append,
        following=asyncio.Event(),
        over=asyncio.Event(),
    )


def brief(noted: Sequence[RecordEvent]) -> list[str]:
    """The events of locks as words: "put db 5", "gone db", "gap"; without the times."""
    told = []
    for one in noted:
        if one.event in ("put", "gone", "state"):
            told.append(" ".join(filter(None, (one.event, one.lock, one.owner, one.reason))))
        elif one.event in ("gap", "ended"):
            told.append(one.event)
    return told
