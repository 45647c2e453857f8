"""Processes that stop in the middle of what they do, and go on as if nothing had happened.

Models
    A long garbage collection, an overloaded or migrated virtual machine, a suspended laptop: every
    thread of a node stands still (SIGSTOP) for two leases unless `for` says otherwise, so that the
    lock passes to others meanwhile.
    The holder every second time: it goes on in the belief that it still holds.
Needs
    pause: processes that the fault agent may signal.
Heals
    SIGCONT to everything that was stopped; a kill in the meantime makes it moot.
"""

from __future__ import annotations

import random

from holdfast.nemesis.node_fault import Aimed

OTHERS = ("leader|one", "follower", "minority", "majority", "client", "resource")


def _usual(n: int, rng: random.Random) -> str:
    """Every second time the holder: only its pause makes a request that is late past the lease."""
    other = rng.choice(OTHERS)
    return "holder" if n % 2 == 0 else "leader|one" if n == 1 else other


NEMESIS = Aimed(name="pause", usual=_usual, leases=2)
