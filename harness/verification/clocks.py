"""The clocks of the hosts of a run, from clocks.jsonl: every timestamp as an interval of one clock.

A request and its response bracket a host's timestamp between two timestamps of the driver; in
between, both clocks drift apart by `most_ppm` at most. Implemented independently from
docs/decisions, in integers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from itertools import accumulate
from typing import Any

Sample = tuple[int, int, int]
"""host_ns, the least and the most by which the driver's clock was ahead of it then"""


class HostClock:
    """One host's clock. error_ns: half the widest interval of a timestamp so far."""

    def __init__(self, samples: Sequence[Sample], most_ppm: int) -> None:
        ordered = sorted(samples, key=lambda sample: sample[0])
        self._at = [at for at, _, _ in ordered]
        self._ppm = most_ppm
        moved = [self._drift(at - self._at[0]) for at in self._at]
        low, high = [low for _, low, _ in ordered], [high for _, _, high in ordered]
        self._low = _tightest(low, moved, max, -1)
        self._high = _tightest(high, moved, min, 1)
        self._stepped = any(a > b for a, b in zip(self._low, self._high, strict=True))
        if self._stepped:
            self._low, self._high = [min(low)] * len(low), [max(high)] * len(high)
        self._widest, self._of_samples = -1, 0
        for at in self._at:
            self.interval(at)
        self._of_samples, self._widest = self._widest, -1

    @property
    def error_ns(self) -> int:
        return ((self._widest if self._widest >= 0 else self._of_samples) + 1) // 2

    def interval(self, stamp: int) -> tuple[int, int]:
        """The earliest and the latest time of the driver's clock that it can have been."""
        right = min(bisect_left(self._at, stamp), len(self._at) - 1)
        left = max(right - 1, 0)
        low, high = self._low[left], self._high[left]
        if not self._stepped:
            drift = [self._drift(stamp - self._at[n]) for n in (left, right)]
            low = max(self._low[left] - drift[0], self._low[right] - drift[1])
            high = min(self._high[left] + drift[0], self._high[right] + drift[1])
        self._widest = max(self._widest, high - low)
        return stamp + low, stamp + high

    def _drift(self, span: int) -> int:
        return (abs(span) * self._ppm + 999_999) // 1_000_000 + 2


def _tightest(
    own: Sequence[int], moved: Sequence[int], best: Callable[[int, int], int], sign: int
) -> list[int]:
    """Each sample's bound, narrowed by the samples before and after."""
    before = accumulate((o - sign * m for o, m in zip(own, moved, strict=True)), best)
    after = accumulate((o + sign * m for o, m in zip(own[::-1], moved[::-1], strict=True)), best)
    return [
        best(a + sign * m, b - sign * m)
        for a, b, m in zip(before, list(after)[::-1], moved, strict=True)
    ]


class Clocks:
    """All hosts of a run. `whole`: all rows of every host are present."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        head, *timed = rows
        samples: dict[str, list[Sample]] = {}
        whole = {row["host"] for row in timed if "whole" in row}
        for row in timed:
            if "whole" not in row:
                at = int(row["host_ns"])
                one = (at, int(row["sent_ns"]) - at, int(row["received_ns"]) - at)
                samples.setdefault(row["host"], []).append(one)
        self._of_node = {node: host for host, nodes in head["hosts"].items() for node in nodes}
        self._hosts = {host: HostClock(of, int(head["most_ppm"])) for host, of in samples.items()}
        self.whole = whole >= set(samples)

    def widen(self, node: str, inv: MutableSequence[int], ret: MutableSequence[int]) -> None:
        """Make calls as early, and returns as late, as they can have been. Changes both lists."""
        clock = self._hosts[self._of_node[node]]
        for at, (called, returned) in enumerate(zip(inv, ret, strict=True)):
            if called:
                inv[at] = clock.interval(called)[0]
                ret[at] = clock.interval(returned)[1] if returned else 0

    def span(self, node: str, from_ns: int, to_ns: int) -> tuple[int, int]:
        """A span of a host's clock, as wide as it can have been on the driver's."""
        clock = self._hosts[self._of_node[node]]
        return clock.interval(from_ns)[0], clock.interval(to_ns)[1]

    @property
    def error_ns(self) -> int:
        """The largest error of a timestamp, once all have been widened."""
        return max((clock.error_ns for clock in self._hosts.values()), default=0)
