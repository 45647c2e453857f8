"""Bugs that can be planted, to see that they are found: off unless a run asks for one by name.

A literal table, as `catalogue`: what is wrong, the property that breaks by it, and how many seeds
the swarm may take. The bugs themselves stand beside what they are planted in.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import catalogue

AREAS = ("consensus", "lease", "queue", "session", "client", "terms", "resource")
ASSERTION = "a node's own assertion"
"""Found by a node that ends by itself, because it met what its own code rules out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One planted bug.

    part    what it is planted in: the name of a system, or "resource"
    area    which kind of bug it is, one of AREAS
    says    what is wrong, in one sentence
    breaks  the property whose checker must find it, or ASSERTION
    seeds   the simulator finds it within so many seeds of its swarm
    """

    part: str
    area: str
    says: str
    breaks: str
    seeds: int

    @property
    def system(self) -> str:
        """The system that shows it: its own, or the reference service before the resource."""
        return "reference" if self.part == "resource" else self.part

    @property
    def checker(self) -> str:
        """The entry of what must catch it, ASSERTION where it is the node itself."""
        return catalogue.CHECKERS.get(self.breaks, ASSERTION)


MUTANTS: dict[str, Mutant] = {
    "release-by-lock": Mutant(
        part="reference",
        area="lease",
        says="a release or renewal counts for whoever holds the lock, not for who asked",
        breaks="ownership",
        seeds=100,
    ),
    "lost-wake-up": Mutant(
        part="reference",
        area="queue",
        says="when a lease runs out, nobody tells the first of the queue",
        breaks="deadlock-freedom",
        seeds=400,
    ),
    "token-reset": Mutant(
        part="reference",
        area="consensus",
        says="the token counter is not in the snapshot: a restart begins at 1 again",
        breaks="token-order",
        seeds=100,
    ),
    "forgotten-holder": Mutant(
        part="reference",
        area="consensus",
        says="who holds is not in the snapshot: a restart finds every lock free",
        breaks="token-order",
        seeds=100,
    ),
    "wall-clock": Mutant(
        part="reference",
        area="lease",
        says="leases are counted on the wall clock, which can be set",
        breaks="mutual-exclusion",
        seeds=100,
    ),
    "early-expiry": Mutant(
        part="reference",
        area="lease",
        says="a lease ends a fifth earlier than was granted",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "impatient-leader": Mutant(
        part="reference",
        area="consensus",
        says="a new leader ends every lease it finds, as if all had run out meanwhile",
        breaks="mutual-exclusion",
        seeds=100,
    ),
    "lone-commit": Mutant(
        part="reference",
        area="consensus",
        says="a leader answers what no majority has on disk yet",
        breaks="token-order",
        seeds=200,
    ),
    "blind-vote": Mutant(
        part="reference",
        area="consensus",
        says="a vote is given to a candidate whose log lacks what was committed",
        breaks=ASSERTION,
        seeds=400,
    ),
    "writer-beside-readers": Mutant(
        part="reference",
        area="terms",
        says="a writer is let in while readers hold",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "greedy-readers": Mutant(
        part="reference",
        area="terms",
        says="readers are let in for ever, however long a writer waits",
        breaks="starvation-freedom",
        seeds=200,
    ),
    "one-permit-more": Mutant(
        part="reference",
        area="terms",
        says="a semaphore looks whether a permit is left, not whether as many as are asked for",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "outer-release": Mutant(
        part="reference",
        area="terms",
        says="the first release of an owner that came in again frees the lock",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "reentry-by-name": Mutant(
        part="reference",
        area="terms",
        says="whoever bears the holder's name is let in again, another process too",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "short-extension": Mutant(
        part="reference",
        area="lease",
        says="a renewal is answered with the lease asked for and lasts half of it",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "unchecked-condition": Mutant(
        part="reference",
        area="terms",
        says="whether nobody held since is looked at before the wait and not after it",
        breaks="truthful-queries",
        seeds=200,
    ),
    "place-from-the-end": Mutant(
        part="reference",
        area="terms",
        says="asked for the place in the queue, it counts those behind",
        breaks="truthful-queries",
        seeds=200,
    ),
    "former-holder": Mutant(
        part="reference",
        area="terms",
        says="asked who holds, it gives the answer to the question before",
        breaks="truthful-queries",
        seeds=200,
    ),
    "last-come-first": Mutant(
        part="reference",
        area="queue",
        says="a freed lock goes to whoever came last",
        breaks="bounded-bypass",
        seeds=200,
    ),
    "no-aging": Mutant(
        part="reference",
        area="queue",
        says="who is passed over by the more urgent stays as urgent as it was",
        breaks="starvation-freedom",
        seeds=500,
    ),
    "no-lock-delay": Mutant(
        part="chubby",
        area="session",
        says="a lock is open at once when the session of its holder has died",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "every-sequencer": Mutant(
        part="reference",
        area="terms",
        says="a sequencer is taken for in force if it was ever given out",
        breaks="truthful-queries",
        seeds=200,
    ),
    "parent-only": Mutant(
        part="reference",
        area="terms",
        says="of a path only the step above and the step below are looked at",
        breaks="mutual-exclusion",
        seeds=400,
    ),
    "forgotten-descendants": Mutant(
        part="reference",
        area="terms",
        says="a path is granted while somebody holds what lies below it",
        breaks="mutual-exclusion",
        seeds=400,
    ),
    "blind-to-circles": Mutant(
        part="reference",
        area="terms",
        says="nobody looks whether clients wait for each other's locks in a circle",
        breaks="no-multi-lock-deadlock",
        seeds=300,
    ),
    "unchecked-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource looks at no token",
        breaks="no-stale-write",
        seeds=50,
    ),
    "forgotten-commands": Mutant(
        part="resource",
        area="resource",
        says="a write that is sent again is applied again",
        breaks="applied-once",
        seeds=200,
    ),
    "tolerant-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource admits a token that is older by one than the newest it has seen",
        breaks="no-stale-write",
        seeds=200,
    ),
    "small-quorum": Mutant(
        part="reference",
        area="consensus",
        says="a majority is counted of the members that there were before the last two came",
        breaks="token-order",
        seeds=200,
    ),
    "late-disk": Mutant(
        part="reference",
        area="consensus",
        says="entries are acknowledged at once and written to disk once a second",
        breaks="token-order",
        seeds=500,
    ),
    "revive": Mutant(
        part="reference",
        area="lease",
        says="the renewal of a lease that has run out puts it back in force, whoever holds by then",
        breaks="ownership",
        seeds=200,
    ),
    "endless-lease": Mutant(
        part="reference",
        area="lease",
        says="no lease ever runs out",
        breaks="deadlock-freedom",
        seeds=200,
    ),
    "taken-twice": Mutant(
        part="reference",
        area="session",
        says="a request for a lock that is sent again is taken for a new one",
        breaks="deadlock-freedom",
        seeds=500,
    ),
    "dead-predecessor": Mutant(
        part="reference",
        area="queue",
        says="who waited behind one that left the queue takes the lock for free",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "zombie-waiter": Mutant(
        part="reference",
        area="session",
        says="who waits stays in the queue when its session ends, and is granted in its turn",
        breaks="deadlock-freedom",
        seeds=500,
    ),
    "lingering-holds": Mutant(
        part="reference",
        area="session",
        says="a session ends and its holds stay",
        breaks="deadlock-freedom",
        seeds=200,
    ),
    "short-session": Mutant(
        part="reference",
        area="session",
        says="a session is promised its whole time and ended after a quarter of it",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "silent-renewal": Mutant(
        part="reference",
        area="client",
        says="a client renews a hold once, and from then on only says so",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "deaf-waiter": Mutant(
        part="reference",
        area="client",
        says="a client waits for word of its turn, and neither asks nor looks at the time",
        breaks="no-hung-request",
        seeds=500,
    ),
    "unread-answer": Mutant(
        part="reference",
        area="client",
        says="a client goes to work when it has an answer, whatever the answer is",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "forgotten-jobs": Mutant(
        part="resource",
        area="resource",
        says="after a restart the resource no longer knows what was written",
        breaks="exactly-once-job",
        seeds=500,
    ),
    "jealous-tokens": Mutant(
        part="resource",
        area="resource",
        says="the resource takes each token once: the holder's second write is refused",
        breaks="no-false-rejection",
        seeds=400,
    ),
    "former-state": Mutant(
        part="reference",
        area="queue",
        says="a try is answered at times from what was before the lock was given back",
        breaks="no-false-rejection",
        seeds=400,
    ),
    "release-by-name": Mutant(
        part="reference",
        area="terms",
        says="a release or renewal counts for the holder of the same name, another process too",
        breaks="ownership",
        seeds=200,
    ),
    "leaky-round": Mutant(
        part="majority",
        area="client",
        says="a client gives nothing back of a vote that it lost",
        breaks="deadlock-freedom",
        seeds=200,
    ),
    "short-memory": Mutant(
        part="resource",
        area="resource",
        says="the resource knows the newest token of one key only",
        breaks="no-stale-write",
        seeds=500,
    ),
}
