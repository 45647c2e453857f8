"""Narrows the intervals of calls to the kernel's timestamps of their requests and responses."""

from __future__ import annotations

import numpy as np

from holdfast.harness.core.case import Columns, Rows, among
from holdfast.harness.core.operations import CAME, LEFT, Op, Status
from holdfast.harness.verdicts.evidence import Narrowed

LOCK_CALLS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
CALLS = (*LOCK_CALLS, Op.READ, Op.WRITE)


def narrowed(rows: Columns, until_ns: int) -> Columns:
    """The same rows, from the sending of their request to the arrival of its response, where known.

    Timestamps count in rows that were over by until_ns. Otherwise, or if they contradict the call
    or each other, tx, rx and flags become 0 and the call's own times stay. Changes `rows`.
    """
    flags = rows["flags"] & (LEFT | CAME)
    flags[(rows["t_ret"] == 0) | (rows["t_ret"] > until_ns)] = 0
    if not flags.any():
        for column in ("tx", "rx", "flags"):
            rows[column] = 0
        return rows
    tx = np.where(flags & LEFT, rows["tx"], 0).astype(np.int64)
    rx = np.where(flags & CAME, rows["rx"], 0).astype(np.int64)
    # A call from 10 to 20 with 3 before its sending and 2 after its response's arrival becomes 13
    # to 18; from 10 to 14 it would end before it begins.
    impossible = rows["t_ret"] - rows["t_inv"] - tx - rx < 0
    tx[impossible] = rx[impossible] = flags[impossible] = 0
    rows["tx"], rows["rx"], rows["flags"] = tx, rx, flags
    rows["t_inv"] += tx
    rows["t_ret"] -= rx
    return rows


def share(rows: Rows) -> Narrowed:
    """The number of calls that returned, of those with kernel timestamps at both edges, the same
    for calls to the lock only, and why not all of these have them."""
    status, kind, flags = rows["status"], rows["f"], rows["flags"]
    calls = ((status == Status.OK) | (status == Status.NOT_OWNER)) & among(kind, CALLS)
    stamped = calls & ((flags & (LEFT | CAME)) == LEFT | CAME)
    lock = calls & among(kind, LOCK_CALLS)
    of_lock, both_of_lock = int(lock.sum()), int((stamped & lock).sum())
    why = ""
    if of_lock and not flags[calls].any():
        why = "no call of this run has a kernel timestamp: their kernel provides none"
    elif of_lock and not flags[lock].any():
        why = (
            "the lock's client hides its sockets (libpq, gRPC, TLS, programs), or its"
            " adapter declares no `wire`; its intervals are not narrowed"
        )
    elif both_of_lock < of_lock:
        why = f"{of_lock - both_of_lock} of {of_lock} lock responses have no kernel timestamp"
    return Narrowed(
        calls=int(calls.sum()),
        narrowed=int(stamped.sum()),
        lock_calls=of_lock,
        lock_narrowed=both_of_lock,
        why=why,
    )
