"""The schedule of faults: what it looks at for a target, what it knows, and what it writes down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, NoAnswer
from holdfast.harness.core.fault_traits import COPY, Traits
from holdfast.harness.core.ports import Fault, Leader, Node, Request, View
from holdfast.harness.core.waiting import until
from holdfast.harness.driver import schedule as schedule_module
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.history.so_far import Hold
from holdfast.harness.runs.journal import WAITED, FaultRow
from tests.harness.schedule_parts import Nodes, NoHolders

NODES = tuple(Node(name=name, role="server" if name[0] == "n" else "client")
              for name in ("n1", "n2", "n3", "c1", "c2"))  # fmt: skip
KILLS, STOPS, LATER = Traits(kills=True), Traits(stops=True), Traits(kills_later=True)


@dataclass
class Scripted:
    """A nemesis that says which requests to send; `views`: what it was shown."""

    traits: Traits
    asks: Callable[[Fault, View], Sequence[Request]]
    views: list[View] = field(default_factory=list)
    agent: Sequence[str] = ()

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        return []

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        self.views.append(view)
        return self.asks(fault, view)


def at(*nodes: str) -> Callable[[Fault, View], Sequence[Request]]:
    """One request that acts on these nodes."""
    return lambda fault, view: [strike(fault, *nodes)]


def strike(fault: Fault, *nodes: str) -> Request:
    return Request(do="strike", args={"fault": fault.id, "nodes": list(nodes)})


def at_holder(fault: Fault, view: View) -> Sequence[Request]:
    if not view.holders:
        raise LookupError("holder: no client holds a lock")
    return [strike(fault, view.holders[0])]


@dataclass
class Stage(Nodes):
    """Nodes and their agent: `answers` by (request, fault), an exception is raised.

    said   what was asked, with what the schedule knew at that time
    """

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    said: list[tuple[str, ...]] = field(default_factory=list)
    lead: Leader | None = None
    leader_asked: int = 0
    refreshed: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def agent(self) -> Stage:
        return self

    async def leader(self) -> Leader | None:
        self.leader_asked += 1
        return self.lead

    async def refresh(self) -> None:
        self.refreshed += 1

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        self.said.append((do, args["fault"]))
        found = self.answers.get((do, args["fault"]), {})
        if isinstance(found, list):
            found = found.pop(0)
        if isinstance(found, Exception):
            raise found
        if callable(found):
            found = found()
        return {"t_ns": now_ns(), "evidence": {}, **found}


@dataclass
class Holders(NoHolders):
    """Clients that hold, one answer after the other; the last one stays."""

    answers: list[list[str]] = field(default_factory=list)

    def holds(self) -> Sequence[Hold]:
        names = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [Hold(process=1, node=name, attempt=n, since_ns=0) for n, name in enumerate(names)]

    async def news(self) -> None:
        await asyncio.sleep(0)


def fault(number: int = 1, target: str = "n1", at_ns: int = 0, for_ns: int = 0) -> Fault:
    return Fault(id=f"f{number}", do="mine", target=target, at_ns=at_ns, for_ns=for_ns)


def schedule_of(
    stage: Stage, nemesis: Scripted, *faults: Fault, live: Any = None
) -> tuple[Schedule, list[FaultRow]]:
    rows: list[FaultRow] = []
    made = Schedule(
        faults=faults,
        nemeses={"mine": nemesis},
        seed=1,
        cluster=stage,
        live=live or NoHolders(),
        note=rows.append,
    )
    return made, rows


def carried_out(
    stage: Stage, nemesis: Scripted, *faults: Fault, live: Any = None
) -> tuple[Schedule, list[FaultRow]]:
    """The schedule of these faults after all of them, and its rows."""
    made, rows = schedule_of(stage, nemesis, *faults, live=live)
    asyncio.run(made.run(now_ns()))
    return made, rows


def events(rows: Sequence[FaultRow]) -> list[str]:
    return [row.event for row in rows]


@pytest.mark.parametrize(
    ("target", "leader", "refreshes"),
    [("leader", 1, 0), ("follower", 1, 0), ("holder", 0, 1), ("holder+leader", 1, 1),
     ("one", 0, 0), ("n1+n2", 0, 0)],
)  # fmt: skip
def test_only_what_a_target_names_is_looked_up(target: str, leader: int, refreshes: int) -> None:
    stage = Stage(NODES, lead=Leader("n2", 7))
    nemesis = Scripted(Traits(), at("n1"))
    _, rows = carried_out(stage, nemesis, fault(target=target), live=Holders(answers=[["c2"]]))
    (view,) = nemesis.views
    assert (stage.leader_asked, stage.refreshed) == (leader, refreshes)
    assert view.leader == (Leader("n2", 7) if leader else None)
    assert (view.nodes, view.holders, view.down) == (NODES, ["c2"], [])
    assert (rows[1].leader, rows[1].term) == (("n2", 7) if leader else (None, None))


@pytest.mark.parametrize(
    ("target", "struck", "holder"),
    [("holder", ["c2"], "c2"), ("holder", ["c1"], ""), ("one", ["c2"], ""), ("holder", [], "")],
)
def test_the_holder_of_a_row_is_one_that_was_the_target_and_was_struck(
    target: str, struck: list[str], holder: str
) -> None:
    stage, live = Stage(NODES), Holders(answers=[["c2", "c1"] if struck else ["c2"]])
    nemesis = Scripted(Traits(), at(*(struck or ["n1"])))
    _, rows = carried_out(stage, nemesis, fault(target=target), live=live)
    assert rows[1].holder == holder and rows[1].nodes == (struck or ["n1"])


def test_a_fault_that_waited_before_it_began_lasts_as_long_as_it_should() -> None:
    stage = Stage(NODES)
    waited: dict[str, Any] = {"evidence": {WAITED: 150 * MILLISECOND}}
    stage.answers[("strike", "f1")] = waited
    made, _ = schedule_of(stage, Scripted(LATER, at("n1")), fault(for_ns=100 * MILLISECOND))
    begun_ns = now_ns()
    asyncio.run(made.run(begun_ns))
    assert now_ns() >= begun_ns + 250 * MILLISECOND


def test_a_fault_on_the_holder_waits_until_there_is_one() -> None:
    live = Holders(answers=[[], [], ["c1"]])
    stage = Stage(NODES)
    _, rows = carried_out(stage, Scripted(STOPS, at_holder), fault(target="holder"), live=live)
    assert events(rows) == ["planned", "injected", "healed"] and rows[1].holder == "c1"
    assert stage.refreshed == 3, "the history is read again each time"


def test_a_fault_without_a_holder_in_time_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_module, "HOLDER_WITHIN_NS", MILLISECOND)
    made, rows = carried_out(
        Stage(NODES), Scripted(STOPS, at_holder), fault(target="holder"), live=Holders(answers=[[]])
    )
    assert events(rows) == ["planned", "skipped"]
    assert rows[1].reason == "holder: no client holds a lock" and rows[1].t_ns is not None
    assert (made.done, made.active) == (1, 0)


@pytest.mark.parametrize("traits", [STOPS, KILLS], ids=["paused", "killed"])
def test_a_holder_that_a_fault_has_stopped_is_no_target_of_another(traits: Traits) -> None:
    stage = Stage(NODES)
    nemesis = Scripted(traits, lambda fault, view: [strike(fault, view.holders[0])])
    second_ns = 50 * MILLISECOND
    stage.answers["heal", "f1"] = {"evidence": {"restart": ["c1"] if traits.kills else []}}
    live = Holders(answers=[["c1", "c1", "c2"]])
    faults = (
        fault(1, "holder", for_ns=2 * second_ns),
        fault(2, "holder", at_ns=second_ns, for_ns=0),
    )
    _, rows = carried_out(stage, nemesis, *faults, live=live)
    struck = {row.id: row.nodes for row in rows if row.event == "injected"}
    assert struck == {"f1": ["c1"], "f2": ["c2"]}
    assert nemesis.views[1].down == (["c1"] if traits.kills else [])


def test_nodes_and_evidence_of_a_fault_are_those_of_all_its_requests() -> None:
    stage = Stage(NODES)
    stage.answers["strike", "f1"] = [
        {"t_ns": 100, "evidence": {"a": 1, "b": 1}},
        {"t_ns": 200, "evidence": {"b": 2}},
    ]
    links = [{"node": "c1", "from": []}, {"node": "c2", "from": []}, {"node": "c1", "from": []}]
    nemesis = Scripted(
        LATER,
        lambda fault, view: [
            strike(fault, "n1", "n2"),
            Request(do="strike", args={"fault": fault.id, "links": links}),
        ],
    )
    made, rows = carried_out(stage, nemesis, fault())
    assert (rows[1].nodes, rows[1].t_ns) == (["n1", "n2", "c1", "c2"], 100)
    assert rows[1].evidence == {"a": 1, "b": 2} and made.mortal == []


@pytest.mark.parametrize("answered", [0, 1])
def test_a_request_without_a_response_may_be_in_effect_until_the_heal(answered: int) -> None:
    stage = Stage(NODES)
    late = NoAnswer("no response to strike within 10 s")
    stage.answers["strike", "f1"] = [{"t_ns": 100}, late][1 - answered :]
    stage.answers["heal", "f1"] = {"evidence": {"effective": True, "packets": 3}}
    nemesis = Scripted(
        KILLS, lambda fault, view: [strike(fault, name) for name in ("n1", "n2")[: 1 + answered]]
    )
    begun_ns = now_ns()
    made, rows = carried_out(stage, nemesis, fault(for_ns=3600 * SECOND))
    assert events(rows) == ["planned", "failed", "injected", "healed"]
    assert rows[1].reason == str(late)
    injected, healed = rows[2:]
    assert injected.nodes == ["n1", "n2"][: 1 + answered]
    assert injected.before_ns is not None and injected.before_ns >= begun_ns
    assert injected.t_ns == (100 if answered else injected.before_ns)
    assert (healed.effective, healed.evidence) == (False, {"packets": 3}), "no evidence of effect"
    assert made.done == 1


@pytest.mark.parametrize("traits", [KILLS, STOPS, LATER, Traits(kills_later=True, operates=COPY)])
def test_a_fault_that_is_refused_has_stopped_nothing(traits: Traits) -> None:
    stage = Stage(NODES)
    refused = EnvironmentFailed("fault agent: strike: no such process")
    stage.answers["strike", "f1"] = refused
    nemesis = Scripted(traits, at("n1", "n2"))
    made, rows = carried_out(stage, nemesis, fault(), fault(2, at_ns=MILLISECOND))
    assert [(row.id, row.event) for row in rows if row.event != "planned"] == [
        ("f1", "failed"), ("f2", "injected"), ("f2", "healed"),
    ]  # fmt: skip
    assert rows[2].reason == str(refused)
    assert nemesis.views[1].down == [] and made.paused == []
    assert made.mortal == (["n1", "n2"] if traits.reverts else []), "of the second fault"
    assert made.resting == ({"n1", "n2"} if traits.kills else set())
    assert stage.said[:2] == [("strike", "f1"), ("strike", "f2")], "nothing is healed"


def test_a_refused_kill_leaves_what_another_fault_has_killed() -> None:
    stage = Stage(NODES)
    stage.answers["strike", "f2"] = EnvironmentFailed("strike: n2 is dead")
    known: list[list[str]] = []
    made, _ = schedule_of(
        stage, Scripted(KILLS, at("n1", "n2")), fault(for_ns=50 * MILLISECOND),
        fault(2, at_ns=10 * MILLISECOND),
    )  # fmt: skip

    def look() -> dict[str, Any]:
        known.append(sorted(made.resting))
        return {}

    stage.answers["observe", "f1"] = look
    asyncio.run(made.run(now_ns()))
    assert known == [["n1", "n2"]]


def test_a_node_that_two_faults_pause_runs_when_both_are_healed() -> None:
    stage, nemesis = Stage(NODES), Scripted(STOPS, at("n1"))
    faults = (fault(for_ns=20 * MILLISECOND), fault(2, for_ns=60 * MILLISECOND))
    made, rows = schedule_of(stage, nemesis, *faults)
    known: list[list[str]] = []

    def look() -> dict[str, Any]:
        known.append([*made.paused])
        return {}

    stage.answers |= {("observe", "f1"): look, ("observe", "f2"): look}
    asyncio.run(made.run(now_ns()))
    assert known == [["n1", "n1"], ["n1"]] and made.paused == []
    assert events(rows).count("healed") == 2


def test_what_was_killed_is_started_again_before_it_counts_as_running() -> None:
    stage = Stage(NODES)
    stage.answers["heal", "f1"] = {"evidence": {"restart": ["n1"], "effective": True, "n": 4}}
    made, rows = carried_out(stage, Scripted(KILLS, at("n1", "n2")), fault())
    assert stage.started == ["n1"] and made.resting == {"n2"}
    assert (rows[-1].effective, rows[-1].evidence) == (True, {"n": 4})
    assert stage.said == [("strike", "f1"), ("observe", "f1"), ("heal", "f1")]


@pytest.mark.parametrize(("silent", "healed"), [(0, True), (2, True), (3, False)])
def test_a_heal_is_sent_again_until_it_is_answered(silent: int, healed: bool) -> None:
    stage = Stage(NODES)
    late = NoAnswer("no response to heal within 10 s")
    stage.answers["heal", "f1"] = [*[late] * silent, {"evidence": {"effective": True}}]
    made, rows = schedule_of(stage, Scripted(STOPS, at("n1")), fault())
    lost = pytest.raises(AgentLost, match=r"^no response to heal within 10 s; sent 3 times$")
    with nullcontext() if healed else lost:
        asyncio.run(made.run(now_ns()))
    assert stage.said.count(("heal", "f1")) == min(silent + 1, 3)
    assert rows[-1].event == ("healed" if healed else "failed")


def test_a_node_that_cannot_be_started_again_stays_down_and_the_next_fault_goes_on() -> None:
    stage = Stage(NODES)

    async def start(name: str) -> None:
        raise EnvironmentFailed(f"{name} exited unexpectedly: corrupt")

    stage.start = start  # type: ignore[method-assign]
    stage.answers["heal", "f1"] = {"evidence": {"restart": ["n1"]}}
    nemesis = Scripted(KILLS, at("n1"))
    made, rows = carried_out(stage, nemesis, fault(), fault(2, at_ns=20 * MILLISECOND))
    assert [row.reason for row in rows if row.event == "failed"] == [
        "n1 exited unexpectedly: corrupt"
    ]
    assert nemesis.views[1].down == ["n1"] and made.done == 2 and made.active == 0


def test_a_lost_agent_ends_all_faults_at_once() -> None:
    stage = Stage(NODES)
    stage.answers["strike", "f1"] = AgentLost("fault agent: it exited")
    made, rows = schedule_of(stage, Scripted(STOPS, at("n1")), fault(), fault(2, at_ns=10**15))
    with pytest.raises(AgentLost):
        asyncio.run(asyncio.wait_for(made.run(now_ns()), 20))
    assert [(row.id, row.event) for row in rows] == [
        ("f1", "planned"), ("f2", "planned"), ("f1", "failed"),
    ]  # fmt: skip
    assert rows[-1].reason == "fault agent: it exited"


def test_a_fault_that_cannot_be_noted_ends_all_faults_and_none_begins_any_more() -> None:
    """The journal's disk is full."""
    stage = Stage(NODES)
    made, rows = schedule_of(stage, Scripted(STOPS, at("n1")), fault(), fault(2, at_ns=10**15))

    def note(row: FaultRow) -> None:
        if row.event != "planned":
            raise EnvironmentFailed("faults.jsonl: No space left on device")
        rows.append(row)

    made.note = note

    async def run() -> int:
        with pytest.raises(EnvironmentFailed, match="No space left"):
            await made.run(now_ns())
        return len(asyncio.all_tasks())

    assert asyncio.run(run()) == 1, "the fault that has not begun waits no longer"
    assert events(rows) == ["planned", "planned"]


