"""What operators do to servers: backups put back, members replaced, rolling restarts and upgrades.

The driver carries these out, because they need the system's own commands. An operation counts only
if a file that was put back differs from the present one, a member has another id, or a server
reports another release.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, NoAnswer
from holdfast.harness.core.fault_traits import (
    COMPACT,
    COPY,
    DEFRAGMENT,
    FORCE,
    HANDOVER,
    REPLACE,
    RESTART,
    SNAPSHOT,
    UPGRADE,
)
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Advances, Members, Node, Operated, Snapshots, StartsSlowly
from holdfast.harness.core.waiting import until, until_answer
from holdfast.harness.driver.data_folders import copy, differing, empty, files_in
from holdfast.harness.driver.failover import FailingOver
from holdfast.harness.driver.maintenance import Maintaining
from holdfast.harness.driver.rolling import Restarting, Upgrading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.harness.driver.cluster import Cluster
    from holdfast.harness.driver.schedule import Agent, Reply

BACKUPS = "backups"
"""Folder of a run in which operations keep what they put back; it is empty after them."""
READY_WITHIN_NS = 20 * SECOND
EXITS_WITHIN_NS = 10 * SECOND
Evidence = dict[str, Json]


class Operation(Protocol):
    """One operation. `begin` when its fault is injected, `end` when it heals, once each."""

    evidence: Evidence

    async def begin(self) -> int:
        """Its first part; the time at which it began."""
        ...

    async def end(self) -> None: ...


class Operator:
    """Carries out requests `operate`, as the fault agent would; it forwards all other requests."""

    def __init__(self, cluster: Cluster) -> None:
        self._agent = cluster.agent
        self._cluster = cluster
        self._begun: dict[str, Operation] = {}
        self._ended: list[str] = []

    async def ask(self, do: str, **args: object) -> Reply:
        """As `AgentLink.ask`."""
        try:
            return await self._ask(do, args)
        except OSError as error:
            raise EnvironmentFailed(f"{do} {args.get('fault', '')}: {error}") from error

    async def _ask(self, do: str, args: Mapping[str, object]) -> Reply:
        fault = str(args.get("fault", ""))
        if do == "operate":
            nodes, what = args["nodes"], str(args["what"])
            assert isinstance(nodes, list)
            servers = Servers(self._cluster, self._agent, fault, nodes, args)
            operation = self._begun[fault] = OPERATIONS[what](servers, what)
            return {"t_ns": await operation.begin(), "evidence": dict(operation.evidence)}
        if do in ("observe", "heal") and fault in self._begun:
            operation = self._begun[fault]
            if do == "heal" and fault not in self._ended:
                self._ended.append(fault)
                await _ended(operation)
            evidence = {"effective": False, **operation.evidence}
            return {"t_ns": self._cluster.runtime.now(), "evidence": evidence}
        return await self._agent.ask(do, **args)


async def _ended(operation: Operation) -> None:
    """Ends an operation. One that has taken effect stays effective if its last steps fail, such as
    the start of a server; the reason is evidence. Errors: EnvironmentFailed, OSError."""
    try:
        await operation.end()
    except (AgentLost, NoAnswer):
        raise
    except (EnvironmentFailed, OSError) as failed:
        if not operation.evidence.get("effective"):
            raise
        operation.evidence.setdefault("problem", str(failed))


class Servers:
    """The servers that an operation works on, and what it needs of their run."""

    def __init__(
        self,
        cluster: Cluster,
        agent: Agent,
        fault: str,
        names: Sequence[str],
        args: Mapping[str, object],
    ) -> None:
        system = cluster.system
        assert isinstance(system, Operated), "the plan was refused otherwise"
        self.system = system
        self.cluster = cluster
        self.fault = fault
        self.args = args
        self.all = cluster.named("server")
        self.nodes = [node for node in self.all if node.name in names]
        self.names = [node.name for node in self.nodes]
        self.options = cluster.options.system
        self.place = cluster.place
        self.now = cluster.runtime.now
        self.backup = cluster.place.run_dir / BACKUPS / fault
        self._agent = agent
        self._stops = 0

    def data(self, node: Node) -> Path:
        """The data folder of a server."""
        return self.place.run_dir / "data" / node.name

    async def position(self) -> int | None:
        """The largest position of the nodes; None if there is none."""
        asked = (self.system.position(server, self.options) for server in self.nodes)
        return max((n for n in await asyncio.gather(*asked) if n is not None), default=None)

    @asynccontextmanager
    async def stopped(self, names: Sequence[str]) -> AsyncIterator[None]:
        """Servers are killed inside, and always started again."""
        self._stops += 1
        stop = f"{self.fault}.stop{self._stops}"  # each request needs an id of its own
        await self._agent.ask("kill", fault=stop, nodes=list(names))
        try:
            yield
        finally:
            healed = await self._agent.ask("heal", fault=stop)
            for name in healed["evidence"].get("restart", ()):
                await self.cluster.start(name)

    async def shut_down(self, node: Node, number: int) -> None:
        """Signals a server to exit by itself and waits until it has. One that does not is killed
        and started again. Errors: EnvironmentFailed."""
        cluster, name = self.cluster, node.name
        process = cluster.running[name].pid
        if cluster.alive(name):
            os.kill(process, number)
        gone = await until(lambda: not cluster.alive(name), within_ns=EXITS_WITHIN_NS, now=self.now)
        if not gone:
            async with self.stopped([name]):
                pass
            bound = f"{EXITS_WITHIN_NS // SECOND} s"
            raise EnvironmentFailed(f"{name} did not shut down within {bound}")

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """The servers are paused inside, so that their files are those of one moment."""
        pause = f"{self.fault}.copy"
        await self._agent.ask("pause", fault=pause, nodes=self.names)
        try:
            yield
        finally:
            await self._agent.ask("heal", fault=pause)

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """No client reaches the servers inside."""
        others = [node.address for node in self.cluster.nodes if node.role != "server"]
        links = [{"node": server.name, "from": others} for server in self.all]
        close = f"{self.fault}.close"
        await self._agent.ask("cut", fault=close, links=links)
        try:
            yield
        finally:
            await self._agent.ask("heal", fault=close)

    async def ready(self, nodes: Sequence[Node]) -> None:
        """Waits until servers serve. Errors: EnvironmentFailed, at once if one has exited."""
        system, within_ns = self.cluster.system, READY_WITHIN_NS
        if isinstance(system, StartsSlowly):
            within_ns = system.ready_within_ns
        for node in nodes:
            serves = partial(self._serves, node)
            if not await until_answer(serves, within_ns=within_ns, now=self.now):
                raise EnvironmentFailed(
                    f"{node.name} was not ready within {within_ns // SECOND} s after {self.fault}"
                )

    async def _serves(self, node: Node) -> bool:
        if not self.cluster.alive(node.name):
            raise EnvironmentFailed(self.cluster.exit_message(node.name))
        return await self.cluster.system.ready(node, self.options)


class Restoring:
    """Backups of the nodes, taken at the injection and put back at the heal."""

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._what = what
        self._bytes = 0
        self._position: dict[str, Json] = {}
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Takes the backup."""
        begun_ns = self._of.now()
        await self._note_position("saved")
        if self._what == SNAPSHOT:
            await self._save()
        else:
            await self._copy()
        self.evidence["saved bytes"] = self._bytes
        return begun_ns

    async def end(self) -> None:
        """Kills the servers, puts the backup back, starts them; reads their position again."""
        of, system = self._of, self._of.system
        if self._what == SNAPSHOT:
            await self._restore()
        for node in of.nodes:
            await system.flush(node, of.options)
        await self._note_position("before")
        times = [of.now()]
        async with AsyncExitStack() as closed:
            async with of.stopped(of.names):
                changed = self._put_back()
                times.append(of.now())
                # From here on the state went back, whatever happens to the servers.
                effective = changed > 0 and self._state_differs()
                self.evidence |= {"effective": effective, "changed files": changed}
                self.evidence["operated_ns"] = [*times]
                if of.args.get("advance"):
                    await closed.enter_async_context(of.closed())
            try:
                await of.ready(of.all)
                await self._advance()
            except EnvironmentFailed as late:
                self.evidence["problem"] = str(late)
        await self._note_position("after")
        shutil.rmtree(of.backup, ignore_errors=True)
        with suppress(OSError):
            of.backup.parent.rmdir()  # Another operation may still have its backup there.

    def _state_differs(self) -> bool:
        """False if a snapshot has the present state. Its files are always new ones, so only a
        position that is behind the present one shows that it has an earlier state."""
        saved, before = (self._position.get(when) for when in ("saved", "before"))
        if self._what != SNAPSHOT:
            return True
        return isinstance(saved, int) and isinstance(before, int) and saved < before

    async def _advance(self) -> None:
        """Advances the token counter, if the fault says so."""
        of, by = self._of, self._of.args.get("advance")
        if by:
            assert isinstance(of.system, Advances), "the plan was refused otherwise"
            assert isinstance(by, int)
            await of.system.advance(of.all, by)
            self.evidence["advanced by"] = by

    async def _note_position(self, when: str) -> None:
        """Adds the position to the evidence, where the system reports one."""
        position = await self._of.position()
        if position is not None:
            self._position[when] = position
            self.evidence["position"] = {**self._position}

    async def _copy(self) -> None:
        of = self._of
        for node in of.nodes:
            await of.system.flush(node, of.options)
        async with of.paused():
            for node in of.nodes:
                self._bytes += await asyncio.to_thread(copy, of.data(node), of.backup / node.name)

    async def _save(self) -> None:
        of = self._of
        assert isinstance(of.system, Snapshots)
        of.backup.mkdir(parents=True)
        await of.system.save_snapshot(of.nodes[0], of.options, of.backup / SNAPSHOT)
        self._bytes = (of.backup / SNAPSHOT).stat().st_size

    async def _restore(self) -> None:
        of = self._of
        assert isinstance(of.system, Snapshots)
        for node in of.nodes:
            await of.system.restore_snapshot(
                node, of.all, of.place, of.backup / SNAPSHOT, of.backup / node.name
            )

    def _put_back(self) -> int:
        """Replaces the content of the data folders; the number of files that changed by it.

        Errors: OSError, and then nothing changed. If the disk fails later, the files that were lost
        count too.
        """
        of = self._of
        # Read before the first file is deleted: a backup that is gone must not cost the data.
        entries = {node.name: sorted((of.backup / node.name).iterdir()) for node in of.nodes}
        changed, problem = 0, None
        for node in of.nodes:
            data = of.data(node)
            now, other = files_in(data), differing(data, of.backup / node.name)
            try:
                empty(data)
                for entry in entries[node.name]:
                    shutil.move(entry, data / entry.name)
            except OSError as failed:
                problem = failed
                self.evidence["problem"] = f"{node.name}: {failed}"
            then = files_in(data)
            moved = {path for path in {**now, **then} if now.get(path) != then.get(path)}
            changed += sum(path in other or path not in then for path in moved)
        if problem is not None and not changed:
            raise problem
        return changed


