"""Executes a fault plan: injects each fault at its time, measures its effect, and always heals it.

Each step is one row of faults.jsonl: planned, injected, healed, skipped or failed, with the time
on the agent's clock and the evidence that the agent measured.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, HoldfastError, NoAnswer
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Leader, Nemesis, Node, Request, View
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.waiting import Sleeps
from holdfast.harness.history.so_far import Hold
from holdfast.harness.plans.events import Event, event
from holdfast.harness.runs.journal import WAITED, FaultRow

HOLDER_WITHIN_NS = 3 * SECOND
LOOK_NS = 200 * MILLISECOND
TRIES = 3
"""Attempts of an unanswered `observe` or `heal` before the fault agent counts as lost."""


Reply = dict[str, Any]


class Agent(Protocol):
    """A fault agent; its responses have "t_ns" and "evidence" (`nemesis/agent`)."""

    async def ask(self, do: str, **args: object) -> Reply: ...


class Stage(Protocol):
    """What faults act on: the nodes, the agent for them, and the leader."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def agent(self) -> Agent: ...

    async def leader(self) -> Leader | None: ...

    async def start(self, name: str) -> None: ...

    async def refresh(self) -> None:
        """Updates what is known about the running history."""
        ...


class Holders(Protocol):
    """The present holders, the latest grant first; `news` waits until they may have changed.

    happened   how often an event happened so far, and when it did last; `changes` waits until one
               may have
    """

    def holds(self) -> Sequence[Hold]: ...

    async def news(self) -> None: ...

    def happened(self, what: Event) -> tuple[int, int]: ...

    async def changes(self) -> None: ...


