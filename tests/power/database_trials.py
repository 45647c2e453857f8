"""Operations on Redis and PostgreSQL that take effect, and what makes them impossible."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from holdfast.clusters.systems.postgres.wire import first_row
from holdfast.clusters.systems.redis import PORT as REDIS_PORT
from holdfast.clusters.systems.redis import server as redis
from holdfast.harness.driver import operations
from tests.power.operated_cluster import read_only
from tests.power.trial import EVERYONE, Seen, Trials, Way


@asynccontextmanager
async def _later(context: Any) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A context that is entered by a call inside, and left at the end if it was entered."""
    entered = False

    async def enter() -> None:
        nonlocal entered
        await context.__aenter__()
        entered = True

    try:
        yield enter
    finally:
        if entered:
            await context.__aexit__(None, None, None)


class RollingRestart(Trials):
    """Effective if each server is another process, by pid and start time."""

    kind = "rolling-restart"
    system, servers = "redlock", 3

    def processes(self) -> list[tuple[int, int] | None]:
        return [self.of.process(f"{node.address}:{REDIS_PORT}") for node in self.of.nodes]

    async def operated(self) -> Seen:
        before = self.processes()
        found = await self.of.operate(self.kind, EVERYONE)
        after = self.processes()
        moved = all(a and b and a != b for a, b in zip(before, after, strict=True))
        return found, moved

    free = operated

    def ways(self) -> Mapping[str, Way]:
        async def removed() -> Seen:
            redis.BINARY, kept = "no-such-server", redis.BINARY
            try:
                seen = await self.operated()
            finally:
                redis.BINARY = kept
            await self.of.up()
            return seen

        async def dead() -> Seen:
            async with self.of.struck("kill", "n2"):
                return await self.operated()

        async def dies() -> Seen:
            async with self.of.killed_at_start("n3"):
                return await self.operated()

        async def no_folder() -> Seen:
            data = self.of.data("n3")
            aside = data.with_name("aside")
            data.rename(aside)
            data.touch()
            try:
                seen = await self.operated()
            finally:
                data.unlink()
                aside.rename(data)
            await self.of.up()
            return seen

        return {
            "program removed": removed,
            "one is dead": dead,
            "killed at its start": dies,
            "no data folder": no_folder,
        }


class Promotion(Trials):
    """Effective if another server is the primary of a later timeline."""

    kind = "manual-failover"
    system, servers = "postgres-lease", 2
    options: Mapping[str, str] = {"replicas": "1"}
    few = ("standby killed", "standby paused", "unreachable")

    async def leading(self) -> tuple[int, str]:
        """Timeline and name of the primary of the latest timeline."""
        words = (
            "select case when pg_is_in_recovery() then 0"
            " else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end"
        )
        asked = [(await first_row(node.address, words, 2), node.name) for node in self.of.nodes]
        return max((int(row[0]), name) for row, name in asked if row)

    async def operated(self, target: str, via: str) -> Seen:
        before = await self.leading()
        found = await self.of.operate(self.kind, target, via=via)
        after = await self.leading()
        return found, after[0] > before[0] and after[1] != before[1]

    async def free(self) -> Seen:
        self.count += 1
        seen = await self.operated("leader", ("handover", "force")[self.count % 2])
        await self.of.up()
        return seen

    def ways(self) -> Mapping[str, Way]:
        async def pair() -> tuple[str, str]:
            self.count += 1
            _, leads = await self.leading()
            return leads, next(n.name for n in self.of.nodes if n.name != leads)

        async def struck(do: str) -> Seen:
            leads, standby = await pair()
            async with self.of.struck(do, standby):
                return await self.operated(leads, ("handover", "force")[self.count % 2])

        async def unreachable() -> Seen:
            leads, standby = await pair()
            async with self.of.unreachable(standby):
                return await self.operated(leads, ("handover", "force")[self.count % 2])

        async def follower() -> Seen:
            _, standby = await pair()
            return await self.operated(standby, ("handover", "force")[self.count % 2])

        async def dead() -> Seen:
            leads, _ = await pair()
            async with self.of.struck("kill", leads):
                return await self.of.operate(self.kind, leads, via="handover"), None

        return {
            "no leader": follower,
            "killed": dead,
            "standby killed": lambda: struck("kill"),
            "standby paused": lambda: struck("pause"),
            "unreachable": unreachable,
        }


class Restore(Trials):
    """Copies of one redis-server. Effective if a value written after the backup is gone again."""

    kind, target = "backup-restore", EVERYONE
    system, servers = "redis", 1
    options: Mapping[str, str] = {"tokens": "counter"}

    async def value(self) -> str:
        said = await redis.said(self.address("n1"), REDIS_PORT, "GET", "trial")
        return "" if said is None else said[0]

    async def set(self) -> None:
        self.count += 1
        await redis.said(self.address("n1"), REDIS_PORT, "SET", "trial", str(self.count))

    async def operated(self, *, writes: bool = True) -> Seen:
        await self.set()
        before = await self.value()

        async def later() -> None:
            if writes:
                await self.set()

        found = await self.of.operate(self.kind, self.target, later)
        await self.of.up()
        return found, writes and before != "" and await self.value() == before

    async def free(self) -> Seen:
        return await self.operated()

    def ways(self) -> Mapping[str, Way]:
        async def unchanged() -> Seen:
            return await self.operated(writes=False)

        async def dead() -> Seen:
            async with self.of.struck("kill", "n1"):
                return await self.of.operate(self.kind, self.target), None

        async def paused() -> Seen:
            async with self.of.struck("pause", "n1"):
                return await self.of.operate(self.kind, self.target), None

        async def gone() -> Seen:
            await self.set()
            written = ""

            async def lose() -> None:
                nonlocal written
                await self.set()
                written = await self.value()
                shutil.rmtree(self.of.cluster.place.run_dir / operations.BACKUPS)

            found = await self.of.operate(self.kind, self.target, lose)
            await self.of.up()
            return found, await self.value() != written

        async def frozen() -> Seen:
            await self.set()
            async with _later(read_only(self.of.data("n1"))) as lock:

                async def later() -> None:
                    await self.set()
                    await lock()

                found = await self.of.operate(self.kind, self.target, later)
            await self.of.up()
            async with self.of.struck("kill", "n1"):
                pass  # It was started in the folder that it could not write to.
            return found, None

        return {
            "nothing written": unchanged,
            "killed": dead,
            "paused": paused,
            "backup removed": gone,
            "read-only": frozen,
        }


class Rollback(Restore):
    """The same for the one server that is rolled back."""

    kind, target = "rollback", "n1"
