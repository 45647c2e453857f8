"""Errors of the calls of a run: the most frequent ones, and whether all calls failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import History, among
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.evidence import CallError

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
