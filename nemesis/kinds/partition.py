"""Network partitions: packets between some nodes are dropped silently.

Models
    A failed switch, a wrong firewall rule, a cable that works in one direction. Shapes:
    isolate         the target alone. A server is cut off from the other servers; clients still
                    reach it, because a stale leader that responds is the danger (clients=cut
                    cuts them off too). A client, such as the holder, is cut off from all servers
                    but not from the resource, so that its stale write can arrive.
    halves          the servers in two halves; each client reaches one half only (clients=split),
                    or all servers (clients=keep).
    bridge          two halves that share one server; needs 3 servers.
    majority-ring   every server reaches a majority, each a different one; needs 4 servers.
    one-way         the target server receives nothing from the others (way=in), or they receive
                    nothing from it (way=out).
    client          a client, or the target, is cut off from all servers.
    client-resource a client, or the target, is cut off from the protected resource only.
    If servers do not communicate (single, majority, redlock, one Redis or database), only clients
    can be cut off from them:
    isolate         the target server alone: no client reaches it.
    halves          as above: each client reaches one half of the servers.
    bridge          each client reaches one half of the servers, and all reach one more.
    majority-ring   each client reaches a bare majority, neighbours never the same one; needs 3.
    one-way         the target server receives from no client (way=in), or no client receives from
                    it (way=out).
    With clients=keep nothing can be cut there, and the fault is skipped for that reason.
    First the leader is isolated, then the holder, then halves, then the leader again; after that
    any shape.
Needs
    cut: a network namespace per node with nftables, or proxies.
Heals
    Packets pass again; connections recover with TCP's next retransmission, 0.1 to 3.3 s later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.options import one_of
from holdfast.nemesis.targets import Unresolved, clients, resolve, servers
from holdfast.nemesis.timetable import TIMING, slots

Pairs = list[tuple[str, str]]
"""(receiving node, sending node whose packets are dropped)"""

FIRST = (
    ("isolate", "leader|one"),
    ("isolate", "holder"),
    ("halves", "all"),
    ("isolate", "leader|one"),
)
TARGETS = {
    "isolate": "leader|one",
    "halves": "all",
    "bridge": "all",
    "majority-ring": "all",
    "one-way": "leader|one",
    "client": "client",
    "client-resource": "holder",
}


class Partition:
    """Implements the port `Nemesis`. Options: shape, target, clients, way, every, for, lease."""

    agent = ("holdfast.nemesis.agent.cuts:CUT",)
    traits = Traits(
        cuts=True,
        passes=True,
        pattern="partition",
        swarm=Swarm(places=(1, 14), targets=("", "holder", "waiter")),
    )

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("partition", options, {"target": str, **PARAMS, **TIMING})
        asked = {name: text for name, text in options.items() if name in PARAMS}
        faults = []
        for n, (at_ns, for_ns) in enumerate(slots("partition", rng, options, span_ns)):
            shape, target = _usual(n, options, rng)
            params = {"shape": shape, **asked}
            way = rng.choice(("in", "out"))
            if shape == "one-way":
                params.setdefault("way", way)
            faults.append(
                Fault(
                    id=f"partition-{n + 1}",
                    do="partition",
                    target=target,
                    at_ns=at_ns,
                    for_ns=for_ns,
                    params=params,
                )
            )
        return faults

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("partition", fault.params, PARAMS)
        nodes = resolve(fault.target, view, rng)
        pairs = SHAPES[fault.params.get("shape", "isolate")](nodes, fault.params, view, rng)
        if not pairs:
            why = "" if view.peers else " (its servers do not communicate)"
            cut = "+".join(nodes)
            raise Unresolved(f"{fault.target}: no node to cut {cut} off from{why}")
        args = {"fault": fault.id, "nodes": nodes, "links": _links(pairs, view)}
        return [Request(do="cut", args=args)]


def isolate(nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random) -> Pairs:
    """The nodes alone: servers from other servers, every other node from all servers."""
    pairs = []
    for node in nodes:
        if node not in servers(view):
            pairs += _both([node], [name for name in servers(view) if name not in nodes])
            continue
        pairs += _both([node], _peers(nodes, view))
        if params.get("clients", "keep" if view.peers else "cut") == "cut":
            pairs += _both([node], clients(view))
    return pairs


def halves(nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random) -> Pairs:
    """Two sides of servers, and unless clients=keep a side for each client."""
    left, right = _two_sides(nodes, rng)
    pairs = _both(left, right) if view.peers else []
    if params.get("clients", "split") != "keep":
        pairs += _split_clients(left, right, view, rng)
    return pairs


def bridge(nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random) -> Pairs:
    """Two sides of servers that share one server; for independent servers: sides of clients."""
    if len(nodes) < 3:
        raise Unresolved(f"bridge: {len(nodes)} servers; at least 3 are needed")
    middle = rng.choice(nodes)
    left, right = _two_sides([node for node in nodes if node != middle], rng)
    if view.peers:
        return _both(left, right)
    return [] if params.get("clients") == "keep" else _split_clients(left, right, view, rng)


def majority_ring(
    nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random
) -> Pairs:
    """Servers in a ring; each reaches its nearest neighbours, just enough for a majority.

    With independent servers each client reaches a bare majority: consecutive servers of the ring,
    beginning at a different one for each client.
    """
    least = 4 if view.peers else 3
    if len(nodes) < least:
        raise Unresolved(f"majority-ring: {len(nodes)} servers; at least {least} are needed")
    ring = rng.sample(nodes, len(nodes))
    size = len(ring)
    if not view.peers:
        if params.get("clients") == "keep":
            return []
        lost = size - (size // 2 + 1)
        return [
            pair
            for i, client in enumerate(clients(view))
            for j in range(lost)
            for pair in _both([client], [ring[(i + j) % size]])
        ]
    reach = (size // 2 + 1) // 2
    return [
        (ring[i], ring[j])
        for i in range(size)
        for j in range(size)
        if min((i - j) % size, (j - i) % size) > reach
    ]


def one_way(nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random) -> Pairs:
    """Packets pass in one direction between the nodes and all other servers.

    Independent servers do not communicate: there, packets of clients are dropped.
    """
    others = [name for name in servers(view) if name not in nodes]
    if not view.peers and all(node in servers(view) for node in nodes):
        others = [] if params.get("clients") == "keep" else clients(view)
    hears, speaks = (others, nodes) if params.get("way") == "out" else (nodes, others)
    return [(a, b) for a in hears for b in speaks]


def client_resource(
    nodes: list[str], params: Mapping[str, str], view: View, rng: random.Random
) -> Pairs:
    """The clients alone from the protected resource; the servers they reach."""
    return _both(nodes, [node.name for node in view.named("resource")])


SHAPES: dict[str, Callable[[list[str], Mapping[str, str], View, random.Random], Pairs]] = {
    "isolate": isolate,
    "halves": halves,
    "bridge": bridge,
    "majority-ring": majority_ring,
    "one-way": one_way,
    "client": isolate,
    "client-resource": client_resource,
}
PARAMS: dict[str, Callable[[str], object]] = {
    "shape": one_of(*SHAPES),
    "clients": one_of("split", "keep", "cut"),
    "way": one_of("in", "out"),
}


def _usual(n: int, options: Mapping[str, str], rng: random.Random) -> tuple[str, str]:
    """Default shape and target of the n-th fault."""
    any_shape = rng.choice(list(SHAPES))
    if "shape" in options:
        return options["shape"], options.get("target") or TARGETS[options["shape"]]
    if "target" in options:
        return "isolate", options["target"]
    return FIRST[n] if n < len(FIRST) else (any_shape, TARGETS[any_shape])


def _peers(nodes: Sequence[str], view: View) -> list[str]:
    """The other servers that these servers communicate with."""
    return [name for name in servers(view) if name not in nodes] if view.peers else []


def _split_clients(
    left: Sequence[str], right: Sequence[str], view: View, rng: random.Random
) -> Pairs:
    """Half of the clients are cut off from one side of the servers, the others from the other."""
    on_left, on_right = _two_sides(clients(view), rng)
    return _both(on_left, right) + _both(on_right, left)


def _both(left: Iterable[str], right: Iterable[str]) -> Pairs:
    right = list(right)
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def _two_sides(names: Sequence[str], rng: random.Random) -> tuple[list[str], list[str]]:
    """Two random sides whose sizes differ by at most one."""
    mixed = rng.sample(list(names), len(names))
    cut = (len(mixed) + rng.randint(0, 1)) // 2
    return mixed[:cut], mixed[cut:]


def _links(pairs: Pairs, view: View) -> list[dict[str, object]]:
    """The cuts as the fault agent expects them: receiving node -> dropped source addresses."""
    address = {node.name: node.address for node in view.nodes}
    sources: dict[str, list[str]] = {}
    for hears, speaks in dict.fromkeys(pairs):
        sources.setdefault(hears, []).append(address[speaks])
    return [{"node": node, "from": found} for node, found in sources.items()]


NEMESIS = Partition()
