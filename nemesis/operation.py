"""Base of nemeses that do an operator's work: backup-restore, rollback, replace-member ..."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.node_fault import Usual, aimed
from holdfast.nemesis.server_fault import NO_SERVERS, PARTS
from holdfast.nemesis.targets import Unresolved, resolve

ALL = "all"
OF_OPERATORS = tuple(
    f"holdfast.nemesis.agent.{half}" for half in ("signals:KILL", "signals:PAUSE", "cuts:CUT")
)
"""The halves in the fault agent that the driver uses for an operator's work."""
OPERATOR = "holdfast.harness.driver.operations:Operator"
"""What carries it out in the driver."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OnService:
    """Implements the port `Nemesis`. Options: target, every, for, lease, and those of `known`.

    name    of the nemesis; its requests are `operate`, with the operation of its traits
    usual   default target of the n-th fault; None: all servers, and no other target
    known   its own options and their parsers
    args    parameters of a fault -> arguments of its request, besides `fault`, `nodes` and `what`
    leases  default length of a fault, in leases
    """

    name: str
    traits: Traits
    usual: Usual | None = None
    args: Callable[[Mapping[str, str]], Mapping[str, Json]] = lambda params: {}
    known: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    leases: float = 1.5
    agent: Sequence[str] = OF_OPERATORS
    operator: str = OPERATOR

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        target = options.get("target", ALL)
        if self.usual is None and target != ALL:
            raise UsageError(f"nemesis {self.name}: target={target}: it acts on all servers only")
        for part in PARTS.split(target):
            if NO_SERVERS.fullmatch(part):
                raise UsageError(
                    f"nemesis {self.name}: target {part!r} is no server: it acts on servers only"
                )
        usual = self.usual or (lambda n, rng: ALL)
        return aimed(self.name, rng, options, span_ns, self.known, usual, self.leases)

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the driver now. Errors: Unresolved (a LookupError), UsageError."""
        read.read(self.name, fault.params, self.known)
        if self.usual is None and fault.target != ALL:
            raise Unresolved(f"{fault.target}: {self.name} acts on all servers only")
        nodes = resolve(fault.target, view, rng)
        what = self.traits.operation(fault.params)
        args = {"fault": fault.id, "nodes": nodes, "what": what, **self.args(fault.params)}
        return [Request(do="operate", args=args)]
