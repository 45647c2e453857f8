"""Requests for a lock whose last holder's time was over: a service that never frees it, or keeps it
for a client that is gone, shows that to the next request.

    hold    |--grant--|....lease....|
    asked                    |~~~~waits~~~~|granted|       an opportunity: answered after the end
    asked         |refused|                                none: the lock was held
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from holdfast.checkers.facts.stalls import NO_ANSWER
from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import ENDS
from holdfast.checkers.holds.history_index import Bools, Indices, Ints, column
from holdfast.checkers.holds.overlaps import granted
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Mode, Op, Status

TRIED = (Op.TRY, Op.PROBE)
WAITED = (Op.ACQUIRE, Op.PROBE)
LEFT = tuple(ENDS.index(why) for why in ("", "closed", "killed"))
"""Ends of claims that their owners did not report: only a lease, a session or a connection frees
such a lock."""


class Next(NamedTuple):
    """Requests, as entries of the table: each `asked` had its last answer after the last hold of
    another client before it, `hold`, had certainly ended."""

    hold: Indices
    asked: Indices


def waited_on(case: Case) -> Places:
    """Acquires that were answered when the holder before them had certainly lost the lock."""
    return _places(case, _of(case, WAITED))


def tried_after(case: Case) -> Places:
    """The same of tries and probes."""
    return _places(case, _of(case, TRIED))


def free_tries(case: Case) -> Places:
    """The same of tries alone."""
    return _places(case, _of(case, (Op.TRY,)))


def waited_for_silent(case: Case) -> Places:
    """Acquires after a hold that its owner never gave up."""
    return _places(case, _left(case, _of(case, WAITED)))


def tried_after_silent(case: Case) -> Places:
    """The same of tries and probes."""
    return _places(case, _left(case, _of(case, TRIED)))


def unbounded(case: Case) -> Places:
    """Acquires whose own bound ran out before they were granted, with an answer by then or none."""
    attempts = table(case)
    back = np.minimum(attempts.ret, case.end_ns)
    over = attempts.inv + attempts.wait
    mine = (attempts.wait > 0) & ~attempts.ok & (back >= over)
    rows = attempts.row[mine]
    return Places(over[mine], attempts.inv[mine], {"asked": rows, "shows": rows})


@memoised
def answered_at(case: Case) -> Ints:
    """When each acquire had its last answer: its return, or else the last response that it waits;
    -1: never. A refusal may be a client's own, if it says that no response came."""
    attempts = table(case)
    texts = case.history.strings
    mute = [n for n, text in enumerate(texts) if any(words in text for words in NO_ANSWER)]
    failed = attempts.status == Status.FAIL
    silent = np.zeros(len(attempts), bool)
    if mute and failed.any():
        silent = failed & np.isin(column(case, "err")[attempts.row], mute)
    return np.where(attempts.unknown | silent, attempts.queued, attempts.ret)


def _of(case: Case, kinds: Iterable[Op]) -> Next:
    """The pairs of requests of these kinds."""
    attempts, every = table(case), _next(case)
    kept = np.isin(attempts.op[every.asked], [int(kind) for kind in kinds])
    return Next(every.hold[kept], every.asked[kept])


def _left(case: Case, pairs: Next) -> Next:
    """Those whose hold its owner did not report as over."""
    kept = np.isin(table(case).why[pairs.hold], LEFT)
    return Next(pairs.hold[kept], pairs.asked[kept])


@memoised
def _next(case: Case) -> Next:
    """All pairs. Memoised."""
    parts = [Next(*(np.zeros(0, np.intp),) * 2), *_of_locks(case)]
    holds, asked = (np.concatenate(entries) for entries in zip(*parts, strict=True))
    if not case.promises.subtrees:
        return Next(holds, asked)
    # A request for a path is on several ancestor chains: one pair is enough.
    asked, which = np.unique(asked, return_index=True)
    return Next(holds[which], asked)


def _of_locks(case: Case) -> Iterator[Next]:
    attempts, answered = table(case), answered_at(case)
    for key, entries in attempts.by_lock().items():
        asked = entries[answered[entries] >= 0]
        before = last_other(attempts, granted(case)[key], asked, answered[asked])
        asked, before = asked[before >= 0], before[before >= 0]
        over = attempts.over[before]
        kept = (over >= 0) & (over < answered[asked]) & _exclude(attempts, before, asked)
        yield Next(before[kept], asked[kept])


def last_other(attempts: Table, known: Indices, asked: Indices, by_ns: Ints) -> Ints:
    """For each request the last grant to another client that was known before a time, -1 for none.

    known   granted entries by when that was known. Of clients a b b b asks: from the last of its
            own, the grant that precedes its run, of a, is the last of another.
    """
    if not len(known) or not len(asked):
        return np.full(len(asked), -1)
    owner = attempts.process[known]
    begins = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    before_run = np.repeat(begins - 1, np.diff(begins, append=len(known)))
    place = np.searchsorted(attempts.known[known], by_ns, "left") - 1
    own = (place >= 0) & (owner[place] == attempts.process[asked])
    place[own] = before_run[place[own]]
    return np.where(place >= 0, known[place], -1)


def _exclude(attempts: Table, one: Ints, other: Indices) -> Bools:
    """Which pairs may never be held at once: not both shared."""
    exclusive = attempts.mode == Mode.EXCLUSIVE
    return np.asarray(exclusive[one] | exclusive[other])


def _places(case: Case, pairs: Next) -> Places:
    attempts, (hold, asked) = table(case), pairs
    return Places(
        answered_at(case)[asked],
        np.minimum(attempts.inv[hold], attempts.inv[asked]),
        {"hold": attempts.row[hold], "asked": attempts.row[asked]},
    )
