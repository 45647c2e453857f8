"""Base of nemeses that act on the links between nodes: slow-links, packet-loss, zero-window ..."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.options import one_of
from holdfast.nemesis.targets import Unresolved, clients, resolve, servers, unknown_parts
from holdfast.nemesis.timetable import TIMING, slots

WAYS = ("in", "out", "both")
FIRST = ("leader|one", "holder")
SHARE = re.compile(r"[0-9]+(?:\.[0-9]+)?%?")
RATE = re.compile(r"([0-9]+)(kbit|mbit|bit)")
BITS = {"bit": 1, "kbit": 1000, "mbit": 1_000_000}

Pairs = list[tuple[str, str]]
"""(receiving node, sending node)"""


def role(text: str) -> str:
    """A target. Errors: ValueError."""
    wrong = unknown_parts(text)
    if wrong:
        raise ValueError("; ".join(wrong))
    return text


def share_ppm(text: str) -> int:
    """Parts per million of a share such as "0.3" or "30%". Errors: ValueError."""
    share = Fraction(-1)
    if SHARE.fullmatch(text):
        share = Fraction(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    if not 0 < share <= 1:
        raise ValueError(f"invalid share {text!r}: expected > 0 to 1, such as 0.3, or 30%")
    return int(share * 1_000_000)


def rate_bits(text: str) -> int:
    """Bits in a second of a rate such as "64kbit". Errors: ValueError."""
    found = RATE.fullmatch(text)
    if not found or not int(found[1]):
        raise ValueError(f"invalid rate {text!r}: expected a number with bit, kbit or mbit, > 0")
    return int(found[1]) * BITS[found[2]]


def late_ns(text: str) -> int:
    """A duration that is not negative. Errors: ValueError, UsageError."""
    if duration_ns(text) < 0:
        raise ValueError(f"invalid duration {text!r}: expected >= 0s")
    return duration_ns(text)


def from_one(most: int) -> Callable[[str], int]:
    """A parser of a whole number from 1 to `most`. Its errors: ValueError."""

    def reader(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise ValueError(f"invalid number {text!r}: expected 1 to {most}")
        return int(text)

    return reader


PARAMS: Mapping[str, Callable[[str], object]] = {"peer": role, "way": one_of(*WAYS)}
"""Options of every fault of links: the other ends, and the direction as seen from the target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OnLinks:
    """Implements the port `Nemesis`. Options: target, peer, way, every, for, lease, and `known`.

    name      of the nemesis
    act       of its request to the fault agent
    known     its own options and their parsers
    defaults  options of the nemesis -> its own options that are not given
    args      parameters of a fault -> arguments of its request
    at_sender  it acts where packets are sent, not where they are received
    """

    name: str
    act: str
    traits: Traits
    known: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    defaults: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda options: {}
    args: Callable[[Mapping[str, str]], Mapping[str, Json]] = lambda params: {}
    at_sender: bool = False
    agent: Sequence[str] = ("holdfast.nemesis.agent.links.link_faults:LINK",)

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read(self.name, options, {"target": str, **PARAMS, **self.known, **TIMING})
        given = {key: options[key] for key in ("peer", *self.known) if key in options}
        own = {**self.defaults(options), **given}
        faults = []
        for n, (at_ns, for_ns) in enumerate(slots(self.name, rng, options, span_ns)):
            way = rng.choice(WAYS)
            faults.append(
                Fault(
                    id=f"{self.name}-{n + 1}",
                    do=self.name,
                    target=options.get("target") or (FIRST[n] if n < len(FIRST) else "one"),
                    at_ns=at_ns,
                    for_ns=for_ns,
                    params={**own, "way": options.get("way", way)},
                )
            )
        return faults

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read(self.name, fault.params, {**PARAMS, **self.known})
        nodes = resolve(fault.target, view, rng)
        pairs = _pairs(nodes, fault, view, rng)
        if self.at_sender:
            pairs = [(sender, receiver) for receiver, sender in pairs]
        address = {node.name: node.address for node in view.nodes}
        links: dict[str, list[str]] = {}
        for node, other in dict.fromkeys(pairs):
            links.setdefault(node, []).append(address[other])
        args = {
            "fault": fault.id,
            "nodes": nodes,
            "links": [{"node": node, "from": others} for node, others in links.items()],
            "act": self.act,
            **self.args(fault.params),
        }
        return [Request(do="link", args=args)]


def _pairs(nodes: Sequence[str], fault: Fault, view: View, rng: random.Random) -> Pairs:
    """The directed links of a fault. Errors: Unresolved."""
    if "peer" in fault.params:
        others = [name for name in resolve(fault.params["peer"], view, rng) if name not in nodes]
    elif not view.peers and all(node in servers(view) for node in nodes):
        others = clients(view)
    else:
        others = [name for name in servers(view) if name not in nodes]
    if not others:
        raise Unresolved(f"{fault.target}: {'+'.join(nodes)} has links to no other server")
    way = fault.params.get("way", "both")
    received = [(node, one) for node in nodes for one in others] if way != "out" else []
    sent = [(one, node) for one in others for node in nodes] if way != "in" else []
    return received + sent
