"""Deadlock detection: whether queueing a request would close a wait-for cycle.

Only a request that joins a queue can close a cycle: one that is granted waits for nothing at that
time. A session that requests a lock which it holds itself closes none, because that may be a grant
whose response it never received, and which expires. Permits are not considered: a waiter for one of
many holders is not stuck as long as one of them proceeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.clusters.systems.reference.locks import admission, hierarchy
from holdfast.clusters.systems.reference.locks.state import EXCLUSIVE, PERMITS, Answer, Lock, Waiter


def closed_by(locks: Mapping[str, Lock], waiter: Waiter, order: str) -> Answer | None:
    """The response to a request that would close a cycle, with the reason; None: it may wait.

    A search over the sessions that it would wait for, each once.
    """
    if any(hold.session == waiter.session for hold in hierarchy.line(locks, waiter.lock).holds):
        return None
    waiting: dict[int, list[Waiter]] = {}
    for lock in locks.values():
        for other in lock.queue:
            waiting.setdefault(other.session, []).append(other)
    seen = {waiter.session}
    # Each with the path that leads to it, as text.
    left = [(waiter, "")]
    while left:
        asking, way = left.pop()
        for session, owner in _blockers(hierarchy.line(locks, asking.lock), asking, order):
            step = f"{asking.owner} waits for {owner} because of {asking.lock}"
            chain = f"{way}, {step}" if way else step
            if session == waiter.session:
                return {"is": "deadlock", "why": chain}
            if session not in seen:
                seen.add(session)
                left += [(other, chain) for other in waiting.get(session, ())]
    return None


def _blockers(lock: Lock, waiter: Waiter, order: str) -> Iterator[tuple[int, str]]:
    """(session, owner) of all that block the waiter: holders, and waiters ahead of it."""
    if waiter.mode == PERMITS:
        return
    for hold in lock.holds:
        if EXCLUSIVE in (hold.mode, waiter.mode):
            yield hold.session, hold.owner
    if order == "racing":
        return
    queue = lock.queue if waiter in lock.queue else [*lock.queue, waiter]
    for other in admission.in_order(Lock(holds=lock.holds, queue=queue), order):
        if other is waiter:
            break
        if other.session != waiter.session:
            yield other.session, other.owner
