"""The words of a judgement: properties, verdicts, findings, promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What can be said of one property of one run."""

    HOLDS = "HOLDS"
    VIOLATED = "VIOLATED"
    UNKNOWN = "UNKNOWN"


class Severity(StrEnum):
    """How bad a violation is for the owner of the protected resource."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


PROPERTIES: dict[str, tuple[Severity, str]] = {
    "mutual-exclusion": (Severity.CRITICAL, "two owners never hold one lock at once"),
    "no-stale-write": (
        Severity.CRITICAL,
        "the resource never accepts an older owner's write after it has admitted a newer owner",
    ),
    "no-expired-write": (
        Severity.CRITICAL,
        "the resource never accepts a write after its owner's hold has ended",
    ),
    "no-lost-update": (Severity.CRITICAL, "no two accepted writes build on the same version"),
    "applied-once": (Severity.CRITICAL, "a command that is sent again takes effect once"),
    "exactly-once-job": (Severity.CRITICAL, "a job of which one is enough is done once, and done"),
    "token-order": (Severity.CRITICAL, "a later grant always carries a larger fencing token"),
    "ownership": (Severity.CRITICAL, "only the holder can release or renew"),
    "loss-notice": (Severity.HIGH, "a holder that loses its lock is told, in time"),
    "grant-notice": (
        Severity.MEDIUM,
        "a client that waited for a lock is notified of its grant, in time",
    ),
    "deadlock-freedom": (
        Severity.HIGH,
        "a lock that its holder gave back or lost is granted again",
    ),
    "orphan-freedom": (Severity.HIGH, "a lock that nobody can hold is never refused for ever"),
    "no-hung-request": (Severity.HIGH, "every request is answered within its timeout"),
    "no-multi-lock-deadlock": (
        Severity.HIGH,
        "clients that wait for each other's locks in a circle are found and one is turned down",
    ),
    "no-false-rejection": (
        Severity.MEDIUM,
        "whoever holds is not turned away, and neither is who asks for a free lock",
    ),
    "starvation-freedom": (Severity.MEDIUM, "nobody waits on and on while others are served"),
    "bounded-bypass": (
        Severity.LOW,
        "nobody is overtaken in the queue more often than its order allows",
    ),
    "bounded-wait": (
        Severity.LOW,
        "no request is served after more grants to others than there were requests ahead of it",
    ),
    "truthful-queries": (
        Severity.LOW,
        "what is answered about holder, queue and version agrees with what happened",
    ),
}
"""Property id -> how bad a violation is, and what the property says. One row per checker."""


ENFORCED_BY_RESOURCE = frozenset(
    {"no-stale-write", "no-expired-write", "no-lost-update", "exactly-once-job"}
)
"""What no lock can keep alone: the protected resource has to refuse old tokens for it."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """VIOLATED beats UNKNOWN beats HOLDS; nothing at all is UNKNOWN."""
    seen = set(verdicts)
    for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS):
        if verdict in seen:
            return verdict
    return Verdict.UNKNOWN


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """By which rule (`harness.verification.rules`) which rows prove a finding.

    roles    role -> row number in the merged history
    values   what one row alone does not show, by the rule's names: the verifier derives it too
    """

    rule: str
    roles: Mapping[str, int]
    values: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that went wrong, with what proves it.

    kind       as in docs/glossary.md: "double-grant", "broken-lease", "stale-accepted-write" ...
    sentence   one sentence a newcomer understands, names and seconds in it
    witnesses  row numbers into the merged history, in the order that proves it; 2 to 6 of them
    lock       name of the lock or resource
    t_ns       when it came about, ns of the run's clock
    spans      [from_ns, to_ns, label, row] of the holds to draw, where holds prove it
    proof      from which its certificate is made; None where there is no rule for its kind
    cause      the kind of what came first and brought it about, where the rows show that; else ""
    """

    kind: str
    sentence: str
    witnesses: tuple[int, ...]
    lock: str
    t_ns: int
    spans: tuple[tuple[int, int, str, int], ...] = ()
    proof: Proof | None = None
    cause: str = ""


CALM = "none"
"""What the judgement of a run, or of a part of it, without faults is filed under."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Under:
    """The judgement of one property under one kind of fault.

    reason     why it is UNKNOWN: what of that kind was not exercised; "" where it is not
    exercised  what was counted of that kind
    findings   places in the verdict's findings, of those that came about under that kind
    """

    verdict: Verdict
    reason: str = ""
    exercised: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PropertyVerdict:
    """The judgement of one property. `exercised` counts what the verdict leans on.

    under maps each kind of fault that was asked for to what can be said under it; CALM is the key
    of a run without faults and of what was violated before any fault. A key that joins kinds with
    "+" is a violation amid all of them: which of them it takes is not known.
    notes are facts worth telling that violate nothing: a stale belief that fencing made harmless.
    order, of an exact property that holds: per lock the rows in the order that shows it.
    """

    property: str
    verdict: Verdict
    reason: str
    exercised: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    under: Mapping[str, Under] = field(default_factory=dict)
    order: tuple[tuple[str, tuple[int, ...]], ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Promises:
    """What a system says of itself, as data. Checkers judge by it; reports show it.

    purpose          "correctness", or "efficiency" where a harmless duplicate is tolerable
    bound            what ends a hold besides its release: "lease", "session", "connection",
                     "none" (only a release does)
    renew_proves     an ok renewal means "owned without a break since the grant"
    release_proves   an ok release means the same
    release_once     an ok release means "owned by this attempt" and is never repeated
    slip_ns, drift_ppm   how far the service's lease clock may run ahead of the client's
    tokens           "none", "ordered" (a later grant has a larger one), "unordered"
    tokens_unique    no two grants share a token
    order            "fifo", "racing", "priority"
    notice_ns        the holder is told of a loss, and a waiter of its grant, at most so long after
                     it can be reached (0: never)
    recovery_ns      after the last heal the service answers again within this time
    minority_ns      with fewer than half of its servers stopped, and no other fault, it answers
                     again within this time; -1: not promised
    aging            by priority: after so many grants to others nobody who comes later goes before
                     one who waits; -1: it is not bounded
    subtrees         a lock whose name begins with "/" stands for all paths below it
    delay_ns         a lock whose holder's session ended by itself is granted to nobody for so long
    reasons          a notice of a loss says truly why: "expired", "session", "closed", "revoked"
                     by an operator, "released"; another word where that is not known
    keeps            property id -> fault kinds under which it is promised; "any" for all of them;
                     a property that is absent is not promised
    sheet            the design sheet in words: protected resource (which a run adds), owner
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

    def promised(self, prop: str, faults: Iterable[str]) -> bool:
        """Whether the property is promised under all the fault kinds that bit in a run."""
        kept = self.keeps.get(prop)
        return kept is not None and ("any" in kept or set(faults) <= set(kept))
