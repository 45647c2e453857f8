"""Options of the reference service: accepted strings and typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.clusters.systems.reference.locks.admission import ORDERS

MILLISECOND = 1_000_000

TRACED: dict[str, str] = {
    "trace": "yes or no (default): each server writes its steps to logs/SERVER/trace.jsonl; judging"
    " validates them against the specification",
}
KNOWN: dict[str, str] = {
    "queue": "order of grants: fifo (default); racing: first request after a release; priority:"
    " highest priority, with ageing of overtaken waiters",
    "election_ms": "election timeout in ms, 50 to 10000 (default: 400); randomized up to twice",
    "session_ms": "session timeout in ms; 0 (default): leases only. Clients send heartbeats and"
    " lose all their locks after this time without one",
    "delay_ms": "lock-delay in ms; 0 (default): none. Time without a grant after the end of the"
    " holder's session or lease",
    "snapshot_every": "log entries between two snapshots, 2 to 1000000 (default: 4000)",
    "owner": "client id shared by all clients (default: one id per client)",
    "mutant": "name of a planted bug (default: none)",
    **TRACED,
}
"""option -> its values and what it does"""

_RANGES = {
    "election_ms": (50, 10_000),
    "session_ms": (0, 3_600_000),
    "delay_ms": (0, 3_600_000),
    "snapshot_every": (2, 1_000_000),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceOptions:
    """The options as values; KNOWN has their meaning."""

    queue: str = "fifo"
    election_ns: int = 400 * MILLISECOND
    session_ns: int = 0
    delay_ns: int = 0
    snapshot_every: int = 4000
    mutant: str = ""

    @property
    def heartbeat_ns(self) -> int:
        """Interval of a leader's heartbeats."""
        return self.election_ns // 3


def read(given: Mapping[str, str]) -> tuple[ReferenceOptions, list[str]]:
    """The options, and one line per invalid value; names not in KNOWN are ignored."""
    wrong = []
    queue = given.get("queue", "fifo")
    if queue not in ORDERS:
        wrong.append(f"invalid option queue={queue}: expected fifo, racing or priority")
    numbers = {}
    for name, (low, high) in _RANGES.items():
        if name not in given:
            continue
        text = given[name]
        if text.isdecimal() and low <= int(text) <= high:
            numbers[name] = int(text)
        else:
            wrong.append(f"invalid option {name}={text}: expected a whole number, {low} to {high}")
    default = ReferenceOptions()
    options = ReferenceOptions(
        queue=queue,
        election_ns=numbers.get("election_ms", default.election_ns // MILLISECOND) * MILLISECOND,
        session_ns=numbers.get("session_ms", 0) * MILLISECOND,
        delay_ns=numbers.get("delay_ms", 0) * MILLISECOND,
        snapshot_every=numbers.get("snapshot_every", default.snapshot_every),
        mutant=given.get("mutant", ""),
    )
    return options, wrong
