"""A departure: the first step of a service that its specification does not allow.

It is a finding about the implementation, never about what clients were answered: no verdict counts
it, and a run with one may have kept every promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

TRACE = "trace.jsonl"
"""File in the logs of a server to which it writes its steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """node, t_ns: which step, on the run's clock. rule: the rule it breaks, in a few words.

    before     the state before the step
    allows     what the specification allows in that state; happened: what the node did
    began      number of the event that set what the step goes by, such as the end of a lease; -1:
               none is known
    early_ns   by how much the step comes before that time; 0: it does not
    set_by     what was done in the event `began`, "" without one
    """

    node: str
    t_ns: int
    rule: str
    before: str
    allows: str
    happened: str
    began: int = -1
    early_ns: int = 0
    set_by: str = ""

    @property
    def sentence(self) -> str:
        """The finding in one line."""
        return f"{self.node} at {self.t_ns / 1e9:.6f} s: {self.rule}: {self.happened}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """The steps that the servers of a run recorded, validated.

    steps       how many were compared with the specification, up to a departure
    departure   the first that it does not allow, None for none
    why         why not all steps were compared, "" if all were
    """

    steps: int = 0
    departure: Departure | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """The end of a simulated run, after all its faults.

    from_ns   from then on no fault was in force, and every server reached every other
    trip_ns   the most that a message between two servers takes, from the moment at which it is due
              until its receiver has handled it
    loss      share of these messages that are lost, 0 to 1
    """

    from_ns: int
    trip_ns: int
    loss: float = 0.0


class TraceEvent(Protocol):
    """An event of a trace. t_ns: when, on the run's clock."""

    @property
    def t_ns(self) -> int: ...


class Unreadable(Exception):
    """What follows in a trace is not known; why, in a few words."""


class Specification(Protocol):
    """Whether a trace is one of the specified service: its first departure, None for none.

    settled   the end of the run, for rules about it; None: it is unknown, or some fault remained
    """

    def __call__(
        self,
        events: Iterable[object],
        *,
        nodes: int,
        options: Mapping[str, str],
        settled: Settled | None = None,
    ) -> Departure | None: ...
