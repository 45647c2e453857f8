"""Redis' record of the locks: the commands that it executes, as MONITOR has them, in their order.

MONITOR has commands and no results. Whether a SET NX succeeded follows from what was executed
before, except where a lease may be over: an expiry is not announced. There, and ten times a second,
a script reads the keys; its own line says at which place. If the keys are not as they should be,
something was missed: a gap, after which the state of the keys is known again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.monitor import Line, parsed
from holdfast.clusters.systems.redis.resp import Link, NoAnswer, NotSent, Refused, Reply
from holdfast.harness.recording.server_record import (
    BEGUN,
    ENDED,
    EXPIRED,
    GAP,
    GONE,
    PUT,
    SEEN,
    STATE,
    RecordEvent,
    RecordTask,
)

READ = "local v = {} for i, k in ipairs(KEYS) do v[i] = redis.call('get', k) or '' end return v"
LOOK_S = 0.1
QUIET_S = 10.0
"""After this time without a response it connects again."""
PAUSE_S = 0.02
SLACK_MS = 50
"""A lease is not certainly in force this long before its end: the time of a line is that at which
MONITOR wrote it, a little after the command was executed."""
CHUNK = MOST_LINE = 1 << 16


class Missed(Exception):
    """The keys are not as the commands say, or the connection broke: the text says why."""


@dataclass(slots=True)
class Held:
    """A key with its owner, until a time of the server's clock; 0: until an unknown time."""

    owner: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of all keys: when it was sent, and the future response."""

    sent_ns: int
    values: asyncio.Future[Reply]


class Reader:
    """Follows the commands on one connection after the other."""

    def __init__(self, task: RecordTask) -> None:
        self._task = task
        self._keys: dict[str, Held | None] = {}
        self._place, self._now_ms = 0, 0
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._ahead: deque[Line] = deque()
        self._looks: dict[str, Look] = {}
        self._script: Sequence[str] = ()
        self._seen_ns = 0
        """What was done before this time is in the record."""
        self._stream: asyncio.StreamReader | None = None
        self._link = Link("", 0)
        self._last = ""
        """The look with which the record ends, once the run is over."""

    async def follow(self) -> None:
        """Until the run is over; every connection after the first begins with a gap."""
        why = ""
        while True:
            try:
                await self._connection(why)
                return
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                why = f"the connection broke: {type(error).__name__}"
            except Missed as missed:
                why = str(missed)
            await asyncio.sleep(PAUSE_S)

    async def _connection(self, why: str) -> None:
        address = self._task.servers[0].address
        for seen in (self._lines, self._ahead, self._looks):
            seen.clear()
        self._rest = b""
        self._link = Link(address, PORT)
        async with asyncio.timeout(QUIET_S):
            self._stream, writer = await asyncio.open_connection(address, PORT)
        looking = None
        try:
            writer.write(b"MONITOR\r\n")
            async with asyncio.timeout(QUIET_S):
                if await self._stream.readline() != b"+OK\r\n":
                    raise Missed("MONITOR was refused")
            looking = asyncio.ensure_future(self._look_often())
            await self._begin(why)
            while not await self._step():
                pass
        finally:
            writer.close()
            self._link.close()
            if looking is not None:
                looking.cancel()

    async def _begin(self, why: str) -> None:
        """Skips to the first look, with which the state of all keys is known."""
        while (look := self._look_of(await self._next())) is None:
            pass
        values = await self._values(look)
        if self._seen_ns:
            from_ns, now = self._seen_ns, self._task.now()
            self._note(RecordEvent(event=GAP, t_ns=now, from_ns=from_ns, reason=why))
        for lock, owner in zip(self._task.locks, values, strict=True):
            self._keys[lock] = Held(owner, 0) if owner else None
            if self._seen_ns or owner:
                self._event(STATE, lock, owner)
        self._saw(look)

    async def _step(self) -> bool:
        """One command; True after the last look of the run."""
        line = await self._next()
        look = self._look_of(line)
        if look is not None:
            self._compare(await self._values(look))
            self._saw(look)
            if line.words[-1] == self._last:
                self._note(RecordEvent(event=ENDED, t_ns=look.sent_ns))
                return True
        elif line.command in ("eval", "evalsha"):
            self._script = _arguments(line)
        elif line.command == "set" and "NX" in [word.upper() for word in line.words[2:]]:
            await self._set(line)
        elif line.words and line.words[0] in self._keys:
            self._changed(line)
        return False

    async def _set(self, line: Line) -> None:
        """A SET NX: it succeeds where the key is free, and perhaps where a lease may be over."""
        lock, owner = line.words[0], line.words[1]
        if lock not in self._keys:
            return
        held, place = self._keys[lock], self._place
        until_ms = line.ms + _lease_ms(line.words)
        if held is not None and held.owner != owner:
            if self._now_ms < held.until_ms - SLACK_MS:
                return
            if await self._who(lock, until_ms) != owner:
                return
            self._event(GONE, lock, held.owner, at=place, reason=EXPIRED)
        elif held is not None:
            return
        self._keys[lock] = Held(owner, until_ms)
        self._event(PUT, lock, owner, at=place)

    async def _who(self, lock: str, until_ms: int) -> str:
        """Who holds a lock from here on, by the first later command that shows it.

        A SET of this place that succeeded is seen up to `until_ms`: if the key is free before, it
        did not succeed, and the lease of the last owner is over now.
        """
        script: Sequence[str] = self._script
        await self._ask()
        n = 0
        while True:
            while n >= len(self._ahead):
                self._ahead.append(await self._read())
            line, n = self._ahead[n], n + 1
            look = self._look_of(line)
            if look is not None:
                value = (await self._values(look))[self._task.locks.index(lock)]
                if not value and line.ms >= until_ms - SLACK_MS:
                    raise Missed("a key is free, and may have had another owner before")
                return value
            if line.command in ("eval", "evalsha"):
                script = _arguments(line)
            elif line.command in ("del", "pexpire") and list(line.words[:1]) == [lock]:
                if not line.lua or not script:
                    raise Missed(f"a {line.command} while the owner was not known")
                return script[0]

    def _changed(self, line: Line) -> None:
        """Another command on a lock: one of a script is executed only for the owner."""
        lock, held = line.words[0], self._keys[line.words[0]]
        owner = self._script[0] if self._script else ""
        for_owner = line.lua and line.command in ("del", "pexpire")
        if for_owner and (held is None or held.owner != owner):
            raise Missed(f"{line.command} by another owner than the commands before it say")
        if line.command == "pexpire" and held is not None:
            held.until_ms = line.ms + int(line.words[1])
        elif line.command == "del" and held is not None:
            self._keys[lock] = None
            self._event(GONE, lock, held.owner)

    def _compare(self, values: Sequence[str]) -> None:
        """The keys as they are, against what the commands say. Raises Missed."""
        for lock, value in zip(self._task.locks, values, strict=True):
            held = self._keys[lock]
            if value == ("" if held is None else held.owner):
                continue
            if value or held is None or self._now_ms < held.until_ms - SLACK_MS:
                raise Missed("a key is not as the commands before say")
            self._keys[lock] = None
            self._event(GONE, lock, held.owner, reason=EXPIRED)

    def _saw(self, look: Look) -> None:
        self._seen_ns = look.sent_ns
        self._note(RecordEvent(event=SEEN, t_ns=look.sent_ns, at=self._place))
        self._task.following.set()

    # Lines

    async def _next(self) -> Line:
        """The next command, which has a place of its own."""
        line = self._ahead.popleft() if self._ahead else await self._read()
        self._place += 1
        self._now_ms = max(self._now_ms, line.ms)
        return line

    async def _read(self) -> Line:
        assert self._stream is not None
        while not self._lines:
            async with asyncio.timeout(QUIET_S):
                data = await self._stream.read(CHUNK)
            if not data:
                raise EOFError
            *whole, self._rest = (self._rest + data).split(b"\r\n")
            if len(self._rest) > MOST_LINE:
                raise Missed("a command is too long")
            self._lines.extend(whole)
        return parsed(self._lines.popleft())

    # Looks

    async def _look_often(self) -> None:
        while True:
            over = self._task.over.is_set()
            nonce = await self._ask()
            if over and not self._last:
                self._last = nonce
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    if not over:
                        await self._task.over.wait()
                    else:
                        await asyncio.sleep(LOOK_S)

    async def _ask(self) -> str:
        """Sends a look; the name by which its line is known."""
        nonce, locks = secrets.token_hex(8), self._task.locks
        words: Sequence[str | int] = ("EVAL", READ, len(locks), *locks, nonce)
        values = asyncio.ensure_future(self._link.ask(*words, within_s=QUIET_S))
        values.add_done_callback(_seen_by_nobody)
        self._looks[nonce] = Look(self._task.now(), values)
        await asyncio.sleep(0)
        return nonce

    def _look_of(self, line: Line) -> Look | None:
        return self._looks.get(line.words[-1]) if line.command == "eval" and line.words else None

    async def _values(self, look: Look) -> Sequence[str]:
        """The owner of each lock, "" for none. Raises Missed."""
        try:
            values = await look.values
        except (NotSent, NoAnswer, Refused) as error:
            raise Missed(f"the keys could not be read: {error}") from error
        if not isinstance(values, list) or len(values) != len(self._task.locks):
            raise Missed("the keys could not be read")
        return [str(value) for value in values]

    # Events

    def _event(
        self, kind: str, lock: str, owner: str, *, at: int | None = None, reason: str = ""
    ) -> None:
        place = self._place if at is None else at
        now = self._task.now()
        self._note(
            RecordEvent(event=kind, t_ns=now, at=place, lock=lock, owner=owner, reason=reason)
        )

    def _note(self, event: RecordEvent) -> None:
        self._task.note(event)


async def follow(task: RecordTask) -> None:
    """Follows the one server that clients use."""
    source = "Redis: the commands of MONITOR"
    task.note(RecordEvent(event=BEGUN, t_ns=task.now(), reason=source))
    await Reader(task).follow()


def _lease_ms(words: Sequence[str]) -> int:
    """The lease of a SET."""
    upper = [word.upper() for word in words]
    return int(upper[upper.index("PX") + 1]) if "PX" in upper[:-1] else 0


def _arguments(line: Line) -> Sequence[str]:
    """The arguments of a script, after its keys."""
    keys = int(line.words[1]) if len(line.words) > 1 and line.words[1].isdigit() else 0
    return line.words[2 + keys :]


def _seen_by_nobody(values: asyncio.Future[Reply]) -> None:
    """A look whose line never came may have failed."""
    if not values.cancelled():
        values.exception()
