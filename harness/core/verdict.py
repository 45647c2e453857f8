"""Data types of a judgement: properties, verdicts, findings, promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA = "holdfast-verdict/4"
READABLE = (*(f"holdfast-verdict/{n}" for n in (1, 2, 3)), SCHEMA)
"""Schemas of verdicts.json that are read; the first has no `under` in its rows."""


class Verdict(StrEnum):
    """Result of one property in one run."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"


class Severity(StrEnum):
    """How bad a violation is for the owner of the protected resource."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of finding: its words, what goes wrong, and which lost row could explain it.

    mechanism   what goes wrong, of MECHANISMS in `harness.verdicts.causes`; "none" if it follows
                from no other finding, and no other from it
    lost_row    the row whose loss could explain a finding of this kind; "" if it is proved by rows
                that are there
    """

    name: str
    means: str
    remedy: str
    mechanism: str = ""
    lost_row: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Property:
    """A property: how bad a violation is, and what it says in one sentence.

    place   where reports have it among the others
    kinds   of its findings and notes, by their names in verdicts.json
    """

    place: int
    severity: Severity
    sentence: str
    kinds: Mapping[str, Kind]


ENFORCED_BY_RESOURCE = frozenset(
    {"no-stale-write", "no-expired-write", "no-lost-update", "exactly-once-job"}
)
"""Properties that no lock can keep alone: the protected resource must reject old tokens."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """VIOLATED beats UNKNOWN beats HOLDS; no verdicts at all: UNKNOWN."""
    seen = set(verdicts)
    for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS):
        if verdict in seen:
            return verdict
    return Verdict.UNKNOWN


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The rule (`harness.verification.rules`) and the rows that prove a finding.

    roles    role -> row number in the merged history
    values   values that no single row contains, by the rule's names; the verifier derives them too
    """

    rule: str
    roles: Mapping[str, int]
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One violation (or note), with its evidence.

    kind       as in docs/glossary.md: "double-grant", "broken-lease", "stale-accepted-write" ...
    sentence   one sentence with names and times in seconds
    witnesses  2 to 6 row numbers of the merged history, in the order that proves it
    lock       name of the lock or resource
    t_ns       time of the violation, ns of the run's clock
    spans      [from_ns, to_ns, label, row] of the holds to draw, where holds are the evidence
    proof      source of its certificate; None if its kind has no rule
    cause      kind of the finding that caused this one, if the rows show it; else ""
    """

    kind: str
    sentence: str
    witnesses: tuple[int, ...]
    lock: str
    t_ns: int
    spans: tuple[tuple[int, int, str, int], ...] = ()
    proof: Proof | None = None
    cause: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChange:
    """What a plan lacks for an opportunity, as data. Zero and "" leave the plan as it is.

    nemesis          a kind of fault, added if the plan does not have it
    target           of its faults, unless an earlier change has chosen it; beside: in turn with the
                     targets of other changes, for it strikes something else than servers
    if_asked         nothing for a plan without that kind of fault
    fault_leases     length of a fault, in leases; every_leases: one per so many leases
    least_lease_ns   shortest lease
    least_leases     shortest time of the run, in leases
    clients, locks   fewest clients, most locks; least_locks: fewest, where a change asks for both
    workloads        (from, to): another workload in place of a plain one
    options          of the workload
    """

    nemesis: str = ""
    target: str = ""
    beside: bool = False
    if_asked: bool = False
    fault_leases: float = 0
    every_leases: float = 0
    least_lease_ns: int = 0
    least_leases: float = 0
    clients: int = 0
    locks: int = 0
    least_locks: int = 0
    workloads: tuple[str, str] = ("", "")
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Opportunities of one row of the table (`checkers.opportunities`) in one run: places at which
    a lock with the row's defect would have been seen.

    count     their number
    sentence  what one is, as a clause that follows "3 times"
    staged    whether the run contains what the row is about at all, such as a kill of the leader;
              a row that was not staged requires nothing
    roles     rows of the merged history that show the first one, by the names of the row's pattern
    fault     id of the fault of the first one, "" without one
    nearest   what was missing, in numbers, if there was none
    change    of the plan that makes one; also: changes of other kinds of fault that it needs
    """

    count: int = 0
    sentence: str = ""
    staged: bool = True
    roles: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""
    nearest: str = ""
    change: PlanChange = PlanChange()
    also: tuple[PlanChange, ...] = ()


STARVED = "the host had too little processor time"
"""Part of the reason of a verdict that is UNKNOWN for that."""

