"""Small recordings for the timeline: a few clients in turns, one of them paused past its lease."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.reports.pictures.timeline import Recorded
from tests.reports.pieces import MS, SECOND, at

LEASE_NS = 2 * SECOND
STRINGS = ("", "db", "timed out")


def recorded(
    turns: int = 120, clients: int = 5, strings: Sequence[str] = STRINGS, token: int = 30
) -> Recorded:
    """Turns of 200 ms: acquire, write, release; every tenth acquire is refused, with an error."""
    rows: list[tuple[int, ...]] = []
    holds: list[tuple[int, int, int, bool]] = []
    for n in range(turns):
        process, start = 1 + n % clients, at(0.2 + 0.2 * n)
        attempt = process << 32 | (n // clients + 1)
        if n % 10 == 9:
            rows.append(
                (start, start + 30 * MS, attempt, NO_TOKEN, process, 2, Op.TRY, Status.FAIL)
            )
            continue
        end = start + (190 * MS if n % 7 else 140 * MS)
        acquire = (start, start + 5 * MS, attempt, token + n, process, 0, Op.ACQUIRE, Status.OK)
        holds.append((len(rows), end, end - (60 * MS if n % 7 == 0 else 0), n % 2 == 0))
        rows.append(acquire)
        sent = start + 20 * MS
        rows.append((sent, sent + 4 * MS, attempt, token + n, process, 0, Op.WRITE, Status.OK))
        served = (sent + MS, sent + MS, attempt, token + n, process, 0, Op.SERVED_WRITE)
        rows.append((*served, Status.OK if n % 8 else Status.FAIL))
        rows.append((end, end + 3 * MS, attempt, token + n, process, 0, Op.RELEASE, Status.OK))
    made = np.zeros(len(rows), MERGED_DTYPE)
    names = ("t_inv", "t_ret", "attempt", "token", "process", "err", "f", "status")
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        made[name] = column
    made["key"] = 1
    order = np.argsort(made["t_inv"], kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    row, ends, sure, lapses = (np.array(column) for column in zip(*holds, strict=True))
    return Recorded(
        history=History(rows=made[order], strings=strings, writers=("c",)),
        nodes={n: f"c{n}" for n in range(1, clients + 1)},
        drawn={
            "row": place[row],
            "end": ends,
            "sure": sure,
            "lapses": lapses,
            "lease": np.where(lapses, sure, -1),
            "renewal": np.zeros(0, np.int64),
            "margin": np.zeros(0, np.int64),
        },
    )
