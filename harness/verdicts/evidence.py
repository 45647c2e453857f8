"""The evidence of a run: the numbers that every report shows, as `checkers/evidence` measures them.

Durations and times are ns, shares fractions from 0 to 1, None where a run has no such number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.harness.verdicts.call_evidence import CallError, Narrowed

Number = int | float
"""A number as it was written: 5 stays 5, and is not read as 5.0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """len(edges_ns) == len(counts) + 1."""

    edges_ns: tuple[Number, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Dist:
    """A distribution of durations in ns; an empty one has only n."""

    n: int = 0
    min: Number | None = None
    p50: Number | None = None
    p90: Number | None = None
    p99: Number | None = None
    max: Number | None = None
    mean: Number | None = None
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
    """Outcomes of writes that arrived after their owner's hold had certainly ended.

    rate   the share that was accepted, with its 95% confidence interval, if writes are independent
    """

    sent: int = 0
    refused: int = 0
    accepted: int = 0
    rate: Number | None = None
    rate_low: Number = 0
    rate_high: Number = 1
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failover:
    """A fault that took effect on the leader, or on servers if the leader is unknown (None).

    leader_before   leader when the fault began, if its target depended on who leads or the backend
                    notes elections; term: its term
    leader_after    leader at the first grant after the beginning of the fault if the backend notes
                    elections, else when the next such fault began; term_after: its term
    back_ns         until a request that was sent after the beginning of the fault returned ok
    gap_ns          until the first grant; a held lock is not granted before it is free; None: never
    """

    fault: str
    kind: str
    nodes: tuple[str, ...] = ()
    t_ns: int
    leader_before: str | None = None
    leader_after: str | None = None
    term: int | None = None
    term_after: int | None = None
    back_ns: Number | None = None
    gap_ns: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseMargin:
    """The terms of M = T_L - (T_r + 2e + d_n + t_p); None if not measured."""

    lease_ns: Number | None = None
    renewal_interval_ns: Number | None = None
    clock_uncertainty_ns: Number | None = None
    network_ns: Number | None = None
    pause_ns: Number | None = None
    margin_ns: Number | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Utilisation:
    """rho = arrivals per second x mean hold; 1 or more is overload."""

    arrivals_per_s: Number | None = None
    hold_mean_ns: Number | None = None
    rho: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Depth:
    """Number of waiters for one lock."""

    mean: Number | None = None
    max: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StaleBeliefs:
    """Clients that believed they held a lock after it was granted to another client."""

    count: int = 0
    longest_ns: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Planned (0: no fixed times) and sent acquires; latency of ok ones from both times."""

    planned: int = 0
    issued: int = 0
    from_send_ns: Dist = Dist()
    from_due_ns: Dist = Dist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Availability:
    """Availability of the service, as fractions from 0 to 1; None: no data.

    down_share           of the servers' time, stopped by faults
    quorum_failure       probability of losing the majority, if they fail independently
    majority_down_share  of the run's time, with half of the servers or more stopped
    unanswered_share     of the requests to the lock service, without a response
    """

    servers: int = 0
    down_share: Number | None = None
    quorum_failure: Number | None = None
    majority_down_share: Number | None = None
    unanswered_share: Number | None = None


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
    """Requests to the lock service, and its responses that a client still waits.

    clients   those that requested locks
    requests  calls of all kinds; each is a request and a response
    told      responses that a client still waits: in total, per grant and per release; of a client
              that polls each is a rejected poll, a wasted message and wake-up; a queue sends one
              per waiter
    Messages between servers are not in a history.
    """

    clients: int = 0
    requests: int = 0
    requests_per_grant: Number | None = None
    told: int = 0
    per_grant: Number | None = None
    per_release: Number | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForcedOrder:
    """`before` had to come before `after`: kind "ww", "wr" or "rw", by two requests to one lock's
    data; rows of the history, versions of the resource.

    before, after   the sections, by client and token; `says`: what joins them. Empty in an older
                    verdict
    """

    kind: str
    lock: str
    before: str = ""
    after: str = ""
    says: str = ""
    before_row: int
    after_row: int
    before_version: int
    after_version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Serial:
    """Whether the critical sections are serializable, in a sentence.

    sections    attempts of which the resource accepted a request; entangled: those on keys where
                sections interleave
    cycle       a shortest cycle, () for none
    """

    sections: int = 0
    entangled: int = 0
    cycle: tuple[ForcedOrder, ...] = ()
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Latency breakdown of granted acquires, as reported by the service.

    said      granted acquires of which the service reported its times
    queued    those of them that received the response to wait
    apart     those of which the time is known at which the service had read the request
    whole     from call to grant; the median of the sum, not the sum of medians
    way       T_req + T_reply with retries: up to the first response, minus coordination and commit
    request   T_req: from call until then, with retries; not available on several hosts
    reply     T_reply: from the end of the commit to the first response at the client
    coordination, commit   as the service measured them, for the first sending with a response
    wait      of those queued, from the response that they wait to the grant
    """

    said: int
    queued: int
    apart: int = 0
    whole_ns: Dist = Dist()
    way_ns: Dist
    request_ns: Dist = Dist()
    reply_ns: Dist = Dist()
    coordination_ns: Dist
    commit_ns: Dist
    wait_ns: Dist
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All numbers of a run. An older version wrote fewer of them.

    grants      grants that returned, in equal bins from start to end
    latency_ns  of the calls that returned ok, by op
    narrowed    set by the judge: checkers see no kernel timestamps
    """

    acquire: Asked = Asked()
    acquire_split: Split | None = None
    pace: Pace = Pace()
    grants: Histogram | None = None
    latency_ns: Mapping[str, Dist] = field(default_factory=dict)
    wait_ns: Dist = Dist()
    hold_ns: Dist = Dist()
    renewal_margin_ns: Dist = Dist()
    queue_depth: Depth = Depth()
    timeouts: int = 0
    retry_rate: Number | None = None
    tokens: Tokens = Tokens()
    rejected: Rejected = Rejected()
    expired_owner: ExpiredOwner = ExpiredOwner()
    serialisability: Serial = Serial()
    failovers: tuple[Failover, ...] = ()
    lease_margin: LeaseMargin = LeaseMargin()
    utilisation: Utilisation = Utilisation()
    stale_beliefs: StaleBeliefs = StaleBeliefs()
    availability: Availability = Availability()
    partitions: Partitions = Partitions()
    waits: Waits = Waits()
    errors: tuple[CallError, ...] = ()
    narrowed: Narrowed = field(default_factory=Narrowed)
