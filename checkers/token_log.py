"""The fencing tokens of a run in the order of their grants, thinned for a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.holds import Attempt, by_lock
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Status

SHOWN = 200


def token_log(case: Case) -> dict[str, object]:
    """{grants, first, last, steps_down, log}; log rows are [t_ns, lock, token, process].

    A step down is a grant with a smaller token than the one before it on the same lock. Grants
    whose calls overlapped stand in the order of their tokens, for an answer may be late. The log
    has at most 200 rows, evenly spaced, with both sides of the steps down.
    """
    entries: list[tuple[int, str, int, int]] = []
    for key, group in by_lock(case).items():
        granted = [a for a in group if a.status is Status.OK and a.token != NO_TOKEN]
        lock = case.history.strings[key]
        entries += [(t_ns, lock, a.token, a.process) for t_ns, a in _in_order(granted)]
    entries.sort(key=lambda entry: entry[0])
    falls = _falls(entries)
    shown = _thinned(len(entries), falls)
    return {
        "grants": len(entries),
        "first": entries[0][2] if entries else None,
        "last": entries[-1][2] if entries else None,
        "steps_down": len(falls),
        "log": [list(entries[n]) for n in shown],
    }


def _in_order(granted: Sequence[Attempt]) -> list[tuple[int, Attempt]]:
    """Grants of one lock by the time they were known; at the latest with an overlapping grant of
    a larger token, where that was known first."""
    known = sorted(granted, key=lambda a: a.ret_ns)
    timed: list[tuple[int, Attempt]] = []
    highest = NO_TOKEN
    for n, a in enumerate(known):
        t_ns = a.ret_ns
        if a.token < highest:
            for b in reversed(known[:n]):
                if b.ret_ns <= a.inv_ns:
                    break
                if b.token > a.token:
                    t_ns = b.ret_ns
        highest = max(highest, a.token)
        timed.append((t_ns, a))
    return sorted(timed, key=lambda one: (one[0], one[1].token))


def _falls(entries: Sequence[tuple[int, str, int, int]]) -> list[tuple[int, int]]:
    """(entry before, entry) of every step down of a lock."""
    before: dict[str, int] = {}
    falls = []
    for n, (_, lock, token, _) in enumerate(entries):
        if lock in before and token < entries[before[lock]][2]:
            falls.append((before[lock], n))
        before[lock] = n
    return falls


def _thinned(n: int, falls: Sequence[tuple[int, int]]) -> list[int]:
    """Which of n entries to show: the sides of steps down first, the rest evenly spaced."""
    kept = sorted({side for fall in falls[: SHOWN // 2] for side in fall})[:SHOWN]
    room = SHOWN - len(kept)
    rest = sorted(set(range(n)) - set(kept))
    if len(rest) > room:
        rest = [rest[place] for place in np.linspace(0, len(rest) - 1, room).astype(int)]
    return sorted([*kept, *rest])
