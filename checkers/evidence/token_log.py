"""The fencing tokens of a run in the order of their grants, sampled for a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.history_index import Bools, Indices, Ints
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.verdicts.evidence import Tokens

SHOWN = 200


def token_log(case: Case) -> Tokens:
    """The tokens of all grants, and a log of them.

    A step down is a grant with a smaller token than its predecessor on the same lock. Grants whose
    calls overlapped are in the order of their tokens, because a return may be late. The log has at
    most 200 rows, evenly spaced, with both sides of the steps down.
    """
    attempts = table(case)
    kept = [entries[_with_token(attempts, entries)] for entries in attempts.by_family().values()]
    timed = [_in_order(attempts, entries) for entries in kept]
    which = np.concatenate([at for _, at in timed]) if timed else np.zeros(0, np.intp)
    t_ns = np.concatenate([times for times, _ in timed]) if timed else np.zeros(0, np.int64)
    order = np.argsort(t_ns, kind="stable")
    t_ns, which = t_ns[order], which[order]
    falls = _falls(attempts.key[which], attempts.token[which])
    shown = _thinned(len(which), falls)
    tokens, strings = attempts.token[which], case.history.strings
    return Tokens(
        grants=len(which),
        first=int(tokens[0]) if len(which) else None,
        last=int(tokens[-1]) if len(which) else None,
        steps_down=len(falls),
        log=tuple(
            (
                int(t_ns[n]),
                strings[attempts.key[at]],
                int(attempts.token[at]),
                int(attempts.process[at]),
            )
            for n, at in zip(shown, which[shown].tolist(), strict=True)
        ),
    )


def _with_token(found: Table, entries: Indices) -> Bools:
    """Which of these returned ok with a token."""
    return np.asarray(found.ok[entries] & (found.token[entries] != NO_TOKEN))


def _in_order(found: Table, entries: Indices) -> tuple[Ints, Indices]:
    """Grants of one lock by the time they were known, or that of an overlapping grant with a larger
    token, if earlier."""
    known = entries[np.argsort(found.ret[entries], kind="stable")]
    token, inv, times = found.token[known], found.inv[known], found.ret[known]
    late = np.flatnonzero(token < np.maximum.accumulate(token))
    ret = times.copy()
    for n in late.tolist():
        for before in range(n - 1, -1, -1):
            if ret[before] <= inv[n]:
                break
            if token[before] > token[n]:
                times[n] = ret[before]
    order = np.lexsort((token, times))
    return times[order], np.take(known, order)


def _falls(keys: Ints, tokens: Ints) -> list[tuple[int, int]]:
    """(predecessor, entry) of every step down of a lock."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    down = same & (tokens[order][1:] < tokens[order][:-1])
    pairs = zip(order[:-1][down].tolist(), order[1:][down].tolist(), strict=True)
    return sorted(pairs, key=lambda pair: pair[1])


def _thinned(n: int, falls: Sequence[tuple[int, int]]) -> list[int]:
    """Which of n entries to show: both sides of steps down first, the rest evenly spaced."""
    kept = sorted({side for fall in falls[: SHOWN // 2] for side in fall})[:SHOWN]
    room = SHOWN - len(kept)
    others = np.ones(n, bool)
    others[kept] = False
    rest = np.flatnonzero(others)
    if len(rest) > room:
        rest = rest[np.linspace(0, len(rest) - 1, room).astype(int)]
    return sorted([*kept, *rest.tolist()])
