"""The calls of a run: their intervals, narrowed by the kernel's timestamps; errors; their pace."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import Columns, History, Rows, among
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import CAME, LEFT, Op, Status
from holdfast.harness.verdicts.call_evidence import CallError, Narrowed

ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
CALLS = (*ASKS, Op.RENEW, Op.RELEASE, Op.FORCE_UNLOCK, Op.HEARTBEAT, Op.READ, Op.WRITE,
         Op.HOLDER, Op.PLACE, Op.LENGTH, Op.CHECK)  # fmt: skip
MOST = 10
"""Limit on the errors listed; a service with a time or address in each has as many as calls."""
TEXT = 300
Indices = npt.NDArray[np.intp]
_NUMBER = re.compile(r"\d+")


def call_errors(history: History) -> list[CallError]:
    """The most frequent errors, the most frequent first. O(n log n) in the rows.

    Only calls of unknown outcome: a rejection is a response, whatever its text.
    """
    rows = history.rows
    calls = among(rows["f"], CALLS)
    wrong = np.flatnonzero(calls & (rows["status"] == Status.INFO) & (rows["err"] > 0))
    if not len(wrong):
        return []
    # One number per (op, text): with 100 strings op 3 and text 7 make 307. So rows are grouped
    # before any text is read.
    pairs = rows["f"][wrong].astype(np.int64) * len(history.strings) + rows["err"][wrong]
    groups: dict[tuple[int, str], list[tuple[np.int64, Indices]]] = {}
    values, first, place = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(place, kind="stable")
    for value, at, members in zip(
        values, first, np.split(order, np.cumsum(np.bincount(place))[:-1]), strict=True
    ):
        op, text = divmod(int(value), len(history.strings))
        alike = (op, _NUMBER.sub("0", history.strings[text]))
        groups.setdefault(alike, []).append((wrong[at], wrong[members]))
    errors = [_one(history, op, members) for (op, _), members in groups.items()]
    return sorted(errors, key=lambda one: (-one.n, one.first_ns, one.op))[:MOST]


def _one(history: History, op: int, members: Sequence[tuple[np.int64, Indices]]) -> CallError:
    rows = history.rows
    first = min(int(at) for at, _ in members)
    every = np.concatenate([rows_ for _, rows_ in members])
    return CallError(
        op=Op(op).name.lower().replace("_", "-"),
        error=history.strings[int(rows["err"][first])][:TEXT],
        n=len(every),
        clients=len(np.unique(rows["process"][every])),
        first_ns=int(rows["t_inv"][first]),
        first_process=int(rows["process"][first]),
    )


def every_acquire_failed(history: History, start_ns: int, nodes: Mapping[int, str]) -> str:
    """One sentence if acquires were sent and all of them ended with errors, else "".

    Then nothing was exercised: the client does not work, for example.
    """
    rows = history.rows
    asked = rows[among(rows["f"], ASKS)]
    if (asked["status"] == Status.OK).any():
        return ""
    failed = (asked["status"] == Status.INFO) & (asked["err"] > 0)
    unknown = (asked["status"] == Status.INFO) | (asked["status"] == Status.INVOKED)
    # A response that an attempt waits is a response as well.
    if not failed.any() or not unknown.all() or (rows["f"] == Op.WAITING).any():
        return ""
    first = asked[failed][0]
    who = nodes.get(int(first["process"]), f"process {int(first['process'])}")
    at_s = (int(first["t_inv"]) - start_ns) / SECOND
    error = history.strings[int(first["err"])][:TEXT]
    return (
        f"every acquire failed with an error: {int(failed.sum()):,} of {len(asked):,} calls,"
        f" {len(np.unique(asked['process']))} clients; the first, of {who} at {at_s:.3f} s: {error}"
    )


ENOUGH = 0.9


def due(options: Mapping[str, str], span_ns: int) -> int:
    """Number of acquires due in the span of a workload; 0 without a planned rate."""
    return int(options.get("rate", "0")) * span_ns // SECOND


def too_few(issued: int, wanted: int) -> str | None:
    """Why the acquires that were sent do not show the planned load, None if they do."""
    if issued >= ENOUGH * wanted:
        return None
    return (
        f"driven at {issued / wanted:.0%} of the planned rate, {issued} of {wanted} acquires:"
        " more clients, more cores or a lower --rate"
    )


LOCK_CALLS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
STAMPED_CALLS = (*LOCK_CALLS, Op.READ, Op.WRITE)


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
    calls = ((status == Status.OK) | (status == Status.NOT_OWNER)) & among(kind, STAMPED_CALLS)
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
