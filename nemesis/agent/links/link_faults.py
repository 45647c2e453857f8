"""Faults of kind `link`: packets between two nodes are lost, copied, changed, delayed, refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent.halves import Half, Part
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.links import connections, neighbours, rules
from holdfast.nemesis.agent.links.packet_queue import DISCIPLINES, PacketQueue
from holdfast.nemesis.agent.nft import Namespace, NetworkFailed, in_new_network
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, Form

ACTS = (*rules.RULES, *DISCIPLINES)
FIRST_QUEUE = 7100
QUEUES = 1024
"""Numbers of queues; a number is used again after QUEUES faults."""

Link = tuple[str, str]
"""(node, address of the other end)"""


@dataclass(slots=True)
class _Fault:
    """One active fault.

    ends     node -> addresses of the other ends
    chain    its chain in the network of each node
    applied  the networks that it acts in
    queues   its queues by node; devices: its neighbour entries by node
    carried  what it counted in networks that it has left
    """

    act: str
    how: rules.Settings
    chain: str
    number: int
    ends: dict[str, list[str]]
    applied: dict[str, Namespace] = field(default_factory=dict)
    queues: dict[str, PacketQueue] = field(default_factory=dict)
    devices: dict[str, dict[str, str]] = field(default_factory=dict)
    carried: Counter[Link] = field(default_factory=Counter)
    longest_ns: int = 0


class Links(Part):
    """Faults of kind `link`. Several may act on one link; each has rules of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults: dict[str, _Fault] = {}
        self._numbers = count()

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Acts on `links`: [{"node": name, "from": [addresses]}]. Errors: Refused."""
        act, how = str(args["act"]), _settings(args)
        for word, known in ((act, ACTS), (how.answer, rules.ANSWERS)):
            if word not in known:
                raise Refused(f"link: {word!r} is not one of {', '.join(known)}")
        if act == "bandwidth" and not how.rate:
            raise Refused("link: bandwidth needs a rate > 0")
        ends = _ends(args["links"])
        for node in ends:
            adopted = self._world.node(node)
            if adopted.network is None:
                raise Refused(
                    f"link: {adopted.without_network}; give each node a network namespace"
                )
        number = next(self._numbers)
        made = self._faults[fault] = _Fault(
            act=act,
            how=how,
            chain=f"fault_{number}",
            number=FIRST_QUEUE + number % QUEUES,
            ends=ends,
        )
        for node in made.ends:
            self._apply(made, node)
        if made.act == "half-open" and not made.applied:
            raise Refused("link: half-open: no open connection between these nodes")
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Packets on which it acted so far, by link; effective if there was one."""
        made = self._faults.get(fault)
        if made is None:
            return {"effective": False}
        met = made.carried.copy()
        for node in made.applied:
            met.update(self._counts(made, node))
        evidence: Evidence = {
            "effective": sum(met.values()) > 0,
            "packets": sum(met.values()),
            "links": {
                f"{node}{'->' if made.act == 'neighbour' else '<-'}{address}": met[node, address]
                for node, addresses in made.ends.items()
                for address in addresses
            },
        }
        if made.act in DISCIPLINES:
            waits = [made.longest_ns, *(queue.longest_ns for queue in made.queues.values())]
            evidence["longest_wait_ns"] = max(waits)
        return evidence

    def heal(self, fault: str) -> Evidence:
        """Removes its rules; packets that wait in its queues pass."""
        made = self._faults[fault]
        problems = []
        for node in list(made.applied):
            try:
                self._withdraw(made, node)
            except NetworkFailed as error:
                problems.append(f"{node}: {error}")
        if problems:
            raise NetworkFailed("; ".join(problems))
        evidence = self.observe(fault)
        del self._faults[fault]
        return evidence

    def recover(self) -> Evidence:
        """Removes neighbour entries that a killed agent left in the adopted networks; their number.
        The rules that it left, adopt removes."""
        networks = [node.network for node in self._world.nodes.values() if node.network]
        return {"neighbours": sum(map(neighbours.find_all, networks))}

    def abilities(self) -> Evidence:
        """Whether links can be disturbed here, or why not."""
        return {"link": unsupported() or True}

    def settle(self, node: str) -> None:
        """Applies the faults of a node to a network that is new to them."""
        for made in self._faults.values():
            if node in made.ends and node not in made.applied:
                self._apply(made, node)

    def leave(self, node: str) -> None:
        """Keeps the counts of a node whose network is about to be replaced."""
        for made in self._faults.values():
            if node in made.applied:
                self._withdraw(made, node)

    def _apply(self, made: _Fault, node: str) -> None:
        network = self._world.node(node).network
        if network is None:
            return
        how = replace(made.how, address=self._world.node(node).address)
        hows = dict.fromkeys(made.ends[node], how)
        if made.act == "half-open":
            established = connections.with_peers(network, made.ends[node])
            hows = {
                address: replace(how, ports=", ".join(f"{a} . {b}" for a, b in pairs))
                for address, pairs in established.items()
            }
            if not hows:
                return
        rules.add_chain(network, made.chain, made.act, hows)
        made.applied[node] = network
        if made.act == "neighbour":
            made.devices[node] = neighbours.devices(network, made.ends[node])
            neighbours.lose(network, made.devices[node])
        if made.act in DISCIPLINES:
            discipline = DISCIPLINES[made.act](made.how, random.Random(f"{made.chain} {node}"))
            queue = PacketQueue(network, made.number, discipline, overtaking=made.act == "reorder")
            made.queues[node] = queue
            for address in made.ends[node]:
                queue.fill(network, made.chain, address)

    def _withdraw(self, made: _Fault, node: str) -> None:
        """Removes a fault from one node's network; one failure stops nothing else."""
        network = made.applied.pop(node)
        queue = made.queues.pop(node, None)
        devices = made.devices.pop(node, {})
        problems = []

        def attempt(act: Callable[[], None]) -> None:
            try:
                act()
            except NetworkFailed as error:
                problems.append(str(error))

        if queue is None:
            attempt(lambda: made.carried.update(_met(made, node, network, devices)))
        if devices:
            attempt(lambda: neighbours.find(network, devices))
        # The rule goes before its queue: what is queued in between would be lost with the queue.
        attempt(lambda: rules.remove_chain(network, made.chain))
        if queue is not None:
            queue.close()
            made.longest_ns = max(made.longest_ns, queue.longest_ns)
            made.carried.update({(node, one): n for one, n in queue.counts.items()})
        if problems:
            raise NetworkFailed("; ".join(problems))

    def _counts(self, made: _Fault, node: str) -> Mapping[Link, int]:
        queue = made.queues.get(node)
        if queue is None:
            return _met(made, node, made.applied[node], made.devices.get(node, {}))
        return {(node, address): packets for address, packets in queue.counts.items()}


