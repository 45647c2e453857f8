"""Intervals as the kernel saw them, instead of the edges of the calls around them."""

from __future__ import annotations

import numpy as np

from holdfast.harness.case import Rows
from holdfast.harness.events import CAME, LEFT, Op, Status

CALLS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE, Op.READ, Op.WRITE)


def narrowed(rows: Rows, until_ns: int) -> Rows:
    """The same rows, from when their request left to when its answer came, where that is known.

    Stamps count in rows that were over by until_ns. Where they do not, or contradict the call or
    each other, tx, rx and flags become 0 and the edges of the call stay. Changes `rows`.
    """
    flags = rows["flags"] & (LEFT | CAME)
    flags[(rows["t_ret"] == 0) | (rows["t_ret"] > until_ns)] = 0
    tx = np.where(flags & LEFT, rows["tx"], 0).astype(np.int64)
    rx = np.where(flags & CAME, rows["rx"], 0).astype(np.int64)
    impossible = rows["t_ret"] - rows["t_inv"] - tx - rx < 0
    tx[impossible] = rx[impossible] = flags[impossible] = 0
    rows["tx"], rows["rx"], rows["flags"] = tx, rx, flags
    rows["t_inv"] += tx
    rows["t_ret"] -= rx
    return rows


def share(rows: Rows) -> dict[str, int]:
    """How many calls were answered, and how many of those the kernel stamped at both edges."""
    calls = rows[(rows["status"] == Status.OK) | (rows["status"] == Status.NOT_OWNER)]
    calls = calls[np.isin(calls["f"], CALLS)]
    both = int((calls["flags"] == LEFT | CAME).sum())
    return {"calls": len(calls), "narrowed": both}
