"""Faults of links by the fault agent, in real network namespaces, with real packets."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from holdfast.nemesis.agent.links import link_faults
from holdfast.nemesis.agent.links.packet_queue import Bandwidth, Delay
from holdfast.nemesis.agent.links.rules import Settings
from tests import needs
from tests.nemesis import fabric
from tests.nemesis.agent_process import AgentProcess

MS = 1_000_000
HERE, THERE = fabric.address(0), fabric.address(1)
ACTS: Mapping[str, Mapping[str, Any]] = {
    "loss": {},
    "duplicate": {},
    "corrupt": {"byte": 3},
    "mtu": {"bytes": 576},
    "zero-window": {},
    "refuse": {},
    "half-open": {},
    "neighbour": {},
    "delay": {"by_ns": 30 * MS, "jitter_ns": 10 * MS},
    "reorder": {"by_ns": 20 * MS, "share_ppm": 300_000},
    "bandwidth": {"rate": 64_000},
}
"""Act -> its arguments, with which every exchange of `exchange` shows it."""
QUEUED = ("delay", "reorder", "bandwidth")


@pytest.fixture(scope="module")
def pids() -> Iterator[list[int]]:
    fabric.need()
    needs.unless(link_faults.unsupported())
    with fabric.nodes(2) as found:
        yield found


@pytest.fixture(scope="module")
def echo(pids: list[int]) -> Iterator[fabric.Echo]:
    with fabric.Echo(pids[1], THERE) as server:
        yield server


@pytest.fixture
def agent(pids: list[int]) -> Iterator[AgentProcess]:
    with AgentProcess() as started:
        adopt(started, pids)
        yield started


def adopt(agent: AgentProcess, pids: list[int]) -> None:
    for n, pid in enumerate(pids):
        agent.do("adopt", node=f"n{n}", pid=pid, address=fabric.address(n))


def link(act: str, **more: Any) -> dict[str, Any]:
    """The arguments of a fault on what n1 receives from n0 (`neighbour`: sends to it)."""
    return {"act": act, "links": [{"node": "n1", "from": [HERE]}], **ACTS[act], **more}


def exchange(act: str, connection: socket.socket, echo: fabric.Echo, pid: int) -> bool:
    """Sends what shows the fault; whether it was seen by the program."""
    if act == "refuse":
        try:
            echo.connect(pid).close()
        except OSError:
            return True
        return False
    if act == "reorder":
        # Packets are overtaken that nobody waits for, so the sender must not wait.
        sent = [bytes([n]) * 40 for n in range(60)]
        for piece in sent:
            connection.sendall(piece)
        return fabric.echoed(connection, b"x" * 40 * 60)[: 40 * 60] == b"".join(sent)
    data = b"a" * (4000 if act == "mtu" else 100)
    begun = time.monotonic_ns()
    back = fabric.echoed(connection, data)
    if act in ("delay", "bandwidth"):
        return back == data and time.monotonic_ns() - begun >= 10 * MS
    return back == data if act == "duplicate" else back != data


def inject_and_look(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str, fault: str
) -> dict[str, Any]:
    """The evidence of a fault that the program at the other end has seen, at its heal."""
    with echo.connect(pids[0]) as connection:
        assert fabric.echoed(connection, b"before") == b"before"
        agent.do("link", fault=fault, **link(act))
        assert exchange(act, connection, echo, pids[0])
        return agent.do("heal", fault=fault)


@pytest.mark.parametrize("act", ACTS)
def test_every_act_is_seen_by_the_program_and_counted_and_over_with_its_heal(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str
) -> None:
    healed = inject_and_look(agent, echo, pids, act, "f1")
    assert healed["effective"] is True
    arrow = "->" if act == "neighbour" else "<-"
    assert healed["links"] == {f"n1{arrow}{HERE}": healed["packets"]}
    with echo.connect(pids[0], 1.0) as connection:
        assert fabric.echoed(connection, b"a" * 4000) == b"a" * 4000
    assert agent.do("heal", fault="f1") == healed


@pytest.mark.parametrize("act", ACTS)
def test_without_a_packet_no_act_is_effective(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str
) -> None:
    with echo.connect(pids[0]):
        assert agent.do("link", fault="f1", **link(act))["effective"] is False
        assert agent.do("observe", fault="f1")["effective"] is False
        assert agent.do("heal", fault="f1")["effective"] is False


@pytest.mark.parametrize("act", [act for act in ACTS if act not in ("half-open", "neighbour")])
def test_packets_from_other_nodes_pass_and_are_no_evidence(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str
) -> None:
    elsewhere = [{"node": "n1", "from": ["10.77.0.99"]}]
    agent.do("link", fault="f1", **link(act, links=elsewhere))
    with echo.connect(pids[0]) as connection:
        assert fabric.echoed(connection, b"a" * 4000) == b"a" * 4000
    assert agent.do("heal", fault="f1")["packets"] == 0


def test_half_open_leaves_new_connections_alone(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int]
) -> None:
    with echo.connect(pids[0]) as old:
        agent.do("link", fault="f1", **link("half-open"))
        assert fabric.echoed(old, b"old") == b""
        with echo.connect(pids[0]) as new:
            assert fabric.echoed(new, b"new") == b"new"
        assert agent.do("heal", fault="f1")["effective"]
    assert "no open connection" in agent.error(
        "link", fault="f2", act="half-open", links=[{"node": "n1", "from": ["10.77.0.99"]}]
    )


def test_a_path_mtu_black_hole_lets_small_packets_pass(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int]
) -> None:
    with echo.connect(pids[0]) as connection:
        agent.do("link", fault="f1", **link("mtu"))
        assert fabric.echoed(connection, b"a" * 100) == b"a" * 100
        assert agent.do("observe", fault="f1")["effective"] is False
        assert fabric.echoed(connection, b"b" * 4000) == b""
        assert agent.do("heal", fault="f1")["effective"] is True


def test_a_refused_connection_may_get_no_answer(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int]
) -> None:
    agent.do("link", fault="f1", **link("refuse", answer="drop"))
    with pytest.raises(TimeoutError):
        echo.connect(pids[0], connect_s=0.3)
    agent.do("heal", fault="f1")
    agent.do("link", fault="f2", **link("refuse"))
    with pytest.raises(ConnectionRefusedError):
        echo.connect(pids[0])


def test_a_byte_that_is_the_same_is_not_counted(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int]
) -> None:
    agent.do("link", fault="f1", **link("corrupt"))
    with echo.connect(pids[0]) as connection:
        assert fabric.echoed(connection, b"ab\xffd") == b"ab\xffd"
        assert agent.do("observe", fault="f1")["packets"] == 0
        assert fabric.echoed(connection, b"abcd") == b"ab\xffd"
    assert agent.do("heal", fault="f1")["packets"] == 1


def test_faults_on_one_link_act_and_heal_each_by_itself(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int]
) -> None:
    with echo.connect(pids[0]) as connection:
        agent.do("link", fault="f1", **link("delay", by_ns=20 * MS, jitter_ns=0))
        agent.do("link", fault="f2", **link("delay", by_ns=30 * MS, jitter_ns=0))
        begun = time.monotonic_ns()
        assert fabric.echoed(connection, b"a") == b"a"
        assert time.monotonic_ns() - begun >= 50 * MS
        assert agent.do("heal", fault="f1")["effective"]
        begun = time.monotonic_ns()
        assert fabric.echoed(connection, b"a") == b"a"
        assert time.monotonic_ns() - begun >= 30 * MS
        assert agent.do("heal", fault="f2")["longest_wait_ns"] == 30 * MS


@pytest.mark.parametrize("act", QUEUED)
def test_packets_that_wait_at_the_heal_arrive(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str
) -> None:
    more = {"rate": 1000} if act == "bandwidth" else {"by_ns": 60_000 * MS, "share_ppm": 1_000_000}
    with echo.connect(pids[0], 5.0) as connection:
        agent.do("link", fault="f1", **{**link(act), **more})
        connection.sendall(b"late")
        agent.do("heal", fault="f1")
        assert connection.recv(16) == b"late"


@pytest.mark.parametrize("act", ["loss", "neighbour", "delay"])
def test_a_fault_follows_its_node_into_the_next_network_and_keeps_its_count(act: str) -> None:
    fabric.need()
    with fabric.nodes(2) as old, AgentProcess() as agent:
        adopt(agent, old)
        with fabric.Echo(old[1], THERE) as echo, echo.connect(old[0]) as connection:
            agent.do("link", fault="f1", **link(act))
            assert exchange(act, connection, echo, old[0])
            counted = agent.do("observe", fault="f1")["packets"]
            assert counted
            with fabric.nodes(2) as fresh:
                adopt(agent, fresh)
                assert agent.do("observe", fault="f1")["packets"] >= counted
                with fabric.Echo(fresh[1], THERE) as again:
                    agent.do("heal", fault="f1")
                    with again.connect(fresh[0], 1.0) as new:
                        assert fabric.echoed(new, b"a" * 4000) == b"a" * 4000


@pytest.mark.parametrize("act", ACTS)
def test_what_an_agent_that_was_killed_left_is_removed_by_the_next_one(
    echo: fabric.Echo, pids: list[int], act: str
) -> None:
    with echo.connect(pids[0]) as connection:
        with AgentProcess() as first:
            adopt(first, pids)
            first.do("link", fault="f1", **link(act))
            os.kill(first.process.pid, signal.SIGKILL)
            first.process.wait(10)
            if act in QUEUED:
                # Nothing reads the queue now: packets pass it.
                assert fabric.echoed(connection, b"passes") == b"passes"
        with AgentProcess() as second:
            adopt(second, pids)
            second.do("recover")
            with echo.connect(pids[0], 1.0) as fresh:
                assert fabric.echoed(fresh, b"a" * 4000) == b"a" * 4000
        assert rules_left(pids[1]) == ""


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"act": "lose"}, "'lose' is not one of loss, "),
        ({"act": "refuse", "answer": "maybe"}, "'maybe' is not one of reset, drop"),
        ({"act": "bandwidth", "rate": 0}, "a rate > 0"),
        ({"act": "corrupt", "byte": 0}, "a number from 1 to 1000"),
        ({"act": "delay", "by_ns": -1}, "invalid argument 'by_ns'"),
        ({"act": "loss", "links": [{"node": "n7", "from": [HERE]}]}, "'n7' is not adopted"),
        ({"act": "neighbour", "links": [{"node": "n1", "from": ["192.0.2.9"]}]}, "ip: "),
    ],
)
def test_a_fault_that_cannot_be_done_is_refused_and_leaves_nothing(
    agent: AgentProcess, pids: list[int], args: dict[str, Any], why: str
) -> None:
    assert why in agent.error("link", fault="f1", **{**link("loss"), **args})
    assert "was injected" in agent.error("heal", fault="f1")
    assert rules_left(pids[1]) == ""


def test_the_network_of_the_agent_itself_is_never_touched(agent: AgentProcess) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        agent.do("adopt", node="x", pid=process.pid, address="10.77.0.9")
        error = agent.error(
            "link", fault="f1", act="loss", links=[{"node": "x", "from": ["10.77.0.1"]}]
        )
        assert "x has no own network" in error
    finally:
        process.kill()
        process.wait()


def rules_left(pid: int) -> str:
    """Chains of our table in the network of a node; "" also if there is no table."""
    listed = fabric.nftables(pid, "list ruleset")
    table = listed.partition("table ip holdfast_links {")[2].partition("\n}")[0]
    return table.strip()


WITHOUT_TOOLS = """
for found in $(ldconfig -p | sed -n 's/.*libnftables.* => //p') $(command -v nft ip); do
    mount --bind /dev/null "$(readlink -f "$found")"
