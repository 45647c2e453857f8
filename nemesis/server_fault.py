"""Base of nemeses that act on servers only: power, disk-hang, sync-lie, cpu-quota ..."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.node_fault import Usual, aimed
from holdfast.nemesis.targets import resolve

NO_SERVERS = re.compile(r"holder|waiter|clients?|resource|probe|c\d+")
PARTS = re.compile(r"[|+/]")


@dataclass(frozen=True, kw_only=True, slots=True)
class OnServers:
    """Implements the port `Nemesis`. Options: target, every, for, lease, and those of `known`.

    name    of the nemesis and of its request
    usual   default target of the n-th fault
    agent   its half in the fault agent: entries of `nemesis.agent.halves.Half`
    known   its own options and their parsers
    args    parameters of a fault -> arguments of its request, besides `fault` and `nodes`
    leases  default length of a fault, in leases
    straddles   by default its lengths straddle a lease instead
    """

    name: str
    usual: Usual
    traits: Traits
    agent: Sequence[str]
    known: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    args: Callable[[Mapping[str, str]], Mapping[str, Json]] = lambda params: {}
    leases: float = 1.5
    straddles: bool = False

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        for part in PARTS.split(options.get("target", "")):
            if NO_SERVERS.fullmatch(part):
                raise UsageError(
                    f"nemesis {self.name}: target {part!r} is no server: it acts on servers only"
                )
        return aimed(
            self.name, rng, options, span_ns, self.known, self.usual, self.leases, self.straddles
        )

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read(self.name, fault.params, self.known)
        nodes = resolve(fault.target, view, rng)
        args = {"fault": fault.id, "nodes": nodes, **self.args(fault.params)}
        return [Request(do=self.name, args=args)]
