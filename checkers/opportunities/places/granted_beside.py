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
from holdfast.checkers.opportunities.places.passed_on import answered_at, last_other
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op

LOW_16 = (1 << 16) - 1
Pair = tuple[Indices, Indices]
"""Entries of the table: of a hold, or an earlier grant, and of another client's request."""


def asked_inside(case: Case) -> Places:
    """Acquires in flight during a hold of another client that can be judged, and answered then or
    later: a service that grants a held lock grants these at once."""
    attempts, far, answered = table(case), reaches(case) - slack(case), answered_at(case)
    since = attempts.known + slack(case)
    pairs = list[Pair]()
    for key, entries in attempts.by_lock().items():
        asked = entries[(answered[entries] >= 0) & (attempts.op[entries] != Op.PROBE)]
        held = granted(case)[key]
        held = held[far[held] > since[held]]
        spans = held, since[held], far[held]
        by = met_by(attempts, asked, answered[asked], *spans, attempts.inv[asked])
        asked, hold = asked[by >= 0], by[by >= 0]
        both = attempts.mode[asked], attempts.mode[hold]
        apart = (both[0] == Mode.EXCLUSIVE) | (both[1] == Mode.EXCLUSIVE)
        pairs.append((hold[apart], asked[apart]))
    return _places(case, pairs, "hold", "asked", answered)


def asked_when_full(case: Case) -> Places:
    """Requests for permits of a semaphore, in flight when more were taken than left as many as were
    requested, and answered: a service that counts wrongly grants these at once."""
    attempts, answered, pairs = table(case), answered_at(case), list[Pair]()
    for key in np.unique(attempts.key[attempts.mode == Mode.PERMITS]).tolist():
        mine = np.flatnonzero((attempts.key == key) & (attempts.mode == Mode.PERMITS))
        terms = case.history.rows["op"][attempts.row[mine]]
        taken, limits = terms >> 24, np.unique(terms >> 8 & LOW_16)
        asked = (answered[mine] >= 0) & (attempts.op[mine] != Op.PROBE)
        for wanted in np.unique(taken[asked]).tolist() if len(limits) == 1 else ():
            same = mine[asked & (taken == wanted)]
            pairs.append(_when_taken(case, mine, taken, int(limits[0]) - wanted, same))
    return _places(case, pairs, "hold", "asked", answered)


def _when_taken(case: Case, every: Indices, taken: Ints, most: int, asked: Indices) -> Pair:
    """The requests in flight when more than `most` permits were taken, each with one of the holds
    at that time: the one that lasts longest."""
    attempts, answered = table(case), answered_at(case)
    since, far = attempts.known[every] + slack(case), reaches(case)[every] - slack(case)
    held = (attempts.known[every] < INF) & (far > since)
    every, since, far, taken = every[held], since[held], far[held], taken[held]
    t_ns, change = np.concatenate((since, far)), np.concatenate((taken, -taken))
    order = np.argsort(t_ns, kind="stable")
    t_ns, level = t_ns[order], np.cumsum(change[order])
    over = np.flatnonzero((level > max(0, most)) & (t_ns < np.append(t_ns[1:], INF)))
    if not len(over):
        return every[:0], asked[:0]
    begun, ended = t_ns[over], np.append(t_ns[1:], INF)[over]
    first = np.searchsorted(ended, attempts.inv[asked], "right")
    met = first < len(over)
    met[met] = begun[first[met]] < answered[asked[met]]
    asked, at_ns = asked[met], np.maximum(begun[first[met]], attempts.inv[asked[met]])
    order = np.argsort(since, kind="stable")
    last = np.maximum.accumulate(far[order])
    which = np.maximum.accumulate(np.where(far[order] == last, np.arange(len(last)), 0))
    place = which[np.searchsorted(since[order], at_ns, "right") - 1]
    return every[order][place], asked


def numbered_after(case: Case) -> Places:
    """Grants with a token that were requested when one to another client was known."""
    attempts, pairs = table(case), list[Pair]()
    for entries in granted(case).values():
        mine = entries[attempts.token[entries] != NO_TOKEN]
        before = last_other(attempts, mine, mine, attempts.inv[mine] - slack(case))
        pairs.append((before[before >= 0], mine[before >= 0]))
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
