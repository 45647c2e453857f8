"""etcd's record of the locks: a watch on their keys from revision 1, through the JSON gateway.

A watch has every change in the order of revisions. A broken one is resumed, on the next member, at
the last revision that was seen: that event comes again, which shows that the history is the same
one. What was compacted meanwhile, or another history (a restored snapshot), is a gap.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.clusters.systems.etcd import PORT
from holdfast.clusters.systems.etcd.authentication import AFTER_LAST, FIRST, ROOT
from holdfast.clusters.systems.etcd.json_gateway import (
    Body,
    NoAnswer,
    NotSent,
    Refused,
    Server,
    encoded,
    number,
)
from holdfast.harness.recording.server_record import (
    BEGUN,
    ENDED,
    GAP,
    GONE,
    PUT,
    SEEN,
    STATE,
    RecordEvent,
    RecordTask,
)

MARKER = "holdfast-record"
"""A key before those of the locks, written once all clients have ended: when the watch has it, it
has all that was before."""
QUIET_S = 3.0
"""After this time without a message another member is asked, in case this one is stopped."""
WITHIN_S = 1.0
PAUSE_S = 0.05
LOOK_S = 0.25
Failed = (NotSent, NoAnswer, Refused)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One event of a watch. rank: the create revision of the key; owner: its value."""

    revision: int
    key: str
    deleted: bool
    rank: int = 0
    owner: str = ""


class Watch:
    """The watch of one run, resumed as often as needed; `read` one message at a time."""

    def __init__(self, task: RecordTask) -> None:
        self._task = task
        self.marker = secrets.token_hex(8)
        self.ended_ns = 0
        """When the marker was sent, 0: it was not yet."""
        self.done = False
        self._last: Change | None = None
        self._resumed = False
        self._first, self._opened_ns = 1, 0
        self.lost = ""
        """Why the record has a gap, after which the state of the locks has to be read."""

    def request(self) -> Body:
        """The request that begins or resumes it."""
        self._opened_ns, self._resumed = self._task.now(), self._last is not None
        first = self._last.revision if self._last is not None else self._first
        keys: Body = {"key": encoded(MARKER), "range_end": encoded(AFTER_LAST)}
        return {"create_request": {**keys, "startRevision": str(first)}}

    def read(self, message: Body) -> bool:
        """Notes the events of a message; True if this watch has ended."""
        result = message.get("result", {})
        if result.get("canceled"):
            compacted = number(result, "compact_revision")
            if compacted:
                self.lost = f"etcd had compacted its history up to revision {compacted}"
            return True
        changes = [_change(event) for event in result.get("events", ())]
        if changes and self._resumed:
            self._resumed = False
            assert self._last is not None
            if self._last not in changes:
                self.lost = f"etcd's history from revision {self._last.revision} on is another one"
                return True
        for change in changes:
            if self._last is None or change.revision > self._last.revision:
                self._note(change)
        if changes:
            self._last = changes[-1]
        self._task.following.set()
        return self.done

    def restart(self, entries: Sequence[Change], revision: int) -> None:
        """Continues after a gap with the state of all locks at a revision."""
        now, held = self._task.now(), {_lock(entry.key) for entry in entries}
        lost = RecordEvent(event=GAP, t_ns=now, from_ns=self._opened_ns, reason=self.lost)
        free = [
            RecordEvent(event=STATE, t_ns=now, at=revision, lock=lock)
            for lock in self._task.locks
            if lock not in held
        ]
        for event in (lost, *free, *(_event(STATE, entry, now) for entry in entries)):
            self._task.note(event)
        self._last, self._first, self.lost = None, revision + 1, ""

    def _note(self, change: Change) -> None:
        if change.key == MARKER:
            self.done = self.done or change.owner == self.marker
        elif change.key.startswith(FIRST):
            event = GONE if change.deleted else PUT
            self._task.note(_event(event, change, self._task.now()))


async def follow(task: RecordTask) -> None:
    """Watches until the marker is seen, which is written when the run is over."""
    watch, turn = Watch(task), 0
    user = ROOT if task.options.get("auth") == "yes" else None
    members = [Server(node.address, PORT, user) for node in task.servers]
    source = "etcd: a watch on all locks from revision 1"
    task.note(RecordEvent(event=BEGUN, t_ns=task.now(), reason=source))
    beside = [_mark(task, watch, members), _look(task, members)]
    helpers = [asyncio.ensure_future(one) for one in beside]
    try:
        while not watch.done:
            member = members[turn % len(members)]
            turn += 1
            try:
                if watch.lost:
                    watch.restart(*await _state(member))
                await member.first("/v3/watch", watch.request(), QUIET_S, watch.read, idle=True)
            except Failed:
                await asyncio.sleep(PAUSE_S)
        task.note(RecordEvent(event=ENDED, t_ns=watch.ended_ns))
    finally:
        for helper in helpers:
            helper.cancel()
        for member in members:
            member.close()


async def _mark(task: RecordTask, watch: Watch, members: Sequence[Server]) -> None:
    """Writes the marker once the run is over, through the first member that can."""
    await task.over.wait()
    body = {"key": encoded(MARKER), "value": encoded(watch.marker)}
    while True:
        for member in members:
            # An attempt without a response may have written it: what was before the first is seen.
            watch.ended_ns = watch.ended_ns or task.now()
            try:
                await member.ask("/v3/kv/put", body, WITHIN_S)
                return
            except Failed:
                await asyncio.sleep(PAUSE_S)


async def _look(task: RecordTask, members: Sequence[Server]) -> None:
    """Notes now and then which revision is certainly older than a time."""
    body: Body = {"key": encoded(MARKER), "count_only": True}
    while True:
        for member in members:
            asked_ns = task.now()
            with contextlib.suppress(*Failed):
                # Linearizable: what has a later revision than the response was done after it.
                response = await member.ask("/v3/kv/range", body, WITHIN_S)
                at = number(response["header"], "revision")
                task.note(RecordEvent(event=SEEN, t_ns=asked_ns, at=at))
            await asyncio.sleep(LOOK_S)


async def _state(member: Server) -> tuple[Sequence[Change], int]:
    """All entries of all locks, and the revision of this state. Errors: as of `Server.ask`."""
    keys = {"key": encoded(FIRST), "range_end": encoded(AFTER_LAST)}
    response = await member.ask("/v3/kv/range", keys, WITHIN_S)
    return [_entry(kv) for kv in response.get("kvs", ())], number(response["header"], "revision")


def _change(event: Body) -> Change:
    if event.get("type") != "DELETE":
        return _entry(event["kv"])
    kv = event["kv"]
    return Change(revision=number(kv, "mod_revision"), key=_text(kv, "key"), deleted=True)


def _entry(kv: Body) -> Change:
    return Change(
        revision=number(kv, "mod_revision"),
        key=_text(kv, "key"),
        deleted=False,
        rank=number(kv, "create_revision"),
        owner=_text(kv, "value"),
    )


def _event(kind: str, change: Change, t_ns: int) -> RecordEvent:
    return RecordEvent(
        event=kind,
        t_ns=t_ns,
        at=change.revision,
        lock=_lock(change.key),
        rank=change.rank,
        owner=change.owner,
        token=change.rank or -1,
    )


def _lock(key: str) -> str:
    return key.removeprefix(FIRST)


def _text(kv: Body, name: str) -> str:
    return base64.b64decode(str(kv.get(name, ""))).decode(errors="replace")
