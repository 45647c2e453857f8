"""PostgreSQL's record of leases that are rows: its log, decoded by a logical replication slot.

The slot keeps what was not confirmed, through restarts of the server, so that no commit is missed.
All but the last transaction that was read is confirmed: the last one comes again with the next
look, which shows that the log is the same one. If it does not, the data was replaced or restored:
the record ends there.

A takeover of a row whose time was over ends the hold of its last owner at some time before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.clusters.systems.polled_record import Looks
from holdfast.clusters.systems.postgres.wire import first_row
from holdfast.harness.recording.server_record import (
    BEGUN,
    EXPIRED,
    GONE,
    PUT,
    SEEN,
    RecordEvent,
    RecordTask,
)

SLOT = "holdfast_record"
CREATE = f"select pg_create_logical_replication_slot('{SLOT}', 'test_decoding')"
MOST = 2000
PEEK = (
    "select coalesce(json_agg(json_build_array(lsn - '0/0', data)), '[]') from"
    f" pg_logical_slot_peek_changes('{SLOT}', null, {MOST}, 'include-xids', '0')"
)
CONFIRM = f"select pg_replication_slot_advance('{SLOT}', '0/0'::pg_lsn + %d)"
CREATED_S, LOOK_S, WITHIN_S = 10.0, 0.25, 2.0
ROW = re.compile(r"table public\.leases: (?:INSERT|UPDATE): (?P<columns>.*)", re.DOTALL)
COLUMN = re.compile(r"(\w+)\[[\w ]+\]:'((?:[^']|'')*)'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """One transaction: its place in the log, and (lock, owner) of each row that it wrote."""

    place: int
    rows: Sequence[tuple[str, str]]


class Reader:
    """Looks at the slot again and again, and notes the owners of the rows."""

    def __init__(self, task: RecordTask) -> None:
        self._task = task
        self._address = task.servers[0].address
        self._owners: dict[str, str] = {}
        self._last: Commit | None = None
        self.looks = Looks(task)

    async def create(self) -> bool:
        """Makes the slot, before the first client; False if the server refused it."""
        return await first_row(self._address, CREATE, CREATED_S) is not None

    async def look(self) -> int:
        """One look: when it began, if all that was committed by then has been read; else 0.

        ValueError if the record cannot go on.
        """
        asked_ns = self._task.now()
        row = await first_row(self._address, PEEK, WITHIN_S)
        if not row:
            return 0
        changes = json.loads(row[0])
        commits = list(transactions(changes))
        known = 0
        if self._last is not None:
            # After a restart a server has forgotten what was confirmed last, and repeats more.
            if self._last not in commits:
                raise ValueError("the server's log is another one than before")
            known = commits.index(self._last) + 1
        for commit in commits[known:]:
            for event in self._events(commit):
                self._task.note(event)
        if commits:
            self._last = commits[-1]
        if len(commits) > 1:
            await first_row(self._address, CONFIRM % commits[-2].place, WITHIN_S)
        if len(changes) >= MOST:
            return 0
        at = 0 if self._last is None else self._last.place
        self.looks.seen_ns = asked_ns
        self._task.note(RecordEvent(event=SEEN, t_ns=asked_ns, at=at))
        return asked_ns

    def _events(self, commit: Commit) -> Iterator[RecordEvent]:
        """What a transaction changes in the owners."""
        for lock, owner in commit.rows:
            before = self._owners.get(lock, "")
            if owner == before:
                continue
            self._owners[lock] = owner
            if before:
                yield self._event(GONE, commit, lock, before, EXPIRED if owner else "")
            if owner:
                yield self._event(PUT, commit, lock, owner)

    def _event(
        self, kind: str, commit: Commit, lock: str, owner: str, reason: str = ""
    ) -> RecordEvent:
        # A client's name comes before its attempt: c3_12884901889.
        attempt = owner.rpartition("_")[2]
        now = self._task.now()
        return RecordEvent(
            event=kind, t_ns=now, at=commit.place, lock=lock, owner=attempt, reason=reason
        )


def transactions(changes: Sequence[Sequence[object]]) -> Iterator[Commit]:
    """The transactions of a slot, from pairs of a place and a text of `test_decoding`."""
    rows: list[tuple[str, str]] = []
    for place, text in changes:
        line = str(text)
        row = ROW.fullmatch(line)
        if line.startswith("BEGIN"):
            rows = []
        elif line.startswith("COMMIT"):
            yield Commit(place=int(str(place)), rows=tuple(rows))
        elif row is not None:
            columns = {
                name: value.replace("''", "'") for name, value in COLUMN.findall(row["columns"])
            }
            rows.append((columns.get("name", ""), columns.get("owner", "")))


async def follow(task: RecordTask) -> None:
    """Looks until the run is over, and once more after that."""
    source = "PostgreSQL: its log, decoded by a logical replication slot"
    task.note(RecordEvent(event=BEGUN, t_ns=task.now(), reason=source))
    reader = Reader(task)
    if not await reader.create():
        raise OSError("the server refused a logical replication slot")
    await reader.looks.repeat(reader.look, LOOK_S)
