"""Admission rules of one lock: which request is granted, which waiter is next, and queries."""

from __future__ import annotations

from holdfast.clusters.systems.reference.locks.state import Answer, Lock, Waiter

ORDERS = ("fifo", "racing", "priority")
"""fifo: a freed lock goes to the first in the queue; racing: to the first request, waiters are only
notified; priority: to the highest priority, and a waiter that is passed over gains one."""
PRIORITIES = 8
"""number of priorities, from 0; a waiter is passed over at most PRIORITIES - 1 times"""


def lets_in(lock: Lock, waiter: Waiter, order: str) -> bool:
    """Whether a new request is granted the lock at once.

    No waiter is overtaken, except by an owner that re-enters: it would wait for itself.
    """
    passes = order == "racing" or not lock.queue
    return lock.reentered_by(waiter) or (lock.admits(waiter) and passes)


def in_order(lock: Lock, order: str) -> list[Waiter]:
    """The queue in the order of service."""
    if order != "priority":
        return lock.queue
    return sorted(lock.queue, key=lambda waiter: -waiter.priority - waiter.passed)


def following(lock: Lock, order: str) -> Waiter | None:
    """The waiter to grant now, None if there is none or it does not fit."""
    queue = in_order(lock, order)
    if not queue or order == "racing":
        return None
    return queue[0] if lock.admits(queue[0]) or lock.reentered_by(queue[0]) else None


def place(lock: Lock, waiter: Waiter, order: str) -> int:
    """Number of waiters ahead of it in the queue at present."""
    return in_order(lock, order).index(waiter)


def described(lock: Lock, attempt: int, order: str) -> Answer:
    """Holder of a lock, number of waiters, and those ahead of an attempt (-1: it does not wait)."""
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
