"""Waits in which the order of a queue shows: another client asked later, while the first waited.

A queue that is not served in order shows it only there.

    first     |asks|~~~~~~~waits~~~~~~~|granted|
    second              |asks|~~~~~waits~~~~~~~~|granted|      an opportunity
    third                                 |asks, granted|      none: no client waited
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from holdfast.checkers.holds.attempt_table import Table, table
from holdfast.checkers.holds.derive import ordered_tokens
from holdfast.checkers.holds.history_index import Bools, Indices, Ints
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.checkers.holds.reentry import anew
from holdfast.checkers.holds.token_order import ordered
from holdfast.checkers.holds.waits import first_told, waits
from holdfast.checkers.opportunities.open_spans import OpenSpans, open_spans
from holdfast.checkers.opportunities.outlived import Strokes
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.checkers.opportunities.strokes import Stroke, unstaged
from holdfast.harness.core.case import Case, Window, memoised
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op
from holdfast.harness.core.verdict import Promises, Seen


class Behind(NamedTuple):
    """Pairs of certain grants of one lock, as entries of the table: each `second` was asked for
    when `first` had the response that it waits, and waited behind it or overtook it."""

    first: Indices
    second: Indices


def behind_waiters(case: Case) -> Places:
    """Waits behind which another client waited for the same lock in the same mode, or that it
    overtook; each once."""
    return _places(case, _pairs(case))


def patient_waits(case: Case) -> Places:
    """The same where the lock was granted to other clients, within the bound of the wait, more
    often than a wait may be overtaken without starving."""
    most = len(case.nodes) + max(0, case.promises.aging)
    return _patient(case, np.full(len(table(case)), most))


def bounded(promises: Promises) -> bool:
    """Whether the order of its queue bounds how often a waiter is overtaken."""
    aging = promises.order == "priority" and promises.aging >= 0
    return promises.order == "fifo" or aging


def has_queues(case: Case) -> bool:
    """Whether clients wait behind each other. Where at most one waits and the others only try, it
    is retries that may starve."""
    return queued_behind(case) > 0


def queued_behind(case: Case) -> int:
    """Waits that were called, and told to wait, while another client certainly waited for the same
    lock in the same mode, granted or not: what an unfair queue starves gives up in the end, without
    a grant."""
    if "queued behind" not in case.memo:
        attempts, since, behind = table(case), first_told(case), 0
        until = attempts.ret.copy()
        for known, _ in _queues(case):
            until[known] = np.minimum(until[known], _until(case, known))
        waited = (attempts.op != Op.PROBE) & (since < INF)
        for entries in attempts.by_lock().values():
            for mode in np.unique(attempts.mode[entries[waited[entries]]]).tolist():
                mine = entries[waited[entries] & (attempts.mode[entries] == mode)]
                # Waits from 3 and 5 until 9 and 7: a response at 8 is behind the first. A client's
                # own earlier wait ended before its call.
                mine = mine[np.argsort(since[mine], kind="stable")]
                latest = np.maximum.accumulate(np.append(-1, until[mine]))
                told_before = np.searchsorted(since[mine], attempts.inv[mine], "left")
                behind += int((latest[told_before] > since[mine]).sum())
        case.memo["queued behind"] = behind
    return int(case.memo["queued behind"])


def waits_beyond_queues(case: Case) -> Places:
    """The same where that was more often than there were requests ahead in the queue."""
    attempts, since = table(case), first_told(case)
    ahead = np.zeros(len(attempts), np.int64)
    locks, firsts = attempts.by_lock(), _pairs(case).first
    groups = [(np.arange(len(attempts)), firsts)]
    if not case.promises.subtrees:
        groups = [(locks[key], mine) for key, mine in _firsts(case)]
    for entries, mine in groups:
        # As the property counts them: called before the first response, not returned at the call.
        asked, answered = np.sort(attempts.inv[entries]), np.sort(attempts.ret[entries])
        called = np.searchsorted(asked, since[mine] + slack(case), "right")
        gone = np.searchsorted(answered, attempts.inv[mine] - slack(case), "left")
        ahead[mine] = called - gone - 1
    return _patient(case, ahead)


def _patient(case: Case, most: Ints) -> Places:
    """The waits with another behind and more than so many grants to others within their bound, and
    those that were overtaken so often."""
    attempts, pairs = table(case), _pairs(case)
    enough = _turns(case) > most
    for one in waits(case).overtaken:
        entry = attempts.of_id(np.array([one.attempt.id]))
        enough[entry] |= len(one.by) > most[entry]
    kept = enough[pairs.first]
    return _places(case, Behind(pairs.first[kept], pairs.second[kept]))


def requeued(case: Case, windows: Sequence[Window], strokes: Strokes, what: str) -> Seen:
    """Strokes at which two clients waited, by the responses before, and that were granted the lock
    later: a queue that is restored in another order shows there.

    what   the servers that a stroke strikes, for the nearest miss
    """
    hits = strokes(case, windows)
    if not hits:
        return unstaged(windows, what)
    count, roles, fault = 0, dict[str, int](), ""
    for stroke in hits:
        met = _across(case, stroke)
        if met and not count:
            roles, fault = met, stroke.window.id
        count += bool(met)
    if count:
        return Seen(count=count, roles=roles, fault=fault)
    kind = hits[0].window.do
    pairs = _pairs(case)
    return Seen(
        # Of a lock that is mostly shared the order of a queue hardly shows.
        staged=bool((table(case).mode[pairs.first] == Mode.EXCLUSIVE).any()),
        nearest=f"no two clients waited for one lock when a {kind} struck {what}, and were granted"
        f" it later: 0 of {len(hits)}",
    )


def _across(case: Case, stroke: Stroke) -> dict[str, int]:
    """Two waits for one lock that a stroke met, the second of which was called when the first had
    that response; {} if there are none."""
    attempts, since = table(case), first_told(case)
    from_ns, later_ns = stroke.from_ns - slack(case), stroke.from_ns + slack(case)
    for n, (known, _) in enumerate(_queues(case)):
        waiting = open_spans(case, ("wait", n), partial(OpenSpans, known, since, attempts.ret))
        met = waiting.between(later_ns, from_ns)
        met = met[np.argsort(attempts.inv[met], kind="stable")]
        met = met[(attempts.mode[met] == Mode.EXCLUSIVE) & _in_order(case, met)]
        if not len(met):
            continue
        first = met[int(np.argmin(since[met]))]
        behind = attempts.inv[met] > since[first] + slack(case)
        behind &= attempts.process[met] != attempts.process[first]
        if behind.any():
            second = met[behind][0]
            return {"waiter": int(attempts.row[first]), "later": int(attempts.row[second])}
    return {}


def _places(case: Case, pairs: Behind) -> Places:
    """Places at which both were granted: until then, either can have come first."""
    attempts, (first, second) = table(case), pairs
    return Places(
        np.maximum(attempts.ret[first], attempts.ret[second]),
        np.minimum(attempts.inv[first], attempts.inv[second]),
        {"waiter": attempts.row[first], "later": attempts.row[second]},
    )


@memoised
def _pairs(case: Case) -> Behind:
    """A pair for each wait that has one, in order of the calls. Memoised."""
    parts = [Behind(*(np.zeros(0, np.intp),) * 2)]
    parts += _of_locks(case)
    firsts, seconds = (np.concatenate(entries) for entries in zip(*parts, strict=True))
    # A wait for a path may be behind others on several ancestor chains: one pair is enough.
    firsts, which = np.unique(firsts, return_index=True)
    return Behind(firsts, seconds[which])


def _of_locks(case: Case) -> Iterator[Behind]:
    attempts, since = table(case), first_told(case)
    for known, later in _queues(case):
        until = _until(case, known)
        for mode in np.unique(attempts.mode[known]).tolist():
            waited = (since[known] < INF) & (attempts.mode[known] == mode) & _in_order(case, known)
            others = later[attempts.mode[later] == mode]
            yield _in_windows(case, known[waited], until[waited], others)


@memoised
def _queues(case: Case) -> Sequence[tuple[Indices, Indices]]:
    """Per lock whose tokens and grants agree: its ok grants with a token in order of call, and
    those of them that certainly began a new hold. Memoised: each stroke looks at them."""
    return list(_sorted_queues(case))


def _sorted_queues(case: Case) -> Iterator[tuple[Indices, Indices]]:
    attempts = table(case)
    for key, entries in granted(case).items() if ordered_tokens(case) else ():
        if not ordered(case, key):
            continue
        known = entries[attempts.ok[entries] & (attempts.token[entries] != NO_TOKEN)]
        known = known[np.argsort(attempts.inv[known], kind="stable")]
        yield known, known[anew(case, known)]


def _in_order(case: Case, entries: Indices) -> Bools:
    """Whether the tokens of each one's own lock show the order of its grants: of a path more grants
    than those of one chain on which it lies."""
    keys, which = np.unique(table(case).key[entries], return_inverse=True)
    return np.array([ordered(case, key) for key in keys.tolist()], bool)[which]


def _until(case: Case, known: Indices) -> Ints:
    """Until when each grant had certainly not happened: the end of the claim of the one with the
    next smaller token, for the lock was held; its own return at the latest."""
    attempts = table(case)
    by_token = known[np.argsort(attempts.token[known], kind="stable")]
    place = np.searchsorted(attempts.token[by_token], attempts.token[known], "left")
    ended = np.concatenate((np.array([-1]), attempts.end[by_token]))
    return np.asarray(np.minimum(ended[place], attempts.ret[known]))


def _in_windows(case: Case, waited: Indices, until: Ints, later: Indices) -> Behind:
    """For each wait one entry of `later`, which is in order of call, that was called during it: of
    the earliest response that it waits, or of the smallest token, if it overtook.

    Of responses at 5 9 7 the smallest from places 0 to 3 is at place 0: ranks 0 2 1 are
    compared, for the rank names the place.
    """
    attempts, since = table(case), first_told(case)
    low = np.searchsorted(attempts.inv[later], since[waited] + slack(case), "right")
    high = np.searchsorted(attempts.inv[later], attempts.ret[waited], "left")
    some = low < high
    waited, until, low, high = waited[some], until[some], low[some], high[some]
    first, second = list[Indices](), list[Indices]()
    for column, limit in ((since, until), (attempts.token, attempts.token[waited])):
        other = later[_least(column[later], low, high)]
        met = (column[other] < limit) & (attempts.process[other] != attempts.process[waited])
        first.append(waited[met])
        second.append(other[met])
    return Behind(np.concatenate(first), np.concatenate(second))


def _least(values: Ints, low: Ints, high: Ints) -> Indices:
    """The places of the smallest value in each window [low, high), none of which is empty."""
    if not len(low):
        return np.zeros(0, np.intp)
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values) + 1, np.int64)
    ranks[order], ranks[-1] = np.arange(len(values)), len(values)
    # reduceat at low0 high0 low1 high1 ...: every second result is the minimum of one window.
    edges = np.stack((low, high), axis=1).ravel()
    return np.asarray(order[np.minimum.reduceat(ranks, edges)[::2]])


@memoised
def _turns(case: Case) -> Ints:
    """Of each wait with another behind it, how many certain grants of its lock to other clients
    were called after its first response, and known within its bound; at least: those called before
    it count as known. Of every entry of the table, -1 of all others. Memoised."""
    attempts, since = table(case), first_told(case)
    most = np.full(len(attempts), -1)
    for key, mine in _firsts(case):
        until = np.where(attempts.wait[mine] < 0, INF, attempts.inv[mine] + attempts.wait[mine])
        entries = granted(case)[key]
        turns = _known_between(attempts, entries, since[mine], until)
        # Its own grants are no turns of others.
        for process in np.unique(attempts.process[mine]).tolist():
            asks = attempts.process[mine] == process
            own = entries[attempts.process[entries] == process]
            turns[asks] -= _known_between(attempts, own, since[mine[asks]], until[asks])
        # A path lies on several chains.
        most[mine] = np.maximum(most[mine], turns)
    return most


def _known_between(attempts: Table, entries: Indices, from_ns: Ints, to_ns: Ints) -> Ints:
    """For each span how many of these were known by its end, less those called by its begin."""
    known, inv = np.sort(attempts.known[entries]), np.sort(attempts.inv[entries])
    by_end = np.searchsorted(known, to_ns, "right")
    return np.asarray(by_end - np.searchsorted(inv, from_ns, "right"))


def _firsts(case: Case) -> Iterator[tuple[int, Indices]]:
    """Per lock of which grants are known, those of them that have another behind them."""
    first = np.zeros(len(table(case)), bool)
    first[_pairs(case).first] = True
    for key, entries in granted(case).items():
        mine = entries[first[entries]]
        if len(mine):
            yield key, mine
