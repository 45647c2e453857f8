"""Small clusters for tests of decisions, written as short as they are read."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.harness.core.ports import Leader, Node, View


def view(
    servers: int = 3,
    clients: int = 2,
    leader: str | None = "n1",
    holders: Sequence[str] = ("c2",),
    *,
    peers: bool = True,
) -> View:
    """n1, n2 ... at 10.0.0.1 and on, c1, c2 ... at 10.0.1.1 and on, the resource at 10.0.2.1."""
    nodes = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in up_to(servers)]
    nodes += [Node(name=f"c{n}", role="client", address=f"10.0.1.{n}") for n in up_to(clients)]
    nodes += [Node(name="resource", role="resource", address="10.0.2.1")]
    leading = Leader(leader) if leader else None
    return View(nodes=nodes, leader=leading, holders=list(holders), peers=peers)


def up_to(count: int) -> range:
    """1, 2, ... count."""
    return range(1, count + 1)