@dataclass(slots=True)
class Schedule:
    """The faults of one run. `active`: the number of those in effect.

    note   receives each row about a fault
    now    the clock of the run, ns
    peers  whether the servers of this system talk to each other
    """

    faults: Sequence[Fault]
    nemeses: Mapping[str, Nemesis]
    seed: int
    cluster: Stage
    live: Holders
    note: Callable[[FaultRow], None]
    now: Callable[[], int] = now_ns
    peers: bool = True
    start_ns: int = 0
    active: int = 0
    done: int = 0
    resting: set[str] = field(default_factory=set)
    """nodes whose process a fault has killed and that have not been restarted yet"""
    mortal: list[str] = field(default_factory=list)
    """nodes that a fault may kill at any time until it heals, once per fault"""
    paused: list[str] = field(default_factory=list)
    """nodes that a fault has paused, once per fault"""
    _sleeps: Sleeps = field(default_factory=Sleeps)
    _unknown: set[str] = field(default_factory=set)
    """faults whose injection had no response: they may have been in effect at any time since"""
    _waited: dict[str, int] = field(default_factory=dict)
    """fault -> how long it waited before it took effect, ns"""

    async def run(self, start_ns: int) -> None:
        """Executes all faults of the plan; returns when the last one is healed."""
        self.start_ns = start_ns
        for fault in self.faults:
            params = dict(fault.params)
            if fault.when:
                params |= {"when": fault.when, "within": duration_text(fault.within_ns)}
            self.note(_row(fault, "planned", at_ns=fault.at_ns, for_ns=fault.for_ns, params=params))
        works = [asyncio.ensure_future(self._one(fault)) for fault in self.faults]
        try:
            await asyncio.gather(*works)
        except HoldfastError:
            # The agent is lost, or the journal's disk is full: no other fault begins.
            for work in works:
                work.cancel()
            await asyncio.wait(works)
            raise

    def end(self) -> None:
        """Begins no further fault, and heals those in effect now, as at their end."""
        self._sleeps.end()

    async def _one(self, fault: Fault) -> None:
        begin_ns, event_ns = self.start_ns + fault.at_ns, 0
        await self._sleeps.until(begin_ns, self.now)
        if self._sleeps.ended:
            self._note(fault, "skipped", "the workload was ended before")
            self.done += 1
            return
        if fault.when:
            event_ns = await self._awaited(fault)
            if not event_ns:
                within = duration_text(fault.within_ns)
                self._note(fault, "skipped", f"no {fault.when} within {within}")
                self.done += 1
                return
            begin_ns = self.now()
        nodes: list[str] = []
        try:
            nodes = await self._inject(fault, event_ns)
            if nodes:
                self.active += 1
                if fault.id not in self._unknown:
                    begin_ns += self._waited.get(fault.id, 0)
                    await self._sleeps.until(begin_ns + fault.for_ns, self.now)
        except AgentLost as lost:
            self._note(fault, "failed", str(lost))
            raise
        except EnvironmentFailed as error:
            self._note(fault, "failed", str(error))
        finally:
            if nodes:
                await self._heal(fault)
                traits = self.nemeses[fault.do].traits
                if traits.stops and not traits.kills:
                    _remove(self.paused, nodes)
                # A server may refuse its earlier state as late as its first message from another.
                if traits.kills_later and not traits.reverts:
                    _remove(self.mortal, nodes)
                self.active -= 1
            self.done += 1

    async def _awaited(self, fault: Fault) -> int:
        """The time of the next event that the fault waits for; 0: none came in time."""
        what = event(fault.when)
        before, _ = self.live.happened(what)
        deadline = self.now() + fault.within_ns
        while (left_ns := deadline - self.now()) > 0 and not self._sleeps.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_ns / SECOND):
                    await self.live.changes()
            count, event_ns = self.live.happened(what)
            if count > before:
                return event_ns
        return 0

    async def _inject(self, fault: Fault, event_ns: int) -> list[str]:
        """Resolves the target and injects the fault; [] if the target could not be resolved.

        event_ns   the event for which it waited, 0 for none
        """
        nemesis = self.nemeses[fault.do]
        rng = stream(self.seed, "fault", fault.id)
        view = await self._view(fault)
        try:
            requests = nemesis.requests(fault, view, rng)
        except LookupError as error:
            self._note(fault, "skipped", str(error))
            return []
        nodes: list[str] = []
        evidence: dict[str, Json] = {}
        if event_ns:
            evidence["after_event_ns"] = self.now() - event_ns
        t_ns = 0
        before_ns = self.now()
        for request in requests:
            try:
                answer = await self._strike(request, nemesis.traits, nodes)
            except NoAnswer as late:
                # It may be in effect, or take effect when the agent resumes: the window begins at
                # the request and ends with the heal, and there is no evidence of an effect.
                self._unknown.add(fault.id)
                self._note(fault, "failed", str(late))
                t_ns = t_ns or before_ns
                break
            evidence.update(answer["evidence"])
            self._waited[fault.id] = int(answer["evidence"].get(WAITED, 0))
            t_ns = t_ns or int(answer["t_ns"])
        aimed_at_holder = "holder" in fault.target and view.holders
        holder = view.holders[0] if aimed_at_holder and view.holders[0] in nodes else ""
        self.note(
            _row(
                fault,
                "injected",
                t_ns=t_ns,
                before_ns=before_ns,
                nodes=nodes,
                holder=holder,
                leader=view.leader.name if view.leader else None,
                term=view.leader.term if view.leader else None,
                evidence=evidence,
            )
        )
        return nodes

    async def _strike(self, request: Request, traits: Traits, nodes: list[str]) -> Reply:
        """Sends one request of a fault, and adds the nodes that it acts on to `nodes`.

        What it does to them is known before it is sent, and does not count if it is refused.
        """
        aimed = [node for node in _aimed_at(request.args) if node not in nodes]
        killed = [node for node in aimed if traits.kills and node not in self.resting]
        stopped = aimed if traits.stops and not traits.kills else []
        mortal = aimed if traits.kills_later else []
        self.resting.update(killed)
        self.paused += stopped
        self.mortal += mortal
        nodes += aimed
        try:
            return await self.cluster.agent.ask(request.do, **request.args)
        except (NoAnswer, AgentLost):
            raise
        except EnvironmentFailed:
            self.resting.difference_update(killed)
            _remove(self.paused, stopped)
            _remove(self.mortal, mortal)
            raise

    async def _view(self, fault: Fault) -> View:
        leader = None
        if "leader" in fault.target or "follower" in fault.target:
            leader = await self.cluster.leader()
        if "holder" in fault.target:
            await self.cluster.refresh()
        holders = self._holders()
        if fault.target.startswith("holder"):
            deadline = self.now() + HOLDER_WITHIN_NS
            while not holders and self.now() < deadline:
                # Without news a holder may still be restarted, or resume.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_NS / SECOND):
                        await self.live.news()
                await self.cluster.refresh()
                holders = self._holders()
        return View(
            nodes=self.cluster.nodes,
            leader=leader,
            holders=holders,
            down=sorted(self.resting),
            peers=self.peers,
        )

    def _holders(self) -> list[str]:
        """The holders that run: a second fault on a stopped holder would show nothing."""
        idle = {*self.resting, *self.paused}
        nodes = dict.fromkeys(hold.node for hold in self.live.holds())
        return [node for node in nodes if node not in idle]

    async def _heal(self, fault: Fault) -> None:
        """Observes, heals, and restarts what was killed. Notes a failure; raises AgentLost."""
        try:
            seen = await self._insist("observe", fault)
            healed = await self._insist("heal", fault)
            evidence = {**seen["evidence"], **healed["evidence"]}
            for node in evidence.pop("restart", []):
                await self.cluster.start(node)
                self.resting.discard(node)
            effective = bool(evidence.pop("effective", False)) and fault.id not in self._unknown
            self.note(
                _row(fault, "healed", t_ns=self.now(), evidence=evidence, effective=effective)
            )
        except EnvironmentFailed as error:
            self._note(fault, "failed", str(error))
            if isinstance(error, AgentLost):
                raise

    async def _insist(self, do: str, fault: Fault) -> Reply:
        """Retries until there is a response: the state of a fault is read, never assumed.

        Both requests are idempotent, and the agent serves requests in order, so a response also
        proves that all earlier requests were served.
        """
        late = ""
        for _ in range(TRIES):
            try:
                return await self.cluster.agent.ask(do, fault=fault.id)
            except NoAnswer as error:
                late = str(error)
        raise AgentLost(f"{late}; sent {TRIES} times")

    def _note(self, fault: Fault, event: str, reason: str) -> None:
        """Notes why a fault is not in effect."""
        self.note(_row(fault, event, t_ns=self.now(), reason=reason))


def _row(fault: Fault, event: str, **values: Any) -> FaultRow:
    return FaultRow(id=fault.id, event=event, do=fault.do, target=fault.target, **values)


def _remove(listed: list[str], nodes: Sequence[str]) -> None:
    """Removes each of these nodes once: another fault may have listed it too."""
    for node in nodes:
        listed.remove(node)


def _aimed_at(args: Mapping[str, Any]) -> list[str]:
    """The nodes that a request names: its targets, else those whose links it affects."""
    links = [str(link["node"]) for link in args.get("links", ())]
    return list(dict.fromkeys(args.get("nodes") or links))
