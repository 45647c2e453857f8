"""The clocks of a node: a monotonic one that drifts, and a wall clock that faults move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSkew:
    """How one fault moves a wall clock from `since_ns` (true time) on.

    strobe_ns   0: all the time; else the step comes and goes every so often
    """

    since_ns: int
    step_ns: int
    ppm: int
    strobe_ns: int

    def offset_ns(self, true_ns: int) -> int:
        """By how much it is ahead now."""
        passed_ns = true_ns - self.since_ns
        if self.strobe_ns and passed_ns // self.strobe_ns % 2:
            return 0
        return self.step_ns + passed_ns * self.ppm // MILLION


class NodeClock:
    """Outlives the boots of its node.

    offset_ns   what the monotonic clock shows at true time 0
    drift_ppm   by how many parts per million it is fast
    rate        its parts per million of true time; whoever asks often counts with both itself
    """

    def __init__(self, offset_ns: int, drift_ppm: int) -> None:
        self.offset_ns = offset_ns
        self.rate = MILLION + drift_ppm
        self._exact = drift_ppm == 0
        self._behind_ns = 0
        self._skews: dict[str, NodeSkew] = {}

    def mono_ns(self, true_ns: int) -> int:
        """The monotonic clock at a true time."""
        return true_ns * self.rate // MILLION + self.offset_ns

    def true_ns(self, mono_ns: int) -> int:
        """The first true time at which the monotonic clock shows so much."""
        if self._exact:
            return mono_ns - self.offset_ns
        return -((self.offset_ns - mono_ns) * MILLION // self.rate)

    def wall_ns(self, true_ns: int) -> int:
        """The wall clock at a true time: the monotonic one without its standstills, moved by the
        active faults."""
        moved = sum(skew.offset_ns(true_ns) for skew in self._skews.values())
        return self.mono_ns(true_ns) + self._behind_ns + moved

    def stood_still(self, for_ns: int) -> None:
        """The monotonic clock stood still for so much of its own time, the wall clock did not."""
        self.offset_ns -= for_ns
        self._behind_ns += for_ns

    def skew(self, fault: str, skew: NodeSkew) -> None:
        """A fault begins to move the wall clock."""
        self._skews[fault] = skew

    def restore(self, fault: str) -> None:
        """A fault's part is taken off the wall clock."""
        self._skews.pop(fault, None)

    def skews(self) -> Mapping[str, NodeSkew]:
        """The active faults."""
        return self._skews
