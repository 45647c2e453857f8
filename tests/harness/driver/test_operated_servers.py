"""Upgrades and failovers of servers that are real processes: evidence, order, what goes wrong."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.core.clock import MILLISECOND, now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import COMPACT, DEFRAGMENT, FORCE, HANDOVER
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.driver import failover, operations
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.operations import Operator
from tests.harness.driver.machine import PLAN, Books, Machine, Service, cluster

NAMES = ["n1", "n2", "n3"]


@dataclass
class Database(Service):
    """Servers with releases and a leader.

    broken   (server, release) with which the server exits
    silent   servers that report no release
    follows  who leads after a failover, one answer after the other; the last one stays
    """

    broken: set[tuple[str, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    serves: dict[str, str] = field(default_factory=dict)
    follows: list[str] = field(default_factory=list)
    failed_over: list[Any] = field(default_factory=list)
    maintained: list[tuple[str, str]] = field(default_factory=list)

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        release = options.get("release", "1")
        self.serves[node.name] = release
        self.exits = {name: "echo corrupt; exit 1" for name, bad in self.broken if bad == release}
        return super().command(node, servers, place, options)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        broken = (node.name, self.serves[node.name]) in self.broken
        return not broken and node.name not in self.unready

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    async def flush(self, server: Node, options: Mapping[str, str]) -> None: ...

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        return None

    def releases(self, options: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        return {"2": {**options, "release": "2"}}

    async def release(self, server: Node, options: Mapping[str, str]) -> str:
        return "" if server.name in self.silent else self.serves[server.name]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        if self.failed_over and self.follows:
            self.leads = self.follows.pop(0)
        return await super().leader(servers, options)

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        self.failed_over.append((leader.name, [node.name for node in servers], how))

    async def maintain(
        self, server: Node, options: Mapping[str, str], what: str
    ) -> Mapping[str, Json]:
        if server.name in self.silent:
            raise EnvironmentFailed(f"{server.name} does not respond")
        self.maintained.append((server.name, what))
        return {"revision": len(self.maintained)}


@dataclass
class Killer(Books):
    """A fault agent that kills, and says at the heal which nodes are to be started again."""

    machine: Any = None
    killed: dict[str, list[str]] = field(default_factory=dict)

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        await super().ask(do, **args)
        if do == "kill":
            self.killed[args["fault"]] = args["nodes"]
            for name in args["nodes"]:
                self.machine.kill(name)
        restart = self.killed.pop(args["fault"]) if do == "heal" else []
        return {"t_ns": now_ns(), "evidence": {"restart": restart}}


@dataclass
class Operated:
    """A cluster of three servers, with what operators ask for."""

    machine: Machine
    service: Database
    made: Cluster
    agent: Killer
    operator: Operator

    def carry_out(self, *steps: Any) -> list[dict[str, Any]]:
        """The evidence after each step; a callable is called between two steps."""

        async def work() -> list[dict[str, Any]]:
            found = []
            for step in steps:
                if callable(step):
                    step()
                    continue
                do, args = step
                answer = await self.operator.ask(do, fault="f1", **args)
                found.append(answer["evidence"])
            return found

        return asyncio.run(work())

    def restarts(self) -> list[str]:
        """The servers that were started since the deployment, in order."""
        return [name for name in self.machine.order if name in NAMES][len(NAMES) :]


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    (tmp_path / "workers").mkdir()
    machine, service = Machine(tmp_path), Database()
    agent = Killer(machine=machine)
    made = cluster(machine, service, agent, plan=replace(PLAN, nodes=3, clients=1))
    asyncio.run(made.open())
    yield Operated(machine, service, made, agent, Operator(made))
    machine.end()


def upgrade(*nodes: str, back: int = 0) -> tuple[str, dict[str, Any]]:
    return "operate", {"nodes": list(nodes), "what": "upgrade", "to": "2", "back": back}


HEAL: tuple[str, dict[str, Any]] = ("heal", {})


def test_servers_get_another_release_one_by_one_and_theirs_again_in_the_other_order(
    operated: Operated,
) -> None:
    begun_ns = now_ns()
    during, after = operated.carry_out(upgrade("n1", "n3", back=1), HEAL)
    assert during["how"] == "upgrade" and during["effective"] is True
    assert during["before"] == {"n1": "1", "n3": "1"}
    assert during["after"] == {"n1": "2", "n3": "2"}
    assert "problem" not in during and "back" not in during
    assert after["back"] == {"n1": "1", "n3": "1"} and after["effective"] is True
    assert operated.restarts() == ["n1", "n3", "n3", "n1"]
    assert operated.made.upgraded == {}
    first, upgraded = during["operated_ns"]
    assert begun_ns <= first < upgraded < after["operated_ns"][1] <= now_ns()
    assert after["operated_ns"][0] == first
    assert operated.service.asked[-1] == ("n1", {"flavour": "plain"}), "the plan's options"


def test_an_upgrade_may_stay(operated: Operated) -> None:
    during, after = operated.carry_out(upgrade("n1"), HEAL)
    assert after == during and operated.restarts() == ["n1"]
    assert operated.made.upgraded == {"n1": {"flavour": "plain", "release": "2"}}


def test_an_upgrade_stops_at_the_first_server_that_does_not_serve_with_it(
    operated: Operated,
) -> None:
    operated.service.broken.add(("n2", "2"))
    during, after = operated.carry_out(upgrade(*NAMES, back=1), HEAL)
    assert during["after"] == {"n1": "2", "n2": "1", "n3": "1"}
    assert during["effective"] is True, "n1 has it"
    assert during["problem"].startswith("n2 exited unexpectedly: corrupt (see ")
    assert operated.restarts() == ["n1", "n2", "n2", "n1"]
    assert after["back"] == dict.fromkeys(NAMES, "1") and operated.made.alive("n2")


def test_an_upgrade_that_no_server_takes_has_no_effect(operated: Operated) -> None:
    operated.service.broken.add(("n1", "2"))
    during, after = operated.carry_out(upgrade("n1", "n2", back=1), HEAL)
    assert during["effective"] is False and after["effective"] is False
    assert operated.restarts() == ["n1", "n1"] and operated.made.upgraded == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_release_that_is_not_reported_proves_no_upgrade(operated: Operated, when: str) -> None:
    service = operated.service
    service.silent = {"n1"} if when == "before" else set()
    plain = service.ready

    async def ready(node: Node, options: Mapping[str, str]) -> bool:
        service.silent = {"n1"} - service.silent
        return await plain(node, options)

    service.ready = ready  # type: ignore[method-assign]
    (during,) = operated.carry_out(upgrade("n1"))
    assert sorted([during["before"]["n1"], during["after"]["n1"]]) == (
        ["", "2"] if when == "before" else ["", "1"]
    )
    assert during["effective"] is False


def test_a_server_that_runs_and_does_not_serve_is_late(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "READY_WITHIN_NS", 0)
    operated.service.unready = {"n2"}
    (during,) = operated.carry_out(upgrade("n1"))
    assert "problem" not in during
    with pytest.raises(EnvironmentFailed, match=r"^n2 was not ready within 0 s after f1$"):
        operated.carry_out(upgrade("n2"))
    kills = [args["fault"] for args in operated.agent.of("kill")]
    assert kills == ["f1.stop1", "f1.stop1", "f1.stop2"], "n2 gets its release back"


def test_a_server_that_starts_slowly_has_more_time_after_an_operation(operated: Operated) -> None:
    operated.service.__dict__["ready_within_ns"] = 0
    operated.service.unready = {"n2"}
    with pytest.raises(EnvironmentFailed, match=r"^n2 was not ready within 0 s after f1$"):
        operated.carry_out(upgrade("n2"))


def test_a_server_that_is_down_is_started_with_the_other_release(operated: Operated) -> None:
    (during,) = operated.carry_out(lambda: operated.machine.kill("n2"), upgrade("n2"))
    assert during["effective"] and during["after"] == {"n2": "2"}
    assert operated.restarts() == ["n2"] and operated.made.alive("n2")


def fail_over(what: str, *nodes: str) -> tuple[str, dict[str, Any]]:
    return "operate", {"nodes": list(nodes), "what": what}


@pytest.mark.parametrize("what", [HANDOVER, FORCE])
def test_a_failover_lasts_until_another_server_leads(operated: Operated, what: str) -> None:
    operated.service.leads = "n2"
    operated.service.follows = ["n2", "", "n3"]
    begun_ns = now_ns()
    during, after = operated.carry_out(fail_over(what, "n1", "n2"), HEAL)
    assert operated.service.failed_over == [("n2", NAMES, what)]
    first, last = during.pop("operated_ns")
    assert begun_ns <= first < last <= now_ns()
    assert during == {
        "how": what, "leader before": "n2", "leader after": "n3", "effective": True,
    }  # fmt: skip
    assert after["effective"] is True and operated.restarts() == []


@pytest.mark.parametrize("leads", ["n3", ""])
def test_a_failover_needs_a_leader_among_its_servers(operated: Operated, leads: str) -> None:
    operated.service.leads = leads
    with pytest.raises(EnvironmentFailed, match=r"^n1 and n2 does not lead any more$"):
        operated.carry_out(fail_over(HANDOVER, "n1", "n2"))
    assert operated.service.failed_over == []


@pytest.mark.parametrize("follows", ["n2", ""])
def test_a_failover_after_which_no_other_server_leads_has_no_effect(
    operated: Operated, follows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "LEADS_WITHIN_NS", 0)
    operated.service.leads = "n2"
    operated.service.follows = [follows]
    (during,) = operated.carry_out(fail_over(HANDOVER, "n2"))
    assert (during["effective"], during["leader after"]) == (False, follows)


@pytest.mark.parametrize("what", [COMPACT, DEFRAGMENT])
def test_maintenance_is_requested_of_each_server_and_reported(
    operated: Operated, what: str
) -> None:
    begun_ns = now_ns()
    during, after = operated.carry_out(fail_over(what, "n1", "n3"), HEAL)
    assert operated.service.maintained == [("n1", what), ("n3", what)]
    first, last = during.pop("operated_ns")
    assert begun_ns <= first <= last <= now_ns()
    reported = {"n1": {"revision": 1}, "n3": {"revision": 2}}
    assert during == {"how": what, **reported, "effective": True}
    assert after["effective"] is True and operated.restarts() == []


def test_maintenance_that_is_not_answered_is_no_fault(operated: Operated) -> None:
    operated.service.silent = {"n2"}
    with pytest.raises(EnvironmentFailed, match="n2 does not respond"):
        operated.carry_out(fail_over(COMPACT, "n1", "n2"))


@dataclass
class Primary(Database):
    """Servers whose former leader is made a replica by an operator; `steps` in order.

    stays      the leader ignores the signal to exit
    copying    how often a failover finds no replica yet
    """

    steps: list[Any] = field(default_factory=list)
    stays: bool = False
    copying: int = 0
    stops_with: int = signal.SIGINT

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        self.steps.append(("start", node.name))
        command = super().command(node, servers, place, options)
        script = "trap '' INT; while :; do sleep 600; done"
        return replace(command, argv=("sh", "-c", script)) if self.stays else command

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        await super().fail_over(leader, servers, options, how)
        self.steps.append("promote")

    async def replaceable(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> bool:
        self.copying -= 1
        return self.copying < 0

    def rejoin(self, node: Node, place: Place, how: str) -> None:
        self.steps.append(("rejoin", node.name, how))

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        found = await super().leader(servers, options)
        return None if found is None else Leader(found.name, int(found.name[1:]))


@pytest.fixture
def with_primary(tmp_path: Path) -> Iterator[Operated]:
    (tmp_path / "workers").mkdir()
    machine, service = Machine(tmp_path), Primary(leads="n1", follows=["n2"])
    agent = Killer(machine=machine)
    made = cluster(machine, service, agent, plan=replace(PLAN, nodes=3, clients=1))
    asyncio.run(made.open())
    service.steps.clear()
    yield Operated(machine, service, made, agent, Operator(made))
    machine.end()


def steps(operated: Operated) -> list[Any]:
    assert isinstance(operated.service, Primary)
    return operated.service.steps


def test_a_leader_is_shut_down_before_it_hands_over_and_starts_as_a_replica(
    with_primary: Operated,
) -> None:
    before = with_primary.made.running["n1"].pid
    during, after = with_primary.carry_out(fail_over(HANDOVER, "n1"), HEAL)
    assert steps(with_primary) == ["promote", ("rejoin", "n1", HANDOVER), ("start", "n1")]
    assert during["effective"] and (during["term before"], during["term after"]) == (1, 2)
    assert with_primary.machine.started[0].returncode is None, "nobody killed it"
    assert with_primary.agent.of("kill") == [] and with_primary.made.running["n1"].pid != before
    assert after == during and "rejoined" not in after


@pytest.mark.parametrize("what", [HANDOVER, FORCE])
def test_a_failover_waits_for_a_replica_and_begins_then(with_primary: Operated, what: str) -> None:
    assert isinstance(with_primary.service, Primary)
    with_primary.service.copying = 2
    begun_ns = now_ns()
    (during,) = with_primary.carry_out(fail_over(what, "n1"))
    assert during["effective"] and during["waited_ns"] >= 60 * MILLISECOND
    assert during["operated_ns"][0] >= begun_ns + during["waited_ns"]


@pytest.mark.parametrize("what", [HANDOVER, FORCE])
def test_without_a_replica_nothing_is_done_to_the_leader(
    with_primary: Operated, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "REPLICA_WITHIN_NS", 0)
    assert isinstance(with_primary.service, Primary)
    with_primary.service.copying = 2
    with pytest.raises(EnvironmentFailed, match="no other server than n1 was a replica that"):
        with_primary.carry_out(fail_over(what, "n1"))
    assert steps(with_primary) == [] and with_primary.made.alive("n1")


def test_a_leader_that_was_not_replaced_starts_as_it_was(
    with_primary: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "LEADS_WITHIN_NS", 0)
    with_primary.service.follows = ["n1"]
    (during,) = with_primary.carry_out(fail_over(HANDOVER, "n1"))
    assert steps(with_primary) == ["promote", ("start", "n1")] and not during["effective"]


def test_a_leader_that_does_not_shut_down_is_killed_and_leads_again(
    with_primary: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "EXITS_WITHIN_NS", 0)
    assert isinstance(with_primary.service, Primary)
    with_primary.service.stays = True
    with_primary.machine.kill("n1")
    asyncio.run(with_primary.made.start("n1"))
    steps(with_primary).clear()
    with pytest.raises(EnvironmentFailed, match=r"^n1 did not shut down within 0 s$"):
        with_primary.carry_out(fail_over(HANDOVER, "n1"))
    assert steps(with_primary) == [("start", "n1")] and with_primary.made.alive("n1")


def test_a_forced_former_leader_runs_on_until_the_heal(with_primary: Operated) -> None:
    before = with_primary.made.running["n1"].pid

    def still_runs() -> None:
        assert with_primary.made.running["n1"].pid == before and with_primary.made.alive("n1")
        assert steps(with_primary) == ["promote"]

    during, after = with_primary.carry_out(fail_over(FORCE, "n1"), still_runs, HEAL)
    assert steps(with_primary)[1:] == [("rejoin", "n1", FORCE), ("start", "n1")]
    assert after["rejoined"] == "n1" and "problem" not in after
    assert during["operated_ns"] == after["operated_ns"] and "rejoined_ns" not in during
    assert during["operated_ns"][1] <= after["rejoined_ns"][0] < after["rejoined_ns"][1]


def test_a_former_leader_that_another_fault_keeps_dead_is_left_to_that_fault(
    with_primary: Operated,
) -> None:
    def dies() -> None:
        with_primary.machine.kill("n1")

    _, after = with_primary.carry_out(fail_over(FORCE, "n1"), dies, HEAL)
    assert steps(with_primary) == ["promote", ("rejoin", "n1", FORCE)]
    assert after["effective"] and with_primary.restarts() == []


def test_a_leader_that_does_not_respond_is_replaced_by_force_only(with_primary: Operated) -> None:
    with_primary.service.leads = ""
    for how, nodes in ((HANDOVER, ["n1"]), (FORCE, ["n1", "n2"])):
        with pytest.raises(EnvironmentFailed, match="does not lead any more"):
            with_primary.carry_out(fail_over(how, *nodes))
    (during,) = with_primary.carry_out(fail_over(FORCE, "n1"))
    assert during["effective"] and during["leader before"] == "n1"
    assert "term before" not in during