CALM = "none"
"""Key in `PropertyVerdict.under` for a run, or part of a run, without faults."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Under:
    """Verdict of one property under one kind of fault.

    reason     why it is UNKNOWN: what was not exercised under that kind; "" otherwise
    exercised  coverage counts under that kind
    findings   indices into the verdict's findings, of those under that kind
    seen       its opportunities, by the id of their row
    short      UNKNOWN for lack of opportunities alone: those of other runs can make up for it
    changes    of the plan, that exercise what was missing besides opportunities
    """

    verdict: Verdict
    reason: str = ""
    exercised: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[int, ...] = ()
    seen: Mapping[str, Seen] = field(default_factory=dict)
    short: bool = False
    changes: tuple[PlanChange, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PropertyVerdict:
    """Verdict of one property. `exercised` counts the events that the verdict is based on.

    under: kind of fault -> its verdict, for every planned kind; `CALM` is the key of a run
    without faults and of violations before the first fault. A key of several kinds, joined by "+",
    is a violation during all of them; which of them it needs is unknown.
    notes: observations that violate nothing, such as a stale belief that fencing made harmless.
    changes: of the plan, that exercise what was missing, whatever the fault.
    either: what the run proves as "one of two" of which not both are promised, a sentence each.
    """

    property: str
    verdict: Verdict
    reason: str
    exercised: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    under: Mapping[str, Under] = field(default_factory=dict)
    changes: tuple[PlanChange, ...] = ()
    either: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Promises:
    """The promises of a system, as data. Checkers judge by them; reports show them.

    purpose          "correctness", or "efficiency" where a harmless duplicate is tolerable
    bound            what ends a hold other than its release: "lease", "session", "connection",
                     "none" (only a release does)
    session_ns       bound "session": how long the service keeps the session of a client that is
                     gone, if that is longer than the run's lease
    lapse_ns         bound "none": how long the service keeps a hold that is not renewed, if that is
                     longer than its lease, where a library renews holds by itself and gives its
                     user no end of them; -1: until they are released
    renew_proves     an ok renewal means "owned without interruption since the grant"
    release_proves   an ok release means the same
    release_once     an ok release means "owned by this attempt" and is never repeated
    slip_ns, drift_ppm   how far the service's lease clock may run ahead of the client's
    tokens           "none", "ordered" (a later grant has a larger one), "unordered"
    tokens_unique    no two grants share a token
    order            "fifo", "racing", "priority"
    notice_ns        longest time to notify a reachable holder of its loss, and a waiter of its
                     grant (0: never notified)
    recovery_ns      longest time from the last heal until the service responds again
    minority_ns      longest time until it responds again while fewer than half of its servers are
                     stopped, without other faults; -1: not promised
    aging            order "priority": number of grants to others after which no later request
                     overtakes a waiter; -1: not bounded
    subtrees         a lock whose name begins with "/" covers all paths below it
    delay_ns         lock-delay: time without a grant after the holder's session expired
    reasons          a loss notification has the true reason: "expired", "session", "closed",
                     "revoked" by an operator, "released"; another word if it is unknown
    keeps            property id -> fault kinds under which it is promised; "any" for all of them,
                     one of `fault_traits.CLASSES` for those of a class; a property that is absent
                     is not promised
    sheet            the design sheet as text: protected resource (added by the run), owner
                     identity, acquisition, lease, renewal, token enforcement, timeout, retry,
                     consequence, clock assumptions, evidence
    """

    purpose: str
    bound: str
    renew_proves: bool
    release_proves: bool
    release_once: bool
    slip_ns: int
    drift_ppm: int
    tokens: str
    tokens_unique: bool
    order: str
    notice_ns: int
    recovery_ns: int
    keeps: Mapping[str, tuple[str, ...]]
    sheet: Mapping[str, str]
    minority_ns: int = -1
    aging: int = -1
    subtrees: bool = False
    delay_ns: int = 0
    reasons: bool = False
    session_ns: int = 0
    lapse_ns: int = -1

    @property
    def lapses(self) -> bool:
        """Whether the service ends holds by a lease of which the rows show no renewals."""
        return self.bound == "none" and self.lapse_ns >= 0

    def promised(self, prop: str, faults: Iterable[str]) -> bool:
        """Whether the property is promised under all the fault kinds that took effect."""
        kept = self.keeps.get(prop)
        return kept is not None and ("any" in kept or set(faults) <= set(kept))

    def lasting_ns(self, lease_ns: int) -> int:
        """How long a hold lasts that no release ends, if this lease is asked for."""
        if self.lapses:
            return max(lease_ns, self.lapse_ns)
        return max(lease_ns, self.session_ns) if self.bound == "session" else lease_ns

    def notice_within_ns(self, lease_ns: int) -> int:
        """How long the notice of a loss may take; 0 if that is not known.

        A library that renews by itself finds the loss at its next renewal, up to a lease later.
        """
        lasting_ns = self.lasting_ns(lease_ns)
        return max(self.notice_ns, lasting_ns) if self.lapses else self.notice_ns or lasting_ns


def promised(
    prop: str, promises: Promises, options: Mapping[str, str], kinds: Sequence[str]
) -> bool:
    """Whether a system promises the property under these kinds of fault.

    options   of the run: its resource and workload decide too
    """
    if prop in ENFORCED_BY_RESOURCE and options["resource"] == "unfenced":
        return False
    if prop == "exactly-once-job" and options.get("mark", "0") != "0":
        return False
    return promises.promised(prop, kinds)
