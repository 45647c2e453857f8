"""Promises that most systems share: by leases, with or without tokens, and by connections.

A system replaces what is different and says what it keeps; a preset keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CRASHES, CUTS, STOPS
from holdfast.harness.core.verdict import Promises

LEASE = Promises(
    purpose="correctness",
    bound="lease",
    renew_proves=True,
    release_proves=True,
    release_once=True,
    slip_ns=10 * MILLISECOND,
    drift_ppm=1000,
    tokens="none",
    tokens_unique=False,
    order="racing",
    notice_ns=0,
    recovery_ns=0,
    keeps={},
    sheet={},
)
LEASE_WITH_TOKENS = replace(LEASE, tokens="ordered", tokens_unique=True)
CONNECTION = replace(LEASE, bound="connection", slip_ns=0, drift_ppm=0, notice_ns=4 * SECOND)
"""A hold that ends with its session, which the client notices within 4 s."""

REACHED = (CUTS, STOPS, CRASHES)
"""Faults after which a lock becomes free again, once clients reach the servers."""


def kept(safe: Sequence[str], freed: Sequence[str] = REACHED) -> dict[str, tuple[str, ...]]:
    """`Promises.keeps` of a plain lock.

    safe   kinds of fault under which there is one owner, and only the owner releases
    freed  kinds of fault after which a lock becomes free
    """
    exclusive, free = tuple(safe), tuple(freed)
    return {
        "mutual-exclusion": exclusive,
        "ownership": exclusive,
        "deadlock-freedom": free,
        "orphan-freedom": free,
        "no-hung-request": ("any",),
    }
