"""Paths: a lock whose name begins with "/" stands for itself and for all that lies below it.

Two paths of which one leads to the other are on one line, and on a line one hold at a time is in
force. So the rules for one lock and its queue serve a path too, if they are shown its whole line.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.systems.reference.locks.state import Lock


def is_path(name: str) -> bool:
    """Whether a name stands for a subtree."""
    return name.startswith("/")


def on_line(name: str, other: str) -> bool:
    """Whether one of two paths is the other or leads to it."""
    short, long = sorted((name, other), key=len)
    return long == short or long.startswith(f"{short.rstrip('/')}/")


def beside(locks: Mapping[str, Lock], name: str) -> list[str]:
    """The name itself, and every lock in use that is on its line."""
    if not is_path(name):
        return [name]
    return [name, *(n for n in locks if n != name and is_path(n) and on_line(n, name))]


def line(locks: Mapping[str, Lock], name: str) -> Lock:
    """All holds that keep others from this lock, and all who wait for them, as of one lock.

    To be read only, unless the name is no path.
    """
    if not is_path(name):
        return locks.get(name) or Lock()
    found = [locks[n] for n in beside(locks, name) if n in locks]
    return Lock(
        holds=[hold for lock in found for hold in lock.holds],
        queue=sorted((w for lock in found for w in lock.queue), key=lambda w: w.came),
        closed=max((lock.closed for lock in found), default=0),
    )
