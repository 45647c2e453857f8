"""What a run is made of: the kinds of fault that it knows, its fault agent and its cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.client.self_faults import OrderingAgent
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import (
    Fabric,
    Hosting,
    Nemesis,
    Place,
)
from holdfast.harness.core.waiting import to_the_end
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir


@runtime_checkable
class EndsWithClient(Protocol):
    """A System whose run ends with the first client that exits: its program is then broken."""

    ends_with_client: bool


@runtime_checkable
class Operating(Protocol):
    """A Nemesis whose requests the driver carries out: `operator` is the `module:Class` that is
    called with the cluster, and asked in the place of the fault agent; "" for none."""

    @property
    def operator(self) -> str: ...


def settle_ns(manifest: Manifest) -> int:
    """Recovery, and a lease for every possible holder, waiter and unanswered acquire."""
    parties = manifest.plan.clients + 1
    return int(manifest.promises.recovery_ns + parties * manifest.longest_hold_ns + 5 * SECOND)


def ends_with_client(manifest: Manifest) -> bool:
    """Whether the exit of a client ends the run: its system is nothing beside its clients."""
    system = load(manifest.entries.system)
    return isinstance(system, EndsWithClient) and system.ends_with_client


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """Makes the parts of one run on its backend."""

    manifest: Manifest
    place: Place
    backend: Fabric
    runtime: Runtime

    def nemeses(self) -> dict[str, Nemesis]:
        """Kind -> nemesis, of the kinds of fault of the plan."""
        return {do: load(entry) for do, entry in self.manifest.entries.nemeses.items()}

    async def agent(self, nemeses: Collection[Nemesis] = ()) -> AgentLink:
        """A fault agent that knows these kinds of fault. One that does not answer is closed."""
        backend = self.backend
        if isinstance(backend, Hosting):
            agent: AgentLink = await backend.agents()
        else:
            run = RunDir(self.place.run_dir)
            env = {"PYTHONPATH": str(run.code), **self.runtime.environ}
            agent = await AgentLink.start(backend.agent_argv(), env, run.log("agent", "agent"))
        try:
            await agent.ask("hello", kill_on_eof=True)
            halves = list(dict.fromkeys(half for one in nemeses for half in one.agent))
            if halves:
                await agent.ask("load", halves=halves)
        except BaseException:
            await to_the_end(agent.close())
            raise
        return agent

    def cluster(self, agent: AgentLink, nemeses: Collection[Nemesis]) -> Cluster:
        """The cluster, not yet deployed.

        A backend with its own fault agents injects all faults through them; elsewhere clients on
        this host are routed through our agent, or inject faults into themselves, and the driver
        does what operators do.
        """
        manifest, backend = self.manifest, self.backend
        entries, system = manifest.entries, load(manifest.entries.system)
        hosting = isinstance(backend, Hosting)
        if isinstance(backend, Hosting):
            system = backend.system(entries.system, system)
        traits = [nemesis.traits for nemesis in nemeses]
        cluster = Cluster(
            plan=manifest.plan,
            place=self.place,
            backend=backend,
            runtime=self.runtime,
            system=system,
            agent=agent if hosting else OrderingAgent(agent, self.place.run_dir / "workers"),
            tapped=any(one.on_connections for one in traits) and not hosting,
            ordered=any(one.in_client for one in traits) and not hosting,
            marked=any(one.counts_calls for one in traits),
            entries=entries,
            options=manifest.options,
            site=manifest.site,
            over_ns=manifest.plan.time_ns + settle_ns(manifest) + 60 * SECOND,
        )
        for operator in operators(nemeses) if not hosting else ():
            cluster.agent = load(operator)(cluster)
        return cluster

    def schedule(self, cluster: Cluster, nemeses: Mapping[str, Nemesis]) -> Schedule:
        """The schedule of the plan's faults."""
        return Schedule(
            faults=self.manifest.plan.faults,
            nemeses=nemeses,
            seed=self.manifest.plan.seed,
            cluster=cluster,
            live=self.runtime.live,
            note=self.runtime.append,
            now=self.runtime.now,
            peers=self.manifest.peers,
        )

    async def rescue(self, cluster: Cluster) -> None:
        """Undoes the faults of the first fault agent, which has exited, with a second one.

        A backend with its own fault agents ends what runs in the nodes, including the faults.
        Errors: HoldfastError.
        """
        if isinstance(self.backend, Hosting):
            return
        agent = await self.agent()
        try:
            for node in cluster.nodes:
                with suppress(HoldfastError):
                    await cluster.adopt(node.name, agent)
            await agent.ask("recover")
        finally:
            await agent.close()


def operators(nemeses: Collection[Nemesis]) -> Sequence[str]:
    """What carries out requests of these kinds in the driver, in the place of the fault agent."""
    named = [one.operator for one in nemeses if isinstance(one, Operating)]
    return [operator for operator in dict.fromkeys(named) if operator]
