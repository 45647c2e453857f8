"""Proven bounds on the clocks of other hosts, relative to the driver's clock (clock skew).

One request and its response bracket a timestamp of the host between two timestamps of the driver,
so the difference of both clocks is known within that round trip. Between two such samples it can
have changed by `most_ppm` at most, which is the only assumption; samples that contradict it are
detected. A host's timestamp therefore becomes an interval of the driver's clock: earliest and
latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs import directory, files

FILE = "clocks.jsonl"
MOST_PPM = 1000
"""Maximum relative drift of two hosts' clocks: five times that of a bad crystal."""
FITTED = 4
"""Number of parts of the samples; the narrowest of each part is used to estimate the drift."""

Stamps = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The host's clock showed `host_ns` between `sent_ns` and `received_ns` of the driver's."""

    sent_ns: int
    host_ns: int
    received_ns: int


class HostClock:
    """The clock of one host relative to the driver's, by its samples.

    contradicted   the samples fit no clock that drifts by `most_ppm` at most (it stepped); every
                   timestamp is then as uncertain as all samples together
    """

    def __init__(self, samples: Sequence[Sample], most_ppm: int = MOST_PPM) -> None:
        if not samples:
            raise UsageError("the clock of a host was never measured")
        ordered = sorted(samples, key=lambda sample: sample.host_ns)
        self._at: Stamps = np.array([s.host_ns for s in ordered], np.int64)
        self._low: Stamps = np.array([s.sent_ns - s.host_ns for s in ordered], np.int64)
        self._high: Stamps = np.array([s.received_ns - s.host_ns for s in ordered], np.int64)
        self._ppm = most_ppm
        low, high = self._narrowed()
        self.contradicted = bool((low > high).any())
        if self.contradicted:
            low = np.full_like(low, self._low.min())
            high = np.full_like(high, self._high.max())
        self._low, self._high = low, high

    def earliest(self, stamps: Stamps) -> Stamps:
        """The earliest time of the driver's clock at which each timestamp can have been taken."""
        left, right = self._around(stamps)
        lows = [self._low[n] - self._drift(stamps - self._at[n]) for n in (left, right)]
        offsets = self._low[left] if self.contradicted else np.maximum(*lows)
        return stamps + offsets

    def latest(self, stamps: Stamps) -> Stamps:
        """The latest time of the driver's clock at which each timestamp can have been taken."""
        left, right = self._around(stamps)
        highs = [self._high[n] + self._drift(stamps - self._at[n]) for n in (left, right)]
        offsets = self._high[left] if self.contradicted else np.minimum(*highs)
        return stamps + offsets

    def error_ns(self, stamps: Stamps) -> int:
        """The largest half width of these timestamps; of the samples if there are none."""
        seen = stamps if len(stamps) else self._at
        return int((self.latest(seen) - self.earliest(seen)).max() + 1) // 2

    def summary(self, stamps: Stamps) -> ClockSummary:
        """For reports and verdicts: offset at the end, drift over the run, bound, samples."""
        middle = (self._low + self._high) // 2
        return ClockSummary(
            offset_ns=int(middle[-1]),
            drift_ppm=self._slope(middle),
            error_ns=self.error_ns(stamps),
            samples=len(self._at),
            contradicted=self.contradicted,
        )

    def _slope(self, middle: Stamps) -> float:
        """Rate of the host's clock relative to the driver's, ppm, by least squares over the
        narrowest samples; 0 if there are too few."""
        parts = [p for p in np.array_split(np.arange(len(middle)), FITTED) if len(p)]
        best = [int(p[np.argmin((self._high - self._low)[p])]) for p in parts]
        at = (self._at[best] - self._at[0]).astype(float)
        if len(best) < 2 or at[-1] == at[0]:
            return 0.0
        slope = np.polyfit(at - at.mean(), (middle[best] - middle[0]).astype(float), 1)[0]
        return round(float(-slope) * 1e6, 1)

    def _narrowed(self) -> tuple[Stamps, Stamps]:
        """Each sample's bounds, narrowed by those of all other samples at that time."""
        # A sample's bounds hold at any other time too, widened by the drift in between. Bounds [0,
        # 9] at 0 s and [4, 5] at 1 s, drift 2 per s: the first becomes [2, 7].
        moved = self._drift(self._at - self._at[0])
        low = np.maximum(
            np.maximum.accumulate(self._low + moved) - moved,
            np.maximum.accumulate((self._low - moved)[::-1])[::-1] + moved,
        )
        high = np.minimum(
            np.minimum.accumulate(self._high - moved) + moved,
            np.minimum.accumulate((self._high + moved)[::-1])[::-1] - moved,
        )
        return low, high

    def _drift(self, span: Stamps) -> Stamps:
        """Maximum drift of the clocks in a span; rounded up, twice."""
        return (np.abs(span) * self._ppm + 999_999) // 1_000_000 + 2

    def _around(self, stamps: Stamps) -> tuple[Stamps, Stamps]:
        right = np.searchsorted(self._at, stamps).clip(0, len(self._at) - 1)
        return np.maximum(right - 1, 0), right


