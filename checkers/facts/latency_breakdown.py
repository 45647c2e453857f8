"""Latency of an acquire by part: network, before its proposal, commit, queue.

Only a service that measures itself can report it: T_acq = T_req + T_coord + T_commit + T_reply,
plus T_wait if it was queued. Network time in both directions is the rest of the client's total. To
separate the two directions, client and service must share a clock: that of their host.
"""

from __future__ import annotations

import numpy as np

from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Ints, acknowledged, column, rows_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op
from holdfast.harness.verdicts.evidence import Split

SAID = (1 << 16) - 1
EXPONENT, FRACTION = 11, (1 << 11) - 1


def acquire_split(case: Case) -> Split | None:
    """The breakdown of the granted acquires; None if the service reported its times for none."""
    attempts = table(case)
    spent = column(case, "spent")[attempts.row].astype(np.int64)
    entries = np.flatnonzero(attempts.ok & (spent > 0) & (attempts.op != Op.PROBE))
    if not len(entries):
        return None
    coordination = span_ns(spent[entries] & SAID)
    commit = span_ns(spent[entries] >> 16)
    told = _first_told(case)[entries]
    queued = told >= 0
    answered = np.where(queued, told, attempts.ret[entries])
    way = np.maximum(0, answered - attempts.inv[entries] - coordination - commit)
    read = _read_ns(case)[entries]
    apart = read >= 0
    request = np.clip(read - attempts.inv[entries], 0, way)[apart]
    return Split(
        said=len(entries),
        queued=int(queued.sum()),
        apart=int(apart.sum()),
        whole_ns=dist(attempts.ret[entries] - attempts.inv[entries]),
        way_ns=dist(way),
        request_ns=dist(request),
        reply_ns=dist(way[apart] - request),
        coordination_ns=dist(coordination),
        commit_ns=dist(commit),
        wait_ns=dist((attempts.ret[entries] - answered)[queued]),
        sentence=(
            "T_req ends when the service read the request, by the clock of the host that both share"
            if apart.any()
            else "T_req and T_reply are one number: no clock here tells one way from the other"
        ),
    )


def _read_ns(case: Case) -> Ints:
    """Per attempt the time at which the service had read its request, by the clock of its rows; -1:
    unknown.

    A service on another host reports it by its own clock.
    """
    attempts = table(case)
    read = np.full(len(attempts), -1)
    rows = rows_of(case, Op.ARRIVED)
    if len(rows) and not case.error_ns:
        entry = attempts.of_rows(rows)
        read[entry[entry >= 0]] = column(case, "res")[rows][entry >= 0]
    return read


def _first_told(case: Case) -> Ints:
    """Per attempt the time of the first response that it waits, -1: never."""
    attempts = table(case)
    rows = acknowledged(case)
    entry = attempts.of_rows(rows)
    first = np.full(len(attempts), np.iinfo(np.int64).max)
    known = entry >= 0
    np.minimum.at(first, entry[known], column(case, "t_inv")[rows][known])
    return np.where(first == np.iinfo(np.int64).max, -1, first)


def said_ns(spent: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Bounds in ns of each duration that `operations.spent` packed; None: not reported."""
    halves = np.array([spent & SAID, spent >> 16], np.int64)
    first, second = (
        (low, low + (low >> EXPONENT - 1) + 1000) if code else None
        for code, low in zip(halves.tolist(), span_ns(halves).tolist(), strict=True)
    )
    return first, second


def span_ns(code: Ints) -> Ints:
    """The durations that `operations.spent` packed into half words, ns."""
    code = np.maximum(code - 1, 0)
    # Floating point in 16 bits: 5 bits of exponent, 11 of fraction, in us, stored plus 1 (0: none).
    return ((code & FRACTION) << (code >> EXPONENT)) * 1000
