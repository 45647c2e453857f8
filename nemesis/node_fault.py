"""Base of nemeses that act on whole nodes: kill, pause, freeze, syscall."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.harness.core.fault_traits import IN_TURN, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots

Usual = Callable[[int, random.Random], str]


def aimed(
    name: str,
    rng: random.Random,
    options: Mapping[str, str],
    span_ns: int,
    known: Mapping[str, Callable[[str], object]],
    usual: Usual,
    leases: float = 1.5,
    straddles: bool = False,
) -> list[Fault]:
    """Faults of one kind for a run of `span_ns`, with its own options as parameters. Errors:
    UsageError.

    known       its own options and their parsers
    straddles   its lengths straddle a lease (`timetable.slots`)
    """
    read.read(name, options, {"target": str, **known, **TIMING})
    params = {key: options[key] for key in known if key in options}
    given = options["target"].split(IN_TURN) if options.get("target") else []
    return [
        Fault(
            id=f"{name}-{n + 1}",
            do=name,
            target=given[n % len(given)] if given else usual(n, rng),
            at_ns=at_ns,
            for_ns=for_ns,
            params=params,
        )
        for n, (at_ns, for_ns) in enumerate(
            slots(name, rng, options, span_ns, leases=leases, straddles=straddles)
        )
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Aimed:
    """Implements the port `Nemesis`. Options: target, every, for, lease.

    name    of the nemesis and of its request
    usual   default target of the n-th fault
    traits  what it does
    agent   its half in the fault agent: entries of `nemesis.agent.halves.Half`
    leases  default length of a fault, in leases
    straddles   by default its lengths straddle a lease instead
    """

    name: str
    usual: Usual
    traits: Traits
    agent: Sequence[str]
    leases: float = 1.5
    straddles: bool = False

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        return aimed(self.name, rng, options, span_ns, {}, self.usual, self.leases, self.straddles)

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do=self.name, args={"fault": fault.id, "nodes": nodes})]


def in_turn(first: Sequence[str], later: Sequence[str]) -> Usual:
    """The targets of `first` in their order, then any of `later`."""
    return lambda n, rng: first[n] if n < len(first) else rng.choice(later)