def _met(
    made: _Fault, node: str, network: Namespace, devices: Mapping[str, str]
) -> Mapping[Link, int]:
    """Packets that the rules of a fault met at a node. Errors: NetworkFailed."""
    met = rules.counts(network, made.chain)
    if made.act == "neighbour":
        # What was sent while another entry was in the table did arrive.
        met = Counter({address: met[address] for address in neighbours.lost(network, devices)})
    return {(node, address): packets for address, packets in met.items()}


def _settings(args: Mapping[str, Json]) -> rules.Settings:
    def number(name: str) -> int:
        value = args[name]
        assert isinstance(value, int)
        return value

    return rules.Settings(
        share_ppm=number("share_ppm"),
        by_ns=number("by_ns"),
        jitter_ns=number("jitter_ns"),
        byte=number("byte"),
        bytes=number("bytes"),
        rate=number("rate"),
        answer=str(args["answer"]),
    )


def _ends(links: Json) -> dict[str, list[str]]:
    """Node -> addresses of the other ends, each once."""
    addresses_of: dict[str, dict[str, None]] = {}
    assert isinstance(links, list)
    for link in links:
        addresses_of.setdefault(link["node"], {}).update(dict.fromkeys(link["from"]))
    return {node: [*addresses] for node, addresses in addresses_of.items()}


def unsupported() -> str | None:
    """Why links cannot be disturbed on this host, or None. Tested in a temporary namespace."""

    def attempt(network: Namespace) -> None:
        hows = {"192.0.2.1": rules.Settings(share_ppm=1, ports="1 . 2", address="192.0.2.2")}
        for number, act in enumerate(rules.RULES):
            rules.add_chain(network, f"probe_{number}", act, hows)
            if rules.counts(network, f"probe_{number}") != {"192.0.2.1": 0}:
                raise NetworkFailed(f"nftables shows no counter of {act}")
        rules.add_chain(network, "probe", "", {})
        delay = DISCIPLINES["delay"](rules.Settings(), random.Random(0))
        queue = PacketQueue(network, FIRST_QUEUE, delay, overtaking=False)
        try:
            queue.fill(network, "probe", "192.0.2.1")
        finally:
            queue.close()

    return in_new_network(attempt)


LINK = Half(
    request="link",
    form=Form(
        says=f"Disturbs packets from these addresses to the node. act: {', '.join(ACTS)};"
        " share_ppm: of which packets (loss, duplicate, corrupt, reorder); by_ns, jitter_ns:"
        " how long they are late (delay, reorder); byte: which byte of the data (corrupt);"
        " bytes: the largest packet that passes (mtu); rate: bits in a second (bandwidth);"
        f" answer: {' or '.join(rules.ANSWERS)} (refuse). For act=neighbour it is packets"
        " from the node to these addresses.",
        takes={
            "fault": FAULT,
            "links": ('[{"node", "from": [IPv4 addresses]}]', MISSING),
            "nodes": ("names", None),
            "act": ("a name", MISSING),
            "share_ppm": ("a whole number", rules.ALL_PPM),
            "by_ns": ("a whole number", 0),
            "jitter_ns": ("a whole number", 0),
            "byte": ("a number from 1 to 1000", 1),
            "bytes": ("a whole number", 576),
            "rate": ("a whole number", 0),
            "answer": ("a name", "reset"),
        },
    ),
    make=lambda world: world.part(Links),
)
