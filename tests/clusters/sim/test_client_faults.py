"""Faults of one client in the simulator: what they take, whom they spare, what they say of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clusters.backends.sim.client_faults import Disturb, Order
from holdfast.harness.client.guard import Guard
from holdfast.harness.core.errors import EnvironmentFailed


class Net:
    """Who is a server; what disturbs."""

    def __init__(self) -> None:
        self.disturbances: list[Any] = []

    def serves(self, node: str) -> bool:
        return node.startswith("n")


class Cluster:
    """What a fault sees of the simulated cluster."""

    def __init__(self) -> None:
        self.network = Net()
        self.hosts: dict[str, Any] = {}


def disturb(what: str, **args: int) -> tuple[Disturb, Any]:
    cluster: Any = Cluster()
    told = {"what": what, "nodes": ["c1"], "count": 1, "after": 0, **args}
    return Disturb(cluster, told), cluster.network


def test_one_reply_of_a_server_to_that_client_is_lost_and_no_more() -> None:
    fault, _ = disturb("reply-loss")
    assert not fault.swallows("c1", "n1", {}), "a request"
    assert not fault.swallows("n1", "c2", {}), "another client's"
    assert not fault.swallows("resource", "c1", {}), "the resource is no lock server"
    assert fault.observe() == {"effective": False, "connections reset": 0}
    assert fault.swallows("n1", "c1", {})
    assert not fault.swallows("n1", "c1", {}), "once"
    assert fault.observe() == {"effective": True, "connections reset": 1}


def test_a_request_is_lost_where_the_connection_is_reset_before_it_arrives() -> None:
    fault, network = disturb("reset", count=2)
    assert not fault.swallows("n1", "c1", {})
    assert [fault.swallows("c1", "n2", {}) for _ in range(3)] == [True, True, False]
    fault.heal([])
    assert network.disturbances == []


def test_so_many_bytes_pass_first() -> None:
    fault, _ = disturb("reset", after=30)
    assert [fault.swallows("c1", "n1", {"a": "x" * 10}) for _ in range(3)] == [False, True, False]


def test_what_the_simulator_has_not_is_said() -> None:
    with pytest.raises(EnvironmentFailed, match="unsupported fault delay"):
        disturb("delay")
    cluster: Any = Cluster()
    with pytest.raises(EnvironmentFailed, match="clients do not support stall"):
        Order(cluster, {"what": "stall", "nodes": ["c1"]})


def test_calls_under_way_are_cancelled_and_told() -> None:
    async def called() -> tuple[str, dict[str, Any]]:
        guard, cluster = Guard(), Cluster()
        client = type("Client", (), {"guard": guard})()
        loop = asyncio.get_running_loop()
        cluster.hosts["c1"] = type("Host", (), {"loop": loop, "client": client})()
        args = {"what": "cancel", "nodes": ["c1"], "count": 1, "after_ns": 1000, "for_ns": 10**9}
        told: Any = cluster
        order = Order(told, args)
        watch = guard.enter(5)
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            watch.gave_up()
        finally:
            guard.leave(watch)
        return watch.why, order.heal([])

    why, evidence = asyncio.run(called())
    assert why == "cancelled by a fault"
    assert evidence["effective"] and len(evidence["cancelled after ms"]) == 1
