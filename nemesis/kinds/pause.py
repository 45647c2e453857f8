"""Processes that stop and later resume, unaware of the pause.

Models
    A long GC pause, an overloaded or migrated virtual machine, a suspended laptop: all threads of a
    node are stopped (SIGSTOP) for 2 leases (default of `for`), so that the lock is granted to other
    clients meanwhile.
    Every second pause is at the holder: it resumes and still believes that it holds.
Needs
    pause: processes that the fault agent may signal.
Heals
    SIGCONT to everything that was stopped; moot if it was killed meanwhile.
"""

from __future__ import annotations

import random

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.node_fault import Aimed

OTHERS = ("leader|one", "follower", "minority", "majority", "client", "resource")


def _usual(n: int, rng: random.Random) -> str:
    """Every second time the holder: only its pause produces a request after its lease."""
    other = rng.choice(OTHERS)
    return "holder" if n % 2 == 0 else "leader|one" if n == 1 else other


TRAITS = Traits(
    stops=True,
    passes=True,
    pattern="pause",
    swarm=Swarm(places=(2,), targets=("", "holder", "waiter")),
)
NEMESIS = Aimed(
    name="pause",
    agent=("holdfast.nemesis.agent.signals:PAUSE",),
    usual=_usual,
    traits=TRAITS,
    leases=2,
)