done
exec "$@"
"""
MASKED = ("unshare", "--mount", "sh", "-c", WITHOUT_TOOLS, "sh")


def without_tools(act: str, echo: fabric.Echo, pids: list[int]) -> bool:
    """The evidence where nftables and ip are not installed: adopt is refused."""
    with AgentProcess(prefix=MASKED) as agent:
        error = agent.error("adopt", node="n1", pid=pids[1], address=THERE)
        assert re.search("nft: |missing command nft; install nftables", error)
        return bool(agent.ask("link", fault="f1", **link(act))["ok"])


def without_target(act: str, echo: fabric.Echo, pids: list[int]) -> bool:
    """The evidence where the other end is not on the network any more."""
    with AgentProcess() as agent, echo.connect(pids[0]) as connection:
        adopt(agent, pids)
        try:
            _link(pids[0], "down")
            agent.do("link", fault="f1", **link(act))
            with suppress(OSError):
                exchange(act, connection, echo, pids[0])
            return bool(agent.do("heal", fault="f1")["effective"])
        finally:
            _link(pids[0], "up")


def without_rules(act: str, echo: fabric.Echo, pids: list[int]) -> bool:
    """The evidence where another program removed all rules of nftables at once."""
    with AgentProcess() as agent, echo.connect(pids[0]) as connection:
        adopt(agent, pids)
        agent.do("link", fault="f1", **link(act))
        fabric.nftables(pids[1], "flush ruleset")
        exchange(act, connection, echo, pids[0])
        reply = agent.ask("heal", fault="f1")
        return bool(reply["ok"] and reply["evidence"]["effective"])


def with_a_taken_queue(act: str, echo: fabric.Echo, pids: list[int]) -> bool:
    """The evidence where another process has the queue."""
    with AgentProcess() as first, AgentProcess() as agent:
        adopt(first, pids)
        first.do("link", fault="f1", **link("delay"))
        agent.do("adopt", node="n1", pid=pids[1], address=THERE)
        return bool(agent.ask("link", fault="f1", **link(act))["ok"])


Way = Callable[[str, fabric.Echo, list[int]], bool]


def ways(act: str) -> list[Way]:
    """How a fault is made impossible; each returns whether it was claimed to be effective."""
    every: list[Way] = [without_tools, without_target, without_rules]
    return [*every, with_a_taken_queue] if act in QUEUED else every


def _link(pid: int, state: str) -> None:
    words = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "link", "set", "eth0", state]
    subprocess.run(words, check=True, timeout=10)


SOME = [("refuse", without_tools), ("duplicate", without_rules), ("delay", with_a_taken_queue)]


@pytest.mark.parametrize(("act", "impossible"), [*((act, without_target) for act in ACTS), *SOME])
def test_what_was_made_impossible_is_never_effective(
    echo: fabric.Echo, pids: list[int], act: str, impossible: Way
) -> None:
    assert not impossible(act, echo, pids)


@pytest.mark.power
@pytest.mark.parametrize("act", ACTS)
def test_fifty_times_effective_and_fifty_times_impossible(
    agent: AgentProcess, echo: fabric.Echo, pids: list[int], act: str
) -> None:
    assert all(inject_and_look(agent, echo, pids, act, f"f{n}")["effective"] for n in range(50))
    for n in range(50):
        impossible = ways(act)[n % len(ways(act))]
        assert not impossible(act, echo, pids)


def test_a_delay_keeps_the_order_of_a_source_and_a_rate_has_no_burst() -> None:
    rng = random.Random(1)
    delay = Delay(Settings(by_ns=10, jitter_ns=1000), rng)
    due = [delay.due_ns(now, "a", 1) for now in range(0, 3000, 30)]
    assert due == sorted(due) and len(set(due)) > 3
    assert all(now + 10 <= at for now, at in zip(range(0, 3000, 30), due, strict=True))
    rate = Bandwidth(Settings(rate=8_000), rng)
    assert [rate.due_ns(0, "a", 100), rate.due_ns(0, "a", 100)] == [100 * MS, 200 * MS]
    assert rate.due_ns(0, "b", 100) == 100 * MS
    assert rate.due_ns(1000 * MS, "a", 50) == 1050 * MS
