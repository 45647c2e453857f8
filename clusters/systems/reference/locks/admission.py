"""Who is let in, who is next, and what is told of both: the rules of one lock and its queue."""

from __future__ import annotations

from holdfast.clusters.systems.reference.locks.state import Answer, Lock, Waiter

ORDERS = ("fifo", "racing", "priority")
"""fifo: a freed lock goes to the first in the queue; racing: to whoever asks first, waiters are
only told; priority: to the most urgent, and whoever is passed over becomes more urgent by one."""
PRIORITIES = 8
"""priorities are 0 to one less: so often, less one, can somebody who came later go first"""


def lets_in(lock: Lock, waiter: Waiter, order: str) -> bool:
    """Whether somebody who just comes is granted the lock at once.

    Nobody who waits is passed by, except by an owner that comes in again: it would wait for itself.
    """
    passes = order == "racing" or not lock.queue
    return lock.reentered_by(waiter) or (lock.admits(waiter) and passes)


def in_order(lock: Lock, order: str) -> list[Waiter]:
    """The queue as it would be served."""
    if order != "priority":
        return lock.queue
    return sorted(lock.queue, key=lambda waiter: -waiter.priority - waiter.passed)


def following(lock: Lock, order: str) -> Waiter | None:
    """The waiter that is to be let in now, None where there is none or no room for it."""
    queue = in_order(lock, order)
    if not queue or order == "racing":
        return None
    return queue[0] if lock.admits(queue[0]) or lock.reentered_by(queue[0]) else None


def place(lock: Lock, waiter: Waiter, order: str) -> int:
    """How many are before it in the queue, as things stand."""
    return in_order(lock, order).index(waiter)


def described(lock: Lock, attempt: int, order: str) -> Answer:
    """Who holds a lock, how many wait, and how many of them before an attempt (-1: it does not)."""
    queue = [waiter.attempt for waiter in in_order(lock, order)]
    asked = {"length": len(queue), "place": queue.index(attempt) if attempt in queue else -1}
    if not lock.holds:
        return {"is": "free", **asked}
    hold = lock.holds[0]
    return {
        "is": "held-by",
        "owner": hold.owner,
        "attempt": hold.attempt,
        "token": hold.token,
        "ttl_ns": hold.ttl_ns,
        "renewals": hold.renewals,
        "metadata": hold.metadata,
        **asked,
    }
