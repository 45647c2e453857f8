"""Carries out a fault plan: each fault when it is due, seen to bite, healed on every way out.

What happened is one row per step in faults.jsonl: planned, injected, healed, skipped or failed,
each with the time that the agent saw it and the evidence it measured.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, NoAnswer
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Leader, Nemesis, Node, View
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.waiting import sleep_until
from holdfast.harness.history.current_holders import Hold
from holdfast.harness.runs.journal import FaultRow

HOLDER_WITHIN_NS = 3 * SECOND
LOOK_NS = 200 * MILLISECOND
TRIES = 3
"""How often an unanswered `observe` or `heal` is sent before the fault agent is taken for lost."""


class Agent(Protocol):
    """Answers requests as `nemesis/agent` documents them: {"t_ns", "evidence"}."""

    async def ask(self, do: str, **args: object) -> dict[str, Any]: ...


class Stage(Protocol):
    """What faults are done to: the nodes, what acts on them, and who leads."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def agent(self) -> Agent: ...

    async def leader(self) -> Leader | None: ...

    async def start(self, name: str) -> None: ...

    async def refresh(self) -> None:
        """Makes what is known of a running history as new as can be."""
        ...


class Holders(Protocol):
    """Knows who holds now, the most recently granted first; `news` waits until that may differ."""

    def holds(self) -> Sequence[Hold]: ...

    async def news(self) -> None: ...


@dataclass(slots=True)
class Schedule:
    """The faults of one run. `active` counts those that bite now.

    note   takes each row about a fault
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
    """nodes whose process a fault has killed and nobody has started again yet"""
    mortal: list[str] = field(default_factory=list)
    """nodes that a fault may kill at any time until its heal, once for each"""
    paused: list[str] = field(default_factory=list)
    """nodes that a fault holds still, once for each"""
    _unknown: set[str] = field(default_factory=set)
    """faults whose injection was not answered: they may have been in effect at any time since"""

    async def run(self, start_ns: int) -> None:
        """All faults of the plan; returns when the last one is healed."""
        self.start_ns = start_ns
        for fault in self.faults:
            params = dict(fault.params)
            self.note(_row(fault, "planned", at_ns=fault.at_ns, for_ns=fault.for_ns, params=params))
        works = [asyncio.ensure_future(self._one(fault)) for fault in self.faults]
        try:
            await asyncio.gather(*works)
        except AgentLost:
            for work in works:
                work.cancel()
            await asyncio.wait(works)
            raise

    async def _one(self, fault: Fault) -> None:
        await sleep_until(self.start_ns + fault.at_ns, self.now)
        nodes: list[str] = []
        try:
            nodes = await self._inject(fault)
            if nodes:
                self.active += 1
                if fault.id not in self._unknown:
                    await sleep_until(self.start_ns + fault.at_ns + fault.for_ns, self.now)
        except AgentLost as lost:
            self._note(fault, "failed", str(lost))
            raise
        except EnvironmentFailed as error:
            self._note(fault, "failed", str(error))
        finally:
            if nodes:
                await self._heal(fault)
                if self.nemeses[fault.do].traits.stops:
                    self.paused = [node for node in self.paused if node not in nodes]
                if self.nemeses[fault.do].traits.kills_later:
                    for node in nodes:
                        self.mortal.remove(node)
                self.active -= 1
            self.done += 1

    async def _inject(self, fault: Fault) -> list[str]:
        """Resolve the target and ask the agent; [] where it could not be resolved."""
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
        t_ns = 0
        before_ns = self.now()
        for request in requests:
            aimed = _aimed_at(request.args)
            if nemesis.traits.kills:
                self.resting.update(aimed)
            elif nemesis.traits.stops:
                self.paused += aimed
            fresh = [node for node in aimed if node not in nodes]
            if nemesis.traits.kills_later:
                self.mortal += fresh
            nodes += fresh
            try:
                answer = await self.cluster.agent.ask(request.do, **request.args)
            except NoAnswer as late:
                # It may be in effect, or come into effect when the agent goes on: the window
                # begins at the request, it ends with the heal, and it is no evidence of anything.
                self._unknown.add(fault.id)
                self._note(fault, "failed", str(late))
                t_ns = t_ns or before_ns
                break
            evidence.update(answer["evidence"])
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
                # Without news a holder may still be started again, or go on.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.live.news(), LOOK_NS / SECOND)
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
        """Who holds and runs now: a second fault on a stopped holder would show nothing."""
        idle = {*self.resting, *self.paused}
        nodes = dict.fromkeys(hold.node for hold in self.live.holds())
        return [node for node in nodes if node not in idle]

    async def _heal(self, fault: Fault) -> None:
        """Observe, heal, start again what was killed. A failure is noted; AgentLost is raised."""
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

    async def _insist(self, do: str, fault: Fault) -> dict[str, Any]:
        """Ask again while no answer comes: what a fault is now, is read and not assumed.

        Both requests may be repeated, and the agent serves requests in order, so an answer also
        says what became of everything that it was asked before.
        """
        late = ""
        for _ in range(TRIES):
            try:
                return await self.cluster.agent.ask(do, fault=fault.id)
            except NoAnswer as error:
                late = str(error)
        raise AgentLost(f"{late}; sent {TRIES} times")

    def _note(self, fault: Fault, event: str, reason: str) -> None:
        """What became of a fault that is not in effect."""
        self.note(_row(fault, event, t_ns=self.now(), reason=reason))


def _row(fault: Fault, event: str, **values: Any) -> FaultRow:
    return FaultRow(id=fault.id, event=event, do=fault.do, target=fault.target, **values)


def _aimed_at(args: Mapping[str, Any]) -> list[str]:
    """The nodes that a request names: those aimed at, else those whose links it touches."""
    links = [str(link["node"]) for link in args.get("links", ())]
    return list(dict.fromkeys(args.get("nodes") or links))
