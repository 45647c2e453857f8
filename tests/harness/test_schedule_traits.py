"""The schedule reads the traits of a fault, whatever the kind is called."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.harness.core.clock import MILLISECOND, now_ns
from holdfast.harness.core.fault_traits import COPY, Traits
from holdfast.harness.core.ports import Fault, Node, Request, View
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.runs.journal import FaultRow
from tests.harness.schedule_parts import Nodes, NoHolders

STOPS, KILLS, NEITHER = Traits(stops=True), Traits(kills=True), Traits(passes=True)


@dataclass(frozen=True)
class Mine:
    """A nemesis of a user: one request, which the fake agent takes."""

    traits: Traits
    agent: Sequence[str] = ()

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        return []

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        return [Request(do="strike", args={"fault": fault.id, "nodes": [fault.target]})]


@dataclass
class Watched(Nodes):
    """Nodes that are also the agent: it notes what the schedule knew when it was asked."""

    restart: Sequence[str] = ()
    schedule: Schedule | None = None
    seen: list[tuple[str, list[str], list[str]]] = field(default_factory=list)

    @property
    def agent(self) -> Watched:
        return self

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        assert self.schedule is not None
        self.seen.append((do, sorted(self.schedule.resting), list(self.schedule.paused)))
        evidence = {"restart": list(self.restart), "effective": True} if do == "heal" else {}
        return {"t_ns": now_ns(), "evidence": evidence}


def carried_out(stage: Watched, traits: Traits, rows: list[FaultRow]) -> Schedule:
    """The schedule of one fault with these traits, after it."""
    schedule = Schedule(
        faults=(Fault(id="f1", do="mine", target="c1", at_ns=0, for_ns=MILLISECOND),),
        nemeses={"mine": Mine(traits)},
        seed=1,
        cluster=stage,
        live=NoHolders(),
        note=rows.append,
    )
    stage.schedule = schedule
    asyncio.run(schedule.run(now_ns()))
    return schedule


@pytest.mark.parametrize(
    ("traits", "resting", "paused"),
    [(STOPS, [], ["c1"]), (KILLS, ["c1"], []), (NEITHER, [], [])],
    ids=["stops", "kills", "neither"],
)
def test_a_node_is_no_target_for_holders_while_a_fault_stops_it(
    traits: Traits, resting: list[str], paused: list[str]
) -> None:
    stage = Watched((Node(name="c1", role="client", address="10.0.0.1"),), restart=resting)
    rows: list[FaultRow] = []
    schedule = carried_out(stage, traits, rows)
    assert stage.seen == [(do, resting, paused) for do in ("strike", "observe", "heal")]
    assert (sorted(schedule.resting), schedule.paused, schedule.active) == ([], [], 0)
    assert stage.started == resting
    assert [row.event for row in rows] == ["planned", "injected", "healed"]


@pytest.mark.parametrize(
    ("traits", "mortal"),
    [(Traits(kills_later=True), []), (Traits(kills_later=True, operates=COPY), ["c1"])],
    ids=["kills later", "reverts"],
)
def test_a_server_may_exit_later_because_of_its_earlier_state(
    traits: Traits, mortal: list[str]
) -> None:
    stage = Watched((Node(name="c1", role="client", address="10.0.0.1"),))
    assert carried_out(stage, traits, []).mortal == mortal