class Replacing:
    """Members that are killed and removed, lose their data, and join again at the heal."""

    def __init__(self, servers: Servers, what: str) -> None:
        self._of = servers
        self._removed: dict[str, str] = {}
        self._stopped: dict[str, AsyncExitStack] = {}
        self.evidence: Evidence = {"how": what}

    async def begin(self) -> int:
        """Kills and removes the members."""
        of, begun_ns = self._of, self._of.now()
        assert isinstance(of.system, Members)
        try:
            for node in of.nodes:
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(of.stopped([node.name]))
                    self._removed[node.name] = await of.system.remove_member(node, of.all)
                    # Only now: if the removal fails, the node starts again with its data.
                    self._stopped[node.name] = stack.pop_all()
        except EnvironmentFailed:
            # The fault is not in effect then: those that were removed before join again.
            await self._join()
            raise
        self.evidence |= {"removed": {**self._removed}, "operated_ns": [begun_ns]}
        return begun_ns

    async def end(self) -> None:
        """Empties their data folders; they join again, one after the other."""
        added = await self._join()
        times = self.evidence["operated_ns"]
        assert isinstance(times, list)
        self.evidence |= {
            "added": {**added},
            "operated_ns": [*times, self._of.now()],
            "effective": all(
                added.get(name) not in (None, id) for name, id in self._removed.items()
            ),
        }

    async def _join(self) -> dict[str, str]:
        """The members that were removed join again without data; their new ids."""
        of = self._of
        assert isinstance(of.system, Members)
        added: dict[str, str] = {}
        for node in of.nodes:
            if node.name in self._stopped:
                async with self._stopped.pop(node.name):
                    empty(of.data(node))
                    added[node.name] = await of.system.add_member(node, of.all, of.place)
                await of.ready([node])
        return added


OPERATIONS: Mapping[str, Callable[[Servers, str], Operation]] = {
    COPY: Restoring,
    SNAPSHOT: Restoring,
    REPLACE: Replacing,
    RESTART: Restarting,
    UPGRADE: Upgrading,
    HANDOVER: FailingOver,
    FORCE: FailingOver,
    COMPACT: Maintaining,
    DEFRAGMENT: Maintaining,
}
