"""Reads `verdicts.json` into typed values, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Promises, Severity, Verdict

Span = tuple[int, int, str, int]
"""from_ns, to_ns, label, index of its witness (-1: none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One op of the history that is a witness; t_ret_ns 0: it never returned."""

    op: str
    t_inv_ns: int
    t_ret_ns: int = 0
    row: int = -1
    process: int = -1
    node: str = ""
    attempt: int = 0
    status: str = ""
    token: int = -1
    lock: str = ""
    arg: int | str = 0
    res: int | str = 0
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A finding, or a note, with its witnesses.

    cause   kind of the finding that caused it, "" if the rows do not show it
    """

    kind: str
    sentence: str
    lock: str
    t_ns: int
    witnesses: tuple[Event, ...] = ()
    spans: tuple[Span, ...] = ()
    cause: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnderKind:
    """Verdict of one property under one kind of fault, or several joined by "+".

    asked   whether the plan has the kind; promised: whether the system promises it under it
    """

    verdict: Verdict
    asked: bool = False
    promised: bool = False
    reason: str = ""
    exercised: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Verdict of one property, and whether the system promises it.

    `under` is empty in a verdicts.json of schema 1."""

    property: str
    verdict: Verdict
    promised: bool
    severity: Severity
    reason: str = ""
    exercised: Mapping[str, float] = field(default_factory=dict)
    required: bool = False
    findings: tuple[Shown, ...] = ()
    notes: tuple[Shown, ...] = ()
    under: Mapping[str, UnderKind] = field(default_factory=dict)

    def lacks(self) -> dict[str, str]:
        """Planned kinds of fault that were not exercised, with the reasons."""
        return {
            kind: one.reason
            for kind, one in self.under.items()
            if one.asked and one.verdict is Verdict.UNKNOWN
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Struck:
    """One observed fault. bit: whether it took effect; pattern: its hatching, None if not said."""

    id: str
    do: str
    from_ns: int
    to_ns: int
    bit: bool
    target: str = ""
    nodes: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    holder: str = ""
    reason: str = ""
    pattern: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """len(edges_ns) == len(counts) + 1."""

    edges_ns: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Dist:
    """A distribution of durations in ns; an empty one has only n."""

    n: int = 0
    min: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    max: float | None = None
    mean: float | None = None
    histogram: Histogram | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Outcomes of the acquires of a run."""

    asked: int = 0
    granted: int = 0
    refused: int = 0
    unknown: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """The fencing tokens in order of their grants; `log` rows: t_ns, lock, token, process."""

    grants: int = 0
    first: int | None = None
    last: int | None = None
    steps_down: int = 0
    log: tuple[tuple[int, str, int, int], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One command that the resource rejected because of its token."""

    t_ns: int
    lock: str
    process: int
    token: int
    highest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """Commands that the resource rejected; `stale` of them had an outdated token."""

    total: int = 0
    stale: int = 0
    log: tuple[Refusal, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpiredOwner:
    """Outcomes of writes that owners sent after the end of their hold."""

    sent: int = 0
    refused: int = 0
    accepted: int = 0
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failover:
    """A fault on the leader, or on servers if the leader is unknown (None).

    back_ns, gap_ns   time until the next response, until the next grant; None: never
    """

    fault: str
    kind: str
    t_ns: int
    nodes: tuple[str, ...] = ()
    leader_before: str | None = None
    leader_after: str | None = None
    term: int | None = None
    back_ns: float | None = None
    gap_ns: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseMargin:
    """The terms of M = T_L - (T_r + 2e + d_n + t_p); None if not measured."""

    lease_ns: float | None = None
    renewal_interval_ns: float | None = None
    clock_uncertainty_ns: float | None = None
    network_ns: float | None = None
    pause_ns: float | None = None
    margin_ns: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Utilisation:
    """rho = arrivals per second x mean hold; 1 or more is overload."""

    arrivals_per_s: float | None = None
    hold_mean_ns: float | None = None
    rho: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Depth:
    """Number of waiters for one lock."""

    mean: float | None = None
    max: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StaleBeliefs:
    """Clients that believed they held a lock after it was granted to another client."""

    count: int = 0
    longest_ns: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Planned (0: no fixed times) and sent acquires; latency of ok ones from both times."""

    planned: int = 0
    issued: int = 0
    from_send_ns: Dist = Dist()
    from_due_ns: Dist = Dist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowed:
    """Calls with a response, and those with kernel timestamps at both edges; the same for calls to
    the lock; why not all of these."""

    calls: int = 0
    narrowed: int = 0
    lock_calls: int = 0
    lock_narrowed: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Availability:
    """Availability of the service, as fractions from 0 to 1; None: no data.

    down_share           of the servers' time, stopped by faults
    quorum_failure       probability of losing the majority, if they fail independently
    majority_down_share  of the run's time, with half of the servers or more stopped
    unanswered_share     of the requests to the lock service, without a response
    """

    servers: int = 0
    down_share: float | None = None
    quorum_failure: float | None = None
    majority_down_share: float | None = None
    unanswered_share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The clients that reached this number of servers during a partition, and their acquires."""

    servers: int
    clients: int
    asked: int
    granted: int
    fresh: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """One partition, side by side."""

    fault: str
    sides: tuple[Side, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Partitions:
    """Behaviour during partitions: "safety", "liveness", None if not observed."""

    choice: str | None = None
    reason: str = ""
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """Number of waits that clients were notified of: total, per grant, per release."""

    requests_per_grant: float | None = None
    told: int = 0
    per_grant: float | None = None
    per_release: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallError:
    """One error of one op: number of calls and clients with it."""

    op: str
    error: str
    n: int
    clients: int
    first_ns: int
    first_process: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SerialEdge:
    """One section that had to come before another one; empty names in an older verdict."""

    before: str = ""
    after: str = ""
    says: str = ""
    lock: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Serial:
    """Whether the critical sections are serializable, in a sentence, with a shortest cycle."""

    sections: int = 0
    sentence: str = ""
    cycle: tuple[SerialEdge, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Latency breakdown of granted acquires, as reported by the service.

    apart   number of acquires of which request_ns and reply_ns are known separately
    """

    said: int
    queued: int
    way_ns: Dist
    coordination_ns: Dist
    commit_ns: Dist
    wait_ns: Dist
    apart: int = 0
    request_ns: Dist = Dist()
    reply_ns: Dist = Dist()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """The numbers that every report shows. `grants` (all of them, binned by time) is optional."""

    acquire: Asked = Asked()
    acquire_split: Split | None = None
    latency_ns: Mapping[str, Dist] = field(default_factory=dict)
    wait_ns: Dist = Dist()
    hold_ns: Dist = Dist()
    renewal_margin_ns: Dist = Dist()
    queue_depth: Depth = Depth()
    timeouts: int = 0
    retry_rate: float | None = None
    tokens: Tokens = Tokens()
    rejected: Rejected = Rejected()
    expired_owner: ExpiredOwner = ExpiredOwner()
    serialisability: Serial = Serial()
    failovers: tuple[Failover, ...] = ()
    lease_margin: LeaseMargin = LeaseMargin()
    utilisation: Utilisation = Utilisation()
    stale_beliefs: StaleBeliefs = StaleBeliefs()
    grants: Histogram | None = None
    narrowed: Narrowed = Narrowed()
    pace: Pace = Pace()
    availability: Availability = Availability()
    partitions: Partitions = Partitions()
    waits: Waits = Waits()
    errors: tuple[CallError, ...] = ()


class Outcome(StrEnum):
    """State of a run in one word."""

    HOLDS = "HOLDS"
    LIMIT = "LIMIT"
    UNKNOWN = "UNKNOWN"
    BROKEN = "VIOLATED"
    FAILED = "ENVIRONMENT"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verified:
    """Result of verifying the certificates of a run (`harness.verification`).

    bare         findings without a certificate
    properties   those of which every finding, or the legal order, was accepted
    unordered    those that hold and have no order that can be walked
    unverifiable those judged by a checker of the user, for which the verifier has no rules
    why          reason why nothing was verified
    """

    accepted: int = 0
    bare: int = 0
    why: str = ""
    properties: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    unverifiable: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A judged run. Times are ns of the run's clock; `at` makes them relative to its start."""

    run: str
    system: str
    backend: str
    workload: str
    seed: int
    verdict: Verdict
    exit_code: int
    command: str
    start_ns: int
    stop_ns: int
    end_ns: int
    schema: str = ""
    resource: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    verdicts: tuple[Judgement, ...] = ()
    faults: tuple[Struck, ...] = ()
    promises: Promises | None = None
    evidence: Evidence = Evidence()
    report: str = ""
    verified: Verified = Verified()

    def at(self, t_ns: float) -> float:
        """Nanoseconds since the start of the run."""
        return t_ns - self.start_ns

    def client(self, process: int) -> str:
        """The node of a logical client: "c3"."""
        return self.nodes.get(str(process), f"process {process}")

    def clients(self) -> int:
        """Number of clients, without the probe."""
        return sum(node != "probe" for node in self.nodes.values())

    def report_path(self) -> str:
        """Path of the run's HTML report, or its default."""
        return self.report or f".holdfast/runs/{self.run}/report.html"

    def outcome(self) -> Outcome:
        """Never better than the exit code, and never better than a broken or unknown promise."""
        if self.exit_code == 4:
            return Outcome.FAILED
        promised = [one.verdict for one in self.verdicts if one.promised]
        if Verdict.VIOLATED in promised or self.exit_code == 1:
            return Outcome.BROKEN
        if Verdict.UNKNOWN in promised or self.exit_code != 0 or not self.verdicts:
            return Outcome.UNKNOWN
        everything = [one.verdict for one in self.verdicts]
        if Verdict.VIOLATED in everything:
            return Outcome.LIMIT
        held = Verdict.HOLDS in promised or Verdict.UNKNOWN not in everything
        return Outcome.HOLDS if held else Outcome.UNKNOWN


def read(verdicts: Mapping[str, Any]) -> Judged:
    """The judged run of a `verdicts.json` object; unknown keys are ignored.

    Raises UsageError that names the invalid key.
    """
    try:
        return msgspec.convert(verdicts, type=Judged, strict=False)
    except msgspec.ValidationError as wrong:
        raise UsageError(
            f"verdicts.json: {wrong}; judge the run again (holdfast check RUN)"
        ) from wrong
