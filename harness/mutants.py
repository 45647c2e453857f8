"""Bugs that can be planted, to see that they are found: off unless a run asks for one by name."""

from __future__ import annotations

from dataclasses import dataclass

ASSERTION = "a node's own assertion"
"""Found by a node that ends by itself, because it met what its own code rules out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One planted bug.

    part    what it is planted in: the name of a system, or "resource"
    says    what is wrong, in one sentence
    breaks  the property whose checker must find it, or ASSERTION
    seeds   the simulator finds it within so many seeds of its swarm
    """

    part: str
    says: str
    breaks: str
    seeds: int


MUTANTS: dict[str, Mutant] = {
    "release-by-lock": Mutant(
        part="reference",
        says="a release or renewal counts for whoever holds the lock, not for who asked",
        breaks="ownership",
        seeds=100,
    ),
    "lost-wake-up": Mutant(
        part="reference",
        says="when a lease runs out, nobody tells the first of the queue",
        breaks="deadlock-freedom",
        seeds=100,
    ),
    "token-reset": Mutant(
        part="reference",
        says="the token counter is not in the snapshot: a restart begins at 1 again",
        breaks="token-order",
        seeds=100,
    ),
    "forgotten-holder": Mutant(
        part="reference",
        says="who holds is not in the snapshot: a restart finds every lock free",
        breaks="token-order",
        seeds=100,
    ),
    "wall-clock": Mutant(
        part="reference",
        says="leases are counted on the wall clock, which can be set",
        breaks="mutual-exclusion",
        seeds=100,
    ),
    "early-expiry": Mutant(
        part="reference",
        says="a lease ends a fifth earlier than was granted",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "impatient-leader": Mutant(
        part="reference",
        says="a new leader ends every lease it finds, as if all had run out meanwhile",
        breaks="mutual-exclusion",
        seeds=100,
    ),
    "lone-commit": Mutant(
        part="reference",
        says="a leader answers what no majority has on disk yet",
        breaks="token-order",
        seeds=100,
    ),
    "blind-vote": Mutant(
        part="reference",
        says="a vote is given to a candidate whose log lacks what was committed",
        breaks=ASSERTION,
        seeds=100,
    ),
    "writer-beside-readers": Mutant(
        part="reference",
        says="a writer is let in while readers hold",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "greedy-readers": Mutant(
        part="reference",
        says="readers are let in for ever, however long a writer waits",
        breaks="starvation-freedom",
        seeds=200,
    ),
    "one-permit-more": Mutant(
        part="reference",
        says="a semaphore looks whether a permit is left, not whether as many as are asked for",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "outer-release": Mutant(
        part="reference",
        says="the first release of an owner that came in again frees the lock",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "reentry-by-name": Mutant(
        part="reference",
        says="whoever bears the holder's name is let in again, another process too",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "short-extension": Mutant(
        part="reference",
        says="a renewal is answered with the lease asked for and lasts half of it",
        breaks="mutual-exclusion",
        seeds=200,
    ),
    "unchecked-condition": Mutant(
        part="reference",
        says="whether nobody held since is looked at before the wait and not after it",
        breaks="truthful-queries",
        seeds=200,
    ),
    "place-from-the-end": Mutant(
        part="reference",
        says="asked for the place in the queue, it counts those behind",
        breaks="truthful-queries",
        seeds=200,
    ),
    "former-holder": Mutant(
        part="reference",
        says="asked who holds, it gives the answer to the question before",
        breaks="truthful-queries",
        seeds=200,
    ),
    "last-come-first": Mutant(
        part="reference",
        says="a freed lock goes to whoever came last",
        breaks="bounded-bypass",
        seeds=200,
    ),
    "no-aging": Mutant(
        part="reference",
        says="who is passed over by the more urgent stays as urgent as it was",
        breaks="starvation-freedom",
        seeds=300,
    ),
    "blind-to-circles": Mutant(
        part="reference",
        says="nobody looks whether clients wait for each other's locks in a circle",
        breaks="no-multi-lock-deadlock",
        seeds=300,
    ),
    "unchecked-tokens": Mutant(
        part="resource",
        says="the resource looks at no token",
        breaks="no-stale-write",
        seeds=50,
    ),
    "forgotten-commands": Mutant(
        part="resource",
        says="a write that is sent again is applied again",
        breaks="applied-once",
        seeds=200,
    ),
    "tolerant-tokens": Mutant(
        part="resource",
        says="the resource admits a token that is older by one than the newest it has seen",
        breaks="no-stale-write",
        seeds=200,
    ),
}