def test_an_end_heals_what_is_in_effect_and_skips_what_has_not_begun() -> None:
    stage = Stage(NODES, answers={("heal", "f1"): {"evidence": {"effective": True}}})
    first, second = fault(1, for_ns=3600 * SECOND), fault(2, at_ns=3600 * SECOND)
    made, rows = schedule_of(stage, Scripted(STOPS, at("n1")), first, second)

    async def work() -> None:
        running = asyncio.ensure_future(made.run(now_ns()))
        await until(lambda: made.active == 1, within_ns=10 * SECOND)
        made.end()
        await asyncio.wait_for(running, 10)

    asyncio.run(work())
    told = {(row.id, row.event, row.effective) for row in rows if row.event != "planned"}
    assert told == {("f1", "injected", None), ("f2", "skipped", None), ("f1", "healed", True)}
    assert [do for do, _ in stage.said] == ["strike", "observe", "heal"]
    assert made.active == 0 and made.done == 2 and made.paused == []


def test_a_fault_that_is_being_injected_at_the_end_is_healed_too() -> None:
    stage = Stage(NODES)
    made, rows = schedule_of(stage, Scripted(STOPS, at("n1")), fault(1, for_ns=3600 * SECOND))

    def end() -> dict[str, Any]:
        made.end()
        return {}

    stage.answers["strike", "f1"] = end
    asyncio.run(asyncio.wait_for(made.run(now_ns()), 10))
    assert events(rows) == ["planned", "injected", "healed"]
