"""The reader of Redis' record, against a server that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from holdfast.clusters.systems.redis import record
from holdfast.clusters.systems.redis.monitor import parsed
from holdfast.clusters.systems.redis.system import SYSTEM
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Node
from holdfast.harness.core.waiting import until
from holdfast.harness.recording.server_record import RecordEvent
from tests.clusters.records.tasks import brief, task

BY, LUA = "10.0.0.7:5000", "lua"
WITHIN_S = 10


class Said:
    """A server with one key, `value`, which says lines on every MONITOR connection."""

    def __init__(self) -> None:
        self.value = ""
        self.ms = 1_000_000
        self.looks = 0
        self._monitors: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if line == b"MONITOR\r\n":
                    writer.write(b"+OK\r\n")
                    self._monitors.append(writer)
                elif line.startswith(b"*"):
                    words = [await self._bulk(reader) for _ in range(int(line[1:]))]
                    self.say(BY, *words)
                    self.looks += 1
                    writer.write(b"*1\r\n$%d\r\n%s\r\n" % (len(self.value), self.value.encode()))
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _bulk(self, reader: asyncio.StreamReader) -> str:
        length = int((await reader.readline())[1:])
        return (await reader.readexactly(length + 2))[:-2].decode()

    def say(self, by: str, *words: str) -> None:
        """One executed command."""
        told = " ".join(f'"{word}"' for word in words)
        head = f"+{self.ms // 1000}.{self.ms % 1000:03d}000 [0 {by}] "
        for monitor in self._monitors:
            monitor.write(f"{head}{told}\r\n".encode())

    def acquire(self, owner: str, ms: int = 2000, *, sets: bool) -> None:
        """The acquire of a lock, which sets its key or not."""
        self.value = owner if sets else self.value
        self.say(BY, "EVALSHA", "a", "2", "db", "db:token", owner, str(ms), "none")
        self.say(LUA, "set", "db", owner, "NX", "PX", str(ms))

    def scripted(self, owner: str, *words: str) -> None:
        """A script of an owner that gets as far as one more command."""
        self.say(BY, "EVALSHA", "b", "1", "db", owner)
        self.say(LUA, "get", "db")
        self.say(LUA, *words)

    def release(self, owner: str) -> None:
        self.value = ""
        self.scripted(owner, "del", "db")

    async def looked(self, times: int = 2) -> None:
        """Until the reader has looked at the key as often from now on."""
        enough = self.looks + times
        assert await until(lambda: self.looks >= enough, within_ns=WITHIN_S * SECOND)

    async def cut(self) -> None:
        """Closes the connections."""
        for monitor in self._monitors:
            monitor.close()
        self._monitors.clear()


def read(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Said], Awaitable[None]]
) -> list[RecordEvent]:
    """The events of a reader, while a server plays."""
    noted: list[RecordEvent] = []

    async def drive() -> None:
        server = Said()
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        monkeypatch.setattr(record, "PORT", listening.sockets[0].getsockname()[1])
        node = Node(name="n1", role="server", address="127.0.0.1")
        work = task(noted, servers=[node])
        reading = asyncio.ensure_future(record.follow(work))
        try:
            async with asyncio.timeout(WITHIN_S):
                await work.following.wait()
            await play(server)
            work.over.set()
            async with asyncio.timeout(WITHIN_S):
                await reading
        finally:
            reading.cancel()
            listening.close()

    asyncio.run(drive())
    return noted


def told(monkeypatch: pytest.MonkeyPatch, play: Callable[[Said], Awaitable[None]]) -> Sequence[str]:
    return brief(read(monkeypatch, play))


def test_a_set_of_a_free_key_is_an_entry_until_the_script_of_its_owner_deletes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.acquire("42", sets=False)
        server.release("41")
        server.acquire("42", sets=True)
        await server.looked()

    assert told(monkeypatch, play) == ["put db 41", "gone db 41", "put db 42", "ended"]


def test_a_lease_that_is_over_is_seen_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.ms, server.value = server.ms + 2100, ""
        await server.looked()

    assert told(monkeypatch, play) == ["put db 41", "gone db 41 expired", "ended"]


@pytest.mark.parametrize("late_ms", [1960, 2030])
def test_who_has_a_key_whose_lease_may_be_over_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, late_ms: int
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.ms += late_ms
        server.acquire("42", sets=True)
        server.acquire("43", sets=False)
        await server.looked()

    assert told(monkeypatch, play) == ["put db 41", "gone db 41 expired", "put db 42", "ended"]


def test_a_set_shortly_before_the_end_of_a_lease_may_have_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.ms += 1990
        server.acquire("42", sets=False)
        await server.looked()
        server.ms, server.value = server.ms + 100, ""
        await server.looked()

    assert told(monkeypatch, play) == ["put db 41", "gone db 41 expired", "ended"]


def test_a_script_that_comes_before_the_look_shows_the_owner_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.ms += 2030
        server.acquire("42", sets=True)
        server.release("42")
        await server.looked()

    assert told(monkeypatch, play) == [
        "put db 41", "gone db 41 expired", "put db 42", "gone db 42", "ended",
    ]  # fmt: skip


def test_a_renewal_moves_the_end_of_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.ms += 1500
        server.scripted("41", "pexpire", "db", "2000")
        server.ms += 1500
        server.acquire("42", sets=False)
        await server.looked()

    assert told(monkeypatch, play) == ["put db 41", "ended"]


@pytest.mark.parametrize("value", ["", "77"])
def test_a_key_that_is_not_as_the_commands_say_is_a_gap(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.value = value
        await server.looked(4)

    assert told(monkeypatch, play) == ["put db 41", "gap", f"state db {value}".strip(), "ended"]


def test_a_script_of_another_owner_than_the_one_that_is_known_is_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        server.scripted("42", "pexpire", "db", "2000")
        await server.looked(4)

    assert told(monkeypatch, play) == ["put db 41", "gap", "state db 41", "ended"]


def test_a_broken_connection_is_a_gap_from_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(server: Said) -> None:
        server.acquire("41", sets=True)
        await server.looked()
        await server.cut()
        server.value = ""
        await server.looked(4)

    noted = read(monkeypatch, play)
    assert brief(noted) == ["put db 41", "gap", "state db", "ended"]
    assert next(one for one in noted if one.event == "gap").reason.startswith("the connection")


def test_a_line_of_monitor_is_read_with_its_escapes() -> None:
    line = parsed(rb'+1339518083.107412 [0 127.0.0.1:60866] "SET" "a \"b\" \x00\n" "\\"')
    assert (line.ms, line.lua, line.command) == (1339518083107, False, "set")
    assert line.words == ['a "b" \x00\n', "\\"]
    assert parsed(b'+1.000001 [0 lua] "get"').lua


@pytest.mark.parametrize("line", [b"", b"+OK", b'+1.2 [0 x] "a"', b'+1.000001 [0 x] "a', b"$5"])
def test_what_is_no_line_of_monitor_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no line of MONITOR"):
        parsed(line)


def test_variants_whose_commands_do_not_show_the_owner_are_refused() -> None:
    assert SYSTEM.unrecorded({}) is None
    assert SYSTEM.unrecorded({"variant": "plain-del"}) is None
    assert SYSTEM.unrecorded({"variant": "fixed-value"})
    assert SYSTEM.unrecorded({"variant": "setnx-expire"})
