"""The services that are modelled, each with the promises that it really keeps."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Promises
from holdfast.harness.properties import PROPERTIES

MS = 1_000_000
ANY = ("any",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """One kind of service.

    sharing   "exclusive", "read-write" or "semaphore"
    queued    who has to wait stands in a queue; else it is refused at once
    upsert    a renewal takes a free lock anew, as long as its token is the newest
    resource  how the protected resource decides: "" there is none; "guarded" looks up who holds
    slip_ns, drift_ppm   how far the server's clock goes wrong, and is declared to
    error_ns  how far a client's clock may be off
    pair      two locks, and clients that want both
    jobs      owners do jobs, one key of the resource for each
    queries   clients ask who holds, and where they stand
    careless  owners write on without a look whether they were notified of a loss
    reenters  its holder is let in again, with its token, whatever waits
    late_ns   how late it ends a lease, or lets its owner in again after the end
    downgrades   who holds alone may share the lock next, and then give the exclusive hold back
    subtrees  a lock covers two more, whose names are below its own
    unsent    now and then a release cannot be sent: it has certainly no effect
    says_little  a release is answered ok whoever holds
    renewed   a library renews by itself, finds a loss by itself, and answers for the service
    """

    name: str
    bound: str = "lease"
    sharing: str = "exclusive"
    queued: bool = True
    upsert: bool = False
    resource: str = ""
    slip_ns: int = 0
    drift_ppm: int = 0
    error_ns: int = 0
    delay_ns: int = 0
    pair: bool = False
    jobs: bool = False
    queries: bool = False
    careless: bool = False
    reenters: bool = False
    late_ns: int = 0
    downgrades: bool = False
    subtrees: bool = False
    unsent: bool = False
    says_little: bool = False
    renewed: bool = False

    def promises(self) -> Promises:
        """What it keeps under any fault: all, but for what only its resource could."""
        kept = set(PROPERTIES)
        if self.resource != "guarded":
            # No token stops the write of an owner whose lease is over while nobody came after it.
            kept.discard("no-expired-write")
        if self.resource == "unfenced":
            kept -= {"no-stale-write", "no-lost-update"}
        if self.says_little:
            # Its ok to anybody's release is no ownership.
            kept.discard("ownership")
        if self.renewed:
            # A process that cannot run renews nothing, its user was given no end, and its library
            # confirms the hold until it finds the loss.
            kept -= {"mutual-exclusion", "durable-grants", "ownership"}
        if not self.jobs:
            kept.discard("exactly-once-job")
        if not self.queued:
            kept -= {"bounded-bypass", "starvation-freedom"}
        return Promises(
            purpose="correctness",
            bound="none" if self.renewed else self.bound,
            lapse_ns=0 if self.renewed else -1,
            renew_proves=not self.upsert and not self.says_little and not self.renewed,
            release_proves=not self.upsert and not self.says_little,
            release_once=not self.says_little,
            slip_ns=self.slip_ns,
            drift_ppm=self.drift_ppm,
            tokens="ordered",
            tokens_unique=True,
            order="fifo" if self.queued else "racing",
            notice_ns=3 * SECOND,
            recovery_ns=5 * SECOND,
            keeps=dict.fromkeys(sorted(kept), ANY),
            sheet={},
            delay_ns=self.delay_ns,
            reasons=not self.renewed,
            subtrees=self.subtrees,
        )


SERVICES = (
    Service(
        name="lease",
        queued=False,
        resource="fenced",
        drift_ppm=20_000,
        slip_ns=30 * MS,
        careless=True,
    ),
    Service(
        name="lease, several hosts",
        resource="guarded",
        error_ns=40 * MS,
        slip_ns=50 * MS,
        careless=True,
    ),
    Service(name="queue", resource="strict", queries=True),
    Service(name="upsert", upsert=True, resource="fenced", drift_ppm=10_000),
    Service(name="session", bound="session", resource="fenced", slip_ns=20 * MS),
    Service(name="session, lock-delay", bound="session", delay_ns=SECOND, drift_ppm=10_000),
    Service(name="connection", bound="connection", resource="unfenced", careless=True),
    Service(name="until released", bound="none", resource="fenced"),
    Service(name="read-write", sharing="read-write", resource="guarded", careless=True),
    Service(name="read-write, several hosts", sharing="read-write", error_ns=25 * MS),
    Service(name="semaphore", sharing="semaphore", slip_ns=20 * MS),
    Service(name="pair", pair=True, resource="guarded"),
    Service(name="jobs", jobs=True, resource="guarded", drift_ppm=5_000),
    Service(
        name="reentrant",
        reenters=True,
        late_ns=2 * SECOND,
        resource="guarded",
        queries=True,
        careless=True,
        unsent=True,
    ),
    Service(
        name="reentrant, several hosts",
        reenters=True,
        late_ns=SECOND,
        resource="fenced",
        error_ns=30 * MS,
        slip_ns=40 * MS,
        unsent=True,
    ),
    Service(name="reentrant session", bound="session", reenters=True, resource="guarded"),
    Service(
        name="downgrades", sharing="read-write", downgrades=True, resource="guarded", unsent=True
    ),
    Service(name="paths", sharing="read-write", subtrees=True, unsent=True, drift_ppm=10_000),
    Service(
        name="lock-delay, says little",
        bound="session",
        queued=False,
        delay_ns=4 * SECOND,
        says_little=True,
    ),
    Service(name="lease, lock-delay", queued=False, delay_ns=SECOND, drift_ppm=10_000),
    Service(name="lease, unsent releases", queued=False, resource="guarded", unsent=True),
    Service(name="renewed", renewed=True, resource="fenced", slip_ns=20 * MS, drift_ppm=10_000),
    Service(name="renewed, several hosts", renewed=True, queued=False, error_ns=30 * MS),
)
