"""Who no longer hears whom, for each shape of a partition."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.harness.core.ports import Fault, View
from holdfast.nemesis.kinds.partition import NEMESIS, SHAPES, TARGETS
from holdfast.nemesis.targets import Unresolved
from tests.nemesis.agent_process import checked
from tests.nemesis.views import view


def cut(
    shape: str, seen: View, target: str = "", seed: int = 1, **params: str
) -> set[tuple[str, str]]:
    """(who no longer hears, whom), by name; the request is what the fault agent takes."""
    fault = Fault(
        id="f1",
        do="partition",
        target=target or TARGETS[shape],
        at_ns=0,
        for_ns=1,
        params={"shape": shape, **params},
    )
    (request,) = NEMESIS.requests(fault, seen, random.Random(seed))
    do, args = checked({"do": request.do, **request.args})
    assert (do, args["fault"]) == ("cut", "f1")
    name = {node.address: node.name for node in seen.nodes}
    links: list[Mapping[str, Any]] = args["links"]
    pairs = [(link["node"], name[source]) for link in links for source in link["from"]]
    assert len(pairs) == len(set(pairs))
    assert all(hears != speaks for hears, speaks in pairs)
    return set(pairs)


def both(*pairs: str) -> set[tuple[str, str]]:
    """Both directions of "n1-n2"."""
    ends = [pair.split("-") for pair in pairs]
    return {(a, b) for a, b in ends} | {(b, a) for a, b in ends}


def hearing(servers: int, pairs: set[tuple[str, str]]) -> dict[str, set[str]]:
    """Server -> servers that it still hears, itself among them."""
    names = [f"n{n}" for n in range(1, servers + 1)]
    return {a: {b for b in names if (a, b) not in pairs} for a in names}


def test_an_isolated_leader_keeps_its_clients() -> None:
    assert cut("isolate", view(), "leader") == both("n1-n2", "n1-n3")


def test_clients_leave_an_isolated_server_only_when_asked() -> None:
    found = cut("isolate", view(), "leader", clients="cut")
    assert found == both("n1-n2", "n1-n3", "n1-c1", "n1-c2")


def test_an_isolated_holder_still_reaches_the_resource() -> None:
    assert cut("isolate", view(), "holder") == both("c2-n1", "c2-n2", "c2-n3")
    assert cut("client", view(), "c1") == both("c1-n1", "c1-n2", "c1-n3")


def test_a_client_can_lose_the_resource_alone() -> None:
    assert cut("client-resource", view()) == both("c2-resource")


def test_several_isolated_servers_keep_each_other() -> None:
    assert cut("isolate", view(), "n1+n2") == both("n1-n3", "n2-n3")


@pytest.mark.parametrize(("way", "hears"), [("in", "n1"), ("out", "n2")])
def test_one_way_is_one_way(way: str, hears: str) -> None:
    found = cut("one-way", view(servers=2), "leader", way=way)
    assert found == {(hears, "n2" if hears == "n1" else "n1")}


@pytest.mark.parametrize("servers", [2, 3, 4, 5, 7])
def test_halves_are_two_worlds_with_clients_in_each(servers: int) -> None:
    sizes = set()
    for seed in range(30):
        seen = view(servers=servers, clients=4)
        pairs = cut("halves", seen, seed=seed)
        assert pairs == {(b, a) for a, b in pairs}
        sides = {frozenset(side) for side in hearing(servers, pairs).values()}
        assert len(sides) == 2
        sizes.add(tuple(sorted(map(len, sides))))
        for client in ("c1", "c2", "c3", "c4"):
            lost = {b for a, b in pairs if a == client}
            assert lost in sides
        lost_sides = [frozenset(b for a, b in pairs if a == f"c{n}") for n in range(1, 5)]
        assert all(lost_sides.count(side) == 2 for side in sides)
    assert sizes == {(servers // 2, servers - servers // 2)}


def test_halves_can_leave_the_clients_alone() -> None:
    assert all(a[0] == b[0] == "n" for a, b in cut("halves", view(), clients="keep"))


@pytest.mark.parametrize("servers", [3, 4, 5, 7])
def test_a_bridge_is_the_only_server_that_hears_all(servers: int) -> None:
    for seed in range(20):
        found = hearing(servers, cut("bridge", view(servers=servers), seed=seed))
        assert sum(len(heard) == servers for heard in found.values()) == 1


@pytest.mark.parametrize("servers", [4, 5, 6, 7, 9])
def test_in_a_majority_ring_each_hears_another_majority(servers: int) -> None:
    for seed in range(20):
        pairs = cut("majority-ring", view(servers=servers), seed=seed)
        assert pairs == {(b, a) for a, b in pairs}
        found = {frozenset(heard) for heard in hearing(servers, pairs).values()}
        assert len(found) == servers
        assert all(servers // 2 < len(heard) < servers for heard in found)


@pytest.mark.parametrize(
    ("shape", "servers", "reason"),
    [
        ("bridge", 2, "at least 3"),
        ("majority-ring", 3, "at least 4"),
        ("isolate", 1, "no node to cut n1 off from"),
        ("one-way", 1, "no node to cut n1 off from"),
    ],
)
def test_a_cluster_too_small_for_a_shape_is_a_reason(shape: str, servers: int, reason: str) -> None:
    with pytest.raises(Unresolved, match=reason):
        cut(shape, view(servers=servers))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_cuts_something_in_a_cluster_of_five(shape: str) -> None:
    assert cut(shape, view(servers=5))


# Servers that do not talk to each other


def reached(pairs: set[tuple[str, str]], servers: int, clients: int) -> list[set[str]]:
    """Per client the servers that it still reaches, both ways."""
    names = {f"n{n}" for n in range(1, servers + 1)}
    return [
        names - {b for a, b in pairs if a == f"c{n}"} - {a for a, b in pairs if b == f"c{n}"}
        for n in range(1, clients + 1)
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_between_independent_servers_no_link_is_cut(shape: str) -> None:
    pairs = cut(shape, view(servers=5, clients=4, peers=False))
    assert pairs
    assert not [(a, b) for a, b in pairs if a[0] == b[0] == "n"]


def test_an_isolated_independent_server_is_reached_by_no_client() -> None:
    assert cut("isolate", view(peers=False), "n1") == both("n1-c1", "n1-c2")
    assert cut("isolate", view(servers=1, peers=False), "leader") == both("n1-c1", "n1-c2")
    assert cut("isolate", view(peers=False), "holder") == both("c2-n1", "c2-n2", "c2-n3")


@pytest.mark.parametrize(("way", "hears"), [("in", {"n1"}), ("out", {"c1", "c2"})])
def test_one_way_of_an_independent_server_is_between_it_and_clients(
    way: str, hears: set[str]
) -> None:
    found = cut("one-way", view(peers=False), "leader", way=way)
    assert {a for a, _ in found} == hears and len(found) == 2


@pytest.mark.parametrize("servers", [3, 4, 5, 7])
def test_halves_and_bridge_of_independent_servers_are_two_worlds_of_clients(servers: int) -> None:
    for seed in range(20):
        seen = view(servers=servers, clients=4, peers=False)
        halves = reached(cut("halves", seen, seed=seed), servers, 4)
        assert len({frozenset(side) for side in halves}) == 2
        assert not set.intersection(*halves)
        bridge = reached(cut("bridge", seen, seed=seed), servers, 4)
        assert len({frozenset(side) for side in bridge}) == 2
        assert len(set.intersection(*bridge)) == 1


@pytest.mark.parametrize("servers", [3, 4, 5, 7])
def test_in_a_majority_ring_of_independent_servers_clients_reach_bare_majorities(
    servers: int,
) -> None:
    for seed in range(20):
        seen = view(servers=servers, clients=servers, peers=False)
        sides = reached(cut("majority-ring", seen, seed=seed), servers, servers)
        assert all(len(side) == servers // 2 + 1 for side in sides)
        assert len({frozenset(side) for side in sides}) == servers


@pytest.mark.parametrize("shape", ["isolate", "halves", "bridge", "majority-ring", "one-way"])
def test_clients_kept_leave_nothing_to_cut_between_independent_servers(shape: str) -> None:
    with pytest.raises(Unresolved, match="do not communicate"):
        cut(shape, view(servers=5, peers=False), clients="keep")
