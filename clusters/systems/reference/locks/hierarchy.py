"""Hierarchical locks: a lock whose name begins with "/" covers its whole subtree.

Two paths of which one is an ancestor of the other are on one ancestor chain, and on a chain one
hold at a time is in force. So the rules for one lock and its queue apply to a path too, if they see
its whole chain.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.systems.reference.locks.state import Lock


def is_path(name: str) -> bool:
    """Whether a name covers a subtree."""
    return name.startswith("/")


def on_line(name: str, other: str) -> bool:
    """Whether two paths are equal, or one is an ancestor of the other."""
    short, long = sorted((name, other), key=len)
    return long == short or long.startswith(f"{short.rstrip('/')}/")


def beside(locks: Mapping[str, Lock], name: str) -> list[str]:
    """The name itself, and every lock in use on an ancestor chain with it."""
    if not is_path(name):
        return [name]
    return [name, *(n for n in locks if n != name and is_path(n) and on_line(n, name))]


def line(locks: Mapping[str, Lock], name: str) -> Lock:
    """All holds that exclude this lock, and all waiters for them, as one lock.

    Read-only, unless the name is no path.
    """
    if not is_path(name):
        return locks.get(name) or Lock()
    related = [locks[n] for n in beside(locks, name) if n in locks]
    return Lock(
        holds=[hold for lock in related for hold in lock.holds],
        queue=sorted((w for lock in related for w in lock.queue), key=lambda w: w.came),
        closed=max((lock.closed for lock in related), default=0),
    )
