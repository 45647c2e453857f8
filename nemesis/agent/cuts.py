"""Network cuts: drops packets from some addresses to a node, and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence, FaultClaims
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, Form

Link = tuple[str, str]
"""(receiving node, source address that is dropped)"""


class Cuts:
    """Faults of kind `cut`. Each counts dropped packets on its own links during its own time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[Link] = FaultClaims()
        self._before: dict[str, Counter[Link]] = {}
        self._carried: Counter[Link] = Counter()

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Cuts `links`: [{"node": name, "from": [addresses]}]. Errors: Refused, NetworkFailed."""
        links = [(link["node"], source) for link in args["links"] for source in link["from"]]
        nodes = _nodes(links)
        for node in nodes:
            self._world.cuttable(node)
        shared = [link for link in links if link in self._claims.claimed()]
        self._before[fault] = self._totals(shared) if shared else Counter()
        for link in links:
            self._before[fault].setdefault(link, self._carried[link])
        self._claims.claim(fault, links)
        for node in nodes:
            self.settle(node)
        return {"effective": False, "cut": len(links)}

    def observe(self, fault: str) -> Evidence:
        """Number of packets dropped so far; effective if there was one."""
        return self._evidence(fault, self._claims.of(fault))

    def heal(self, fault: str) -> Evidence:
        """Restores links that no other fault cuts."""
        links = self._claims.release(fault)
        for node in _nodes(links):
            self.settle(node)
        evidence = self._evidence(fault, links)
        self._before.pop(fault, None)
        return evidence

    def settle(self, node: str) -> None:
        """Makes the node's packet filter drop exactly the claimed addresses."""
        wanted = {source for name, source in self._claims.claimed() if name == node}
        door = self._world.cuttable(node) if wanted else self._world.door(node)
        if door is None:
            return
        stale = door.dropping - wanted
        if stale:
            self._carry(node, stale)
            door.admit(sorted(stale))
        door.drop(sorted(wanted - door.dropping))

    def leave(self, node: str) -> None:
        """Saves the counts of a node whose network is about to be replaced."""
        if node in self._world.nodes and any(name == node for name, _ in self._claims.claimed()):
            self._carry(node, self._world.cuttable(node).dropping)

    def _carry(self, node: str, sources: Iterable[str]) -> None:
        counts = self._world.cuttable(node).counts()
        for source in sources:
            self._carried[node, source] += counts.get(source, 0)

    def _totals(self, links: Iterable[Link]) -> Counter[Link]:
        links = list(links)
        counts = {node: self._world.cuttable(node).counts() for node in _nodes(links)}
        return Counter(
            {link: self._carried[link] + counts[link[0]].get(link[1], 0) for link in links}
        )

    def _evidence(self, fault: str, links: Iterable[Link]) -> Evidence:
        before = self._before.get(fault, Counter())
        dropped = {
            f"{node}<-{source}": total - before[node, source]
            for (node, source), total in self._totals(links).items()
        }
        stopped = sum(dropped.values())
        return {"effective": stopped > 0, "dropped": stopped, "links": dropped}


def _nodes(links: Iterable[Link]) -> list[str]:
    return list(dict.fromkeys(node for node, _ in links))


CUT = Half(
    request="cut",
    form=Form(
        says="Drops packets from these addresses to the node. `nodes` is for the record.",
        takes={
            "fault": FAULT,
            "links": ('[{"node", "from": [IPv4 addresses]}]', MISSING),
            "nodes": ("names", None),
        },
    ),
    make=lambda world: world.part(Cuts),
)
