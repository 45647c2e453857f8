"""Roles made into nodes."""

from __future__ import annotations

import random

import pytest

from holdfast.nemesis.targets import ROLES, Unresolved, resolve
from tests.nemesis.views import view


def draws(target: str, servers: int = 3) -> set[tuple[str, ...]]:
    """Everything that a target comes to over many seeds."""
    return {tuple(resolve(target, view(servers), random.Random(seed))) for seed in range(200)}


@pytest.mark.parametrize(
    ("target", "means"),
    [
        ("leader", {("n1",)}),
        ("follower", {("n2",), ("n3",)}),
        ("holder", {("c2",)}),
        ("waiter", {("c1",)}),
        ("waiters", {("c1",)}),
        ("one", {("n1",), ("n2",), ("n3",)}),
        ("majority", {("n1", "n2"), ("n1", "n3"), ("n2", "n3")}),
        ("minority", {("n1",), ("n2",), ("n3",)}),
        ("all", {("n1", "n2", "n3")}),
        ("client", {("c1",), ("c2",)}),
        ("clients", {("c1", "c2")}),
        ("resource", {("resource",)}),
        ("n3", {("n3",)}),
        ("n3+c1", {("n3", "c1")}),
        ("leader+n1+holder", {("n1", "c2")}),
        ("leader|one", {("n1",)}),
    ],
)
def test_a_target_means_these_nodes(target: str, means: set[tuple[str, ...]]) -> None:
    assert draws(target) == means


@pytest.mark.parametrize(("servers", "most", "least"), [(1, 1, 0), (2, 2, 0), (4, 3, 1), (5, 3, 2)])
def test_without_a_majority_no_quorum_is_left_and_without_a_minority_one_is(
    servers: int, most: int, least: int
) -> None:
    assert {len(found) for found in draws("majority", servers)} == {most}
    if least:
        assert {len(found) for found in draws("minority", servers)} == {least}
    else:
        with pytest.raises(Unresolved, match="have no minority"):
            draws("minority", servers)


@pytest.mark.parametrize("role", ["leader", "holder", "waiter", "waiters", "client", "one"])
def test_a_role_that_nobody_has_is_a_reason_and_not_a_node(role: str) -> None:
    nobody = view(servers=0, clients=0, leader=None, holders=())
    with pytest.raises(LookupError, match=role):
        resolve(role, nobody, random.Random(1))


def test_the_first_alternative_that_exists_is_taken_and_else_all_reasons_are_told() -> None:
    assert resolve("leader|n2", view(leader=None), random.Random(1)) == ["n2"]
    with pytest.raises(Unresolved, match=r"leader: .*; holder: "):
        resolve("leader|holder", view(leader=None, holders=()), random.Random(1))


def test_an_unknown_target_names_the_one_that_was_meant() -> None:
    with pytest.raises(Unresolved, match="did you mean 'leader'"):
        resolve("laeder", view(), random.Random(1))


def test_every_role_has_its_sentence() -> None:
    assert all(role.__doc__ for role in ROLES.values())
