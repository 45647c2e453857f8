"""Cycles of waits: whether a request, were it queued, would wait for itself through others.

Only who joins a queue can close a cycle: whoever is granted a lock waits for nothing at that
moment. A session that asks for a lock which it holds itself closes none, for that may be a grant
whose answer it never got, and that runs out. Permits are not looked at: who waits for one of
many holders is not stuck as long as one of them moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.clusters.systems.reference.locks import admission, paths
from holdfast.clusters.systems.reference.locks.state import EXCLUSIVE, PERMITS, Answer, Lock, Waiter


def closed_by(locks: Mapping[str, Lock], waiter: Waiter, order: str) -> Answer | None:
    """The answer to a request that would close a cycle, in which it says why; None: it may wait.

    A search over the sessions that it would wait for, each of them once.
    """
    if any(hold.session == waiter.session for hold in paths.line(locks, waiter.lock).holds):
        return None
    waiting: dict[int, list[Waiter]] = {}
    for lock in locks.values():
        for other in lock.queue:
            waiting.setdefault(other.session, []).append(other)
    seen = {waiter.session}
    # Each with the way that leads to it, in words.
    left = [(waiter, "")]
    while left:
        asking, way = left.pop()
        for session, owner in _blockers(paths.line(locks, asking.lock), asking, order):
            step = f"{asking.owner} waits for {owner} because of {asking.lock}"
            told = f"{way}, {step}" if way else step
            if session == waiter.session:
                return {"is": "deadlock", "why": told}
            if session not in seen:
                seen.add(session)
                left += [(other, told) for other in waiting.get(session, ())]
    return None


def _blockers(lock: Lock, waiter: Waiter, order: str) -> Iterator[tuple[int, str]]:
    """(session, owner) of all who must move before the waiter can: holders, and those before it."""
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