@dataclass(frozen=True, kw_only=True, slots=True)
class HostClocks:
    """The clocks of all hosts of a run.

    asked_ns   the bound that the user requests
    most_ppm   the drift that the bounds assume
    hosts      host -> the nodes on it
    clocks     host -> its clock; a host that never responded has none
    seen_ns    host -> host timestamp before which all rows of its writers have arrived
    whole      hosts from which everything has arrived
    """

    asked_ns: int
    most_ppm: int
    hosts: Mapping[str, Sequence[str]]
    clocks: Mapping[str, HostClock]
    seen_ns: Mapping[str, int]
    whole: frozenset[str] = field(default=frozenset())

    def of_node(self, node: str) -> tuple[str, HostClock]:
        """The host of a node, and its clock. UsageError if it is unknown."""
        host = next((name for name, nodes in self.hosts.items() if node in nodes), "")
        if host not in self.clocks:
            raise UsageError(f"{FILE}: no clock data of the host of {node}")
        return host, self.clocks[host]

    def cut_ns(self) -> int | None:
        """Time of the driver's clock up to which every host's rows are present; None: all are."""
        ends = [
            int(self.clocks[host].earliest(np.array([at], np.int64))[0])
            for host, at in self.seen_ns.items()
            if host not in self.whole
        ]
        return min(ends, default=None)

    def problems(self, errors: Mapping[str, int]) -> list[str]:
        """Why these clocks do not suffice. errors: host -> proven error of its timestamps."""
        reasons = []
        for host, error_ns in errors.items():
            if self.clocks[host].contradicted:
                reasons.append(
                    f"the clock of host {host} moved by more than {self.most_ppm} ppm against the"
                    " driver's: it stepped, or the machine was suspended"
                )
            if error_ns > self.asked_ns:
                reasons.append(
                    f"the clock of host {host} has an error of up to {error_ns / 1e6:.3g} ms, and"
                    f" the limit is {self.asked_ns / 1e6:.3g} ms (clock_bound)"
                )
        missing = [host for host in self.seen_ns if host not in self.whole]
        if missing:
            reasons.append(
                f"incomplete records from {', '.join(missing)}: the history is judged up"
                " to the last time that all hosts' records cover"
            )
        return reasons


def read(path: Path) -> HostClocks | None:
    """The clocks of a run as its driver recorded them; None for a run on one clock."""
    with files.shaped(path):
        return _read(directory.read_lines(path, files.row))


def _read(rows: Iterator[Mapping[str, Any]]) -> HostClocks | None:
    head = next(rows, None)
    if head is None:
        return None
    samples: dict[str, list[Sample]] = {}
    seen: dict[str, int] = {}
    whole: set[str] = set()
    for row in rows:
        host = row["host"]
        if "whole" in row:
            whole.add(host)
            continue
        keys = ("sent_ns", "host_ns", "received_ns")
        samples.setdefault(host, []).append(Sample(**{key: int(row[key]) for key in keys}))
        seen[host] = max(seen.get(host, 0), int(row["host_ns"]))
    return HostClocks(
        asked_ns=int(head["asked_ns"]),
        most_ppm=int(head["most_ppm"]),
        hosts=head["hosts"],
        clocks={host: HostClock(each, int(head["most_ppm"])) for host, each in samples.items()},
        seen_ns=seen,
        whole=frozenset(whole),
    )


def begin(path: Path, *, asked_ns: int, hosts: Mapping[str, Iterable[str]]) -> None:
    """Write the first line: requested bound, assumed drift, and the nodes of each host."""
    table = {host: list(nodes) for host, nodes in hosts.items()}
    directory.append(path, {"asked_ns": asked_ns, "most_ppm": MOST_PPM, "hosts": table})
