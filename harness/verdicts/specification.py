"""What a specification of a service is, and what it reads: the steps that servers recorded.

Its result is a departure (`harness.verdicts.judged`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.harness.verdicts.judged import Departure

TRACE = "trace.jsonl"
"""File in the logs of a server to which it writes its steps."""


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
