"""Faults of a single client: on its connections, or inside its process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis.node_fault import Usual, aimed
from holdfast.nemesis.targets import resolve


def whole(text: str) -> int:
    """A count. Errors: ValueError."""
    if not text.isdigit():
        raise ValueError(f"invalid number {text!r}: expected a whole number")
    return int(text)


def draw(
    name: str,
    rng: random.Random,
    options: Mapping[str, str],
    span_ns: int,
    known: Mapping[str, Callable[[str], object]],
    usual: str = "",
) -> Sequence[Fault]:
    """Faults aimed at `usual`, else at clients and every second one at the holder. Errors:
    UsageError."""
    return aimed(name, rng, options, span_ns, known, in_turn_of(usual), 0.5)


def in_turn_of(usual: str) -> Usual:
    """The given target, or for "" a client and the holder in turn."""
    return lambda n, rng: usual or ("holder" if n % 2 else "client")


@dataclass(frozen=True, kw_only=True, slots=True)
class OnTheWire:
    """Implements the port `Nemesis`. Options: target, every, for, count, by, after."""

    name: str
    traits: Traits
    known: Mapping[str, Callable[[str], object]] = field(
        default_factory=lambda: {"count": whole, "by": duration_ns, "after": whole}
    )
    agent: Sequence[str] = ("holdfast.nemesis.agent.client_proxy:DISTURB",)

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        return draw(self.name, rng, options, span_ns, self.known)

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError)."""
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "what": self.name,
            "count": int(fault.params.get("count", "1")),
            "by_ns": duration_ns(fault.params.get("by", "200ms")),
            "after": int(fault.params.get("after", "0")),
        }
        return [Request(do="disturb", args=args)]


@dataclass(frozen=True, kw_only=True, slots=True)
class InTheProcess:
    """Implements the port `Nemesis`, for faults that a client's own process executes on request.

    Options: target, every, for, count, after. usual: the default target.
    """

    name: str
    traits: Traits
    usual: str = ""
    known: Mapping[str, Callable[[str], object]] = field(
        default_factory=lambda: {"count": whole, "after": duration_ns}
    )
    agent: Sequence[str] = ()

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        return draw(self.name, rng, options, span_ns, self.known, self.usual)

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Orders to the clients now. Errors: Unresolved (a LookupError)."""
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "what": self.name,
            "count": int(fault.params.get("count", "1")),
            "after_ns": duration_ns(fault.params.get("after", "1ms")),
            "for_ns": fault.for_ns,
            "how": fault.params.get("how", ""),
        }
        return [Request(do="order", args=args)]
