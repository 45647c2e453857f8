"""Cuts by the fault agent, in real network namespaces, with real packets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from holdfast.nemesis.agent import nft
from tests.nemesis import fabric
from tests.nemesis.agent_process import AgentProcess


@pytest.fixture(scope="module")
def pids() -> Iterator[list[int]]:
    fabric.need()
    with fabric.nodes(3) as found:
        yield found


@pytest.fixture
def agent(pids: list[int]) -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        for n, pid in enumerate(pids):
            adopt(started, n, pid)
        yield started


def adopt(agent: AgentProcess, n: int, pid: int) -> dict[str, object]:
    return agent.do("adopt", node=f"n{n}", pid=pid, address=fabric.address(n))


def link(node: int, *sources: int) -> dict[str, object]:
    return {"node": f"n{node}", "from": [fabric.address(source) for source in sources]}


def test_a_cut_is_one_way_counts_what_it_drops_and_ends_with_the_heal(
    agent: AgentProcess, pids: list[int]
) -> None:
    with fabric.udp(pids[0], fabric.address(0)) as a, fabric.udp(pids[1], fabric.address(1)) as b:
        assert fabric.hears(b, a)
        assert agent.do("cut", fault="f1", links=[link(1, 0)])["effective"] is False
        assert not fabric.hears(b, a)
        assert fabric.hears(a, b)
        assert agent.do("observe", fault="f1")["dropped"] == 1
        healed = agent.do("heal", fault="f1")
        assert fabric.hears(b, a)
    assert healed == {"effective": True, "dropped": 1, "links": {"n1<-10.77.0.1": 1}}
    assert agent.do("heal", fault="f1") == healed


def test_the_last_of_two_faults_mends_a_link_and_each_counts_its_own_time(
    agent: AgentProcess, pids: list[int]
) -> None:
    with fabric.udp(pids[0], fabric.address(0)) as a, fabric.udp(pids[1], fabric.address(1)) as b:
        agent.do("cut", fault="f1", links=[link(1, 0, 2)])
        assert not fabric.hears(b, a)
        agent.do("cut", fault="f2", links=[link(1, 0)])
        assert not fabric.hears(b, a)
        assert agent.do("heal", fault="f1")["dropped"] == 2
        assert not fabric.hears(b, a)
        assert agent.do("heal", fault="f2")["dropped"] == 2
        assert fabric.hears(b, a)


def test_a_cut_follows_a_node_into_its_next_network(agent: AgentProcess, pids: list[int]) -> None:
    with fabric.nodes(2) as fresh:
        agent.do("cut", fault="f1", links=[link(1, 0)])
        a, b = fabric.udp(pids[0], fabric.address(0)), fabric.udp(pids[1], fabric.address(1))
        with a, b:
            assert not fabric.hears(b, a)
        adopt(agent, 1, fresh[1])
        a, b = fabric.udp(fresh[0], fabric.address(0)), fabric.udp(fresh[1], fabric.address(1))
        with a, b:
            assert not fabric.hears(b, a)
            assert agent.do("heal", fault="f1")["dropped"] == 2
            assert fabric.hears(b, a)


def test_a_cut_that_cannot_be_done_as_a_whole_is_not_done_at_all(
    agent: AgentProcess, pids: list[int]
) -> None:
    error = agent.error("cut", fault="f1", links=[link(1, 0), link(7, 0)])
    assert "'n7' is not adopted (adopted: n0, n1, n2)" in error
    with fabric.udp(pids[0], fabric.address(0)) as a, fabric.udp(pids[1], fabric.address(1)) as b:
        assert fabric.hears(b, a)
    assert "was injected" in agent.error("heal", fault="f1")


def test_the_network_of_the_agent_itself_is_never_cut(agent: AgentProcess) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        adopted = agent.do("adopt", node="x", pid=process.pid, address="10.77.0.9")
        assert adopted["network"] == "shared with the agent"
        error = agent.error("cut", fault="f1", links=[{"node": "x", "from": ["10.77.0.1"]}])
        assert "x has no own network" in error
    finally:
        process.kill()
        process.wait()


def test_two_nodes_in_one_network_are_refused(agent: AgentProcess, pids: list[int]) -> None:
    error = agent.error("adopt", node="n9", pid=pids[0], address="10.77.0.10")
    assert "shares the network of n0" in error


def test_the_nft_program_stands_in_for_the_library(
    pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nft, "_library", lambda: None)
    namespace = nft.Namespace(pids[2])
    namespace.open()
    namespace.drop([fabric.address(0)])
    with fabric.udp(pids[0], fabric.address(0)) as a, fabric.udp(pids[2], fabric.address(2)) as c:
        assert not fabric.hears(c, a)
        assert namespace.counts() == {fabric.address(0): 1}
        namespace.admit([fabric.address(0)])
        assert fabric.hears(c, a)
    namespace.close()


def test_a_partition_of_five_nodes_takes_five_milliseconds_at_most() -> None:
    fabric.need()
    with fabric.nodes(5) as pids, AgentProcess() as agent:
        for n, pid in enumerate(pids):
            adopt(agent, n, pid)
        sides = {0, 1}, {2, 3, 4}
        links = [link(n, *other) for one, other in (sides, sides[::-1]) for n in one]
        took = []
        for k in range(20):
            took.append(agent.ask("cut", fault=f"f{k}", links=links)["took_ns"])
            agent.do("heal", fault=f"f{k}")
    assert sorted(took)[len(took) // 2] <= 5_000_000, took
