"""Requests that were answered during another's hold: a service that grants a held lock, or opens it
too early after a death, shows it there, whatever the fault is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Indices, Ints
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import granted, reaches, slack
from holdfast.checkers.opportunities.places.lock_delays import deaths, opens_ns
from holdfast.checkers.opportunities.places.met_spans import met_by
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.opportunities.places.passed_on import answered_at
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op

Pair = tuple[Indices, Indices]
"""Entries of the table: of a hold, or an earlier grant, and of another client's request."""


def excludes(case: Case) -> bool:
    """Whether a client asked for a lock that one owner alone may hold."""
    attempts = table(case)
    asked = attempts.op != Op.PROBE
    return bool(np.any(attempts.mode[asked] == Mode.EXCLUSIVE))


def asked_inside(case: Case) -> Places:
    """Acquires in flight during a hold of another client that can be judged, and answered then or
    later: a service that grants a held lock grants these at once."""
    attempts, far, answered = table(case), reaches(case) - slack(case), answered_at(case)
    since = attempts.known + slack(case)
    pairs = list[Pair]()
    for entries in attempts.by_lock().values():
        asked = entries[(answered[entries] >= 0) & (attempts.op[entries] != Op.PROBE)]
        held = entries[(attempts.known[entries] < INF) & (far[entries] > since[entries])]
        spans = held, since[held], far[held]
        by = met_by(attempts, asked, answered[asked], *spans, attempts.inv[asked])
        asked, hold = asked[by >= 0], by[by >= 0]
        both = attempts.mode[asked], attempts.mode[hold]
        apart = (both[0] == Mode.EXCLUSIVE) | (both[1] == Mode.EXCLUSIVE)
        pairs.append((hold[apart], asked[apart]))
    return _places(case, pairs, "hold", "asked", answered)


def numbered_after(case: Case) -> Places:
    """Grants with a token that were requested when one to another client was known."""
    attempts, pairs = table(case), list[Pair]()
    for entries in granted(case).values():
        mine = entries[attempts.token[entries] != NO_TOKEN]
        asked = mine[np.argsort(attempts.inv[mine], kind="stable")]
        spans = mine, attempts.known[mine] + slack(case), np.full(len(mine), INF)
        before = met_by(attempts, asked, attempts.inv[asked], *spans, attempts.inv[asked])
        pairs.append((before[before >= 0], asked[before >= 0]))
    return _places(case, pairs, "before", "after", attempts.known)


def asked_in_delay(case: Case) -> Places:
    """Acquires that were answered, or still waited, within the lock-delay after a death."""
    attempts, answered = table(case), answered_at(case)
    pairs = list[Pair]()
    for hold, from_ns, to_ns in _delays(case):
        beside = attempts.beside(int(attempts.key[hold]))
        met = (attempts.process[beside] != attempts.process[hold]) & (answered[beside] > from_ns)
        met &= attempts.inv[beside] < to_ns
        first = beside[met][:1]
        pairs.append((np.full(len(first), hold, np.intp), first))
    return _places(case, pairs, "hold", "asked", answered)


def _delays(case: Case) -> Iterator[tuple[int, int, int]]:
    """The entry of each hold that died, and the span of its lock-delay at the earliest."""
    if not case.promises.delay_ns:
        return
    for _, dead in deaths(case):
        until_ns = opens_ns(case, dead)
        entry = int(table(case).of_rows(np.array([dead.row]))[0])
        yield entry, until_ns - case.promises.delay_ns, until_ns


def _places(case: Case, pairs: list[Pair], one: str, other: str, t_ns: Ints) -> Places:
    attempts = table(case)
    first = np.concatenate([np.zeros(0, np.intp), *(pair[0] for pair in pairs)])
    second = np.concatenate([np.zeros(0, np.intp), *(pair[1] for pair in pairs)])
    return Places(
        t_ns[second],
        np.minimum(attempts.inv[first], attempts.inv[second]),
        {one: attempts.row[first], other: attempts.row[second]},
    )
