"""A recorded history as a data frame: names instead of numbers, seconds instead of ns, NA for none.

One row per recorded row, in the order of the merged history, so that the index is what witnesses of
findings point at. `RAW` columns are the recording itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.harness.core import extras
from holdfast.harness.core.case import Case, Rows
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import (
    CAME,
    LEFT,
    NO_TOKEN,
    ONCE,
    Mode,
    Op,
    Status,
    attempt_name,
    client_names,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from pandas.api.extensions import ExtensionArray

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
ACQUIRES = (Op.ACQUIRE, Op.TRY, Op.PROBE)
VERSIONED = (Op.READ, Op.WRITE, Op.SERVED_READ, Op.SERVED_WRITE)
SERVED = (Op.SERVED_READ, Op.SERVED_WRITE)
TERMED = (Op.ACQUIRE, Op.TRY)
SCHEMA = "holdfast-frame/1"


def word(member: IntEnum) -> str:
    """The name of an operation, status or mode as every output spells it."""
    return member.name.lower().replace("_", "-")


class FrameColumns:
    """The columns of some rows of a case, each built when it is asked for."""

    def __init__(self, case: Case, chosen: Ints) -> None:
        self.pandas = extras.load("pandas", "a data frame")
        self.case, self.chosen = case, chosen
        every = case.history.rows
        self.rows: Rows = every if len(chosen) == len(every) else every[chosen]
        self.f = self.rows["f"]

    def build(self, name: str) -> ExtensionArray:
        return COLUMNS[name](self)

    # Shapes of columns.

    def category(self, codes: Ints, names: Sequence[str]) -> ExtensionArray:
        """Codes as names; -1 is NA. Names that no row has are left out."""
        used = np.zeros(len(names) + 1, np.bool_)
        used[codes] = True  # -1 marks the last place, which stands for NA
        places = np.cumsum(used) - 1
        places[-1] = -1
        kept = [name for name, there in zip(names, used[:-1], strict=True) if there]
        # Two numbers may have one name, such as a client that was restarted under a new number.
        place_of = {name: n for n, name in enumerate(dict.fromkeys(kept))}
        merged = np.array([place_of[name] for name in kept] + [-1])
        return self.pandas.Categorical.from_codes(merged[places[codes]], list(place_of))

    def enumerated(
        self, name: str, of: type[IntEnum], where: Bools | None = None
    ) -> ExtensionArray:
        codes = self.rows[name].astype(np.int64) - min(of)
        if where is not None:
            codes = np.where(where, codes, -1)
        return self.category(codes, [word(member) for member in of])

    def text(self, numbers: Ints) -> ExtensionArray:
        """Indices into the history's strings; the empty string is NA."""
        return self.category(numbers.astype(np.int64) - 1, self.case.history.strings[1:])

    def whole(self, values: Ints, where: Bools) -> ExtensionArray:
        return self.pandas.arrays.IntegerArray(np.where(where, values, 0), ~where)

    def seconds(self, ns: Ints, where: Bools | None = None) -> ExtensionArray:
        times = ns / SECOND
        return times if where is None else np.where(where, times, np.nan)

    def is_one_of(self, *ops: Op) -> Bools:
        # One look per row into a table of all kinds: ten times quicker than np.isin.
        kinds = np.zeros(256, np.bool_)
        kinds[list(ops)] = True
        fits: Bools = kinds[self.f]
        return fits

    # What several columns need.

    def completed(self) -> Bools:
        returned: Bools = self.rows["t_ret"] > 0
        return returned

    def since_start(self, ns: Ints, where: Bools | None = None) -> ExtensionArray:
        return self.seconds(ns - self.case.start_ns, where)

    def called_ns(self) -> Ints:
        """When the call was made: before the request left, where the kernel timestamped that."""
        return self.rows["t_inv"] - np.where(self.rows["flags"] & LEFT, self.rows["tx"], 0)

    def returned_ns(self) -> Ints:
        return self.rows["t_ret"] + np.where(self.rows["flags"] & CAME, self.rows["rx"], 0)

    def clients(self) -> ExtensionArray:
        """The client whose call or request it is; a writer that is no client by its own name."""
        process = self.rows["process"].astype(np.int64)
        known = self.case.nodes
        names = [known.get(n, "") for n in range(int(process.max(initial=-1)) + 1)]
        names += list(self.case.history.writers)
        lacking = np.array([not name for name in names], np.bool_)
        first = len(names) - len(self.case.history.writers)
        return self.category(
            np.where(lacking[process], first + self.rows["writer"], process), names
        )

    def attempts(self) -> ExtensionArray:
        """c5/33: the 33rd acquire of c5, c5.1/2 of c5 restarted; NA: the row belongs to none."""
        unique, codes = np.unique(self.rows["attempt"], return_inverse=True)
        clients = client_names(self.case.nodes)
        names = [attempt_name(clients, n) for n in unique.tolist()]
        return self.pandas.Categorical.from_codes(
            np.where(unique == 0, -1, np.arange(len(unique)) - int(0 in unique))[codes],
            [name for name, n in zip(names, unique, strict=True) if n != 0],
        )

    def durations(self, high: bool, *ops: Op) -> ExtensionArray:
        """One half of column `spent`, in seconds: exponent << 11 | fraction of us, plus one."""
        packed = (self.rows["spent"].astype(np.int64) >> (16 if high else 0)) & 0xFFFF
        code = packed - 1
        us = (code & 0x7FF) << (code >> 11)
        return self.seconds(us * 1000, self.is_one_of(*ops) & (packed > 0))

    def answered(self, *ops: Op) -> Bools:
        """Rows of these operations whose number in `res` is a response."""
        ok = (self.rows["status"] == Status.OK) & (self.rows["res"] >= 0)
        fits: Bools = self.is_one_of(*ops) & ok
        return fits

    def terms(self, first_bit: int, bits: int, where: Bools) -> ExtensionArray:
        """A field of the terms of acquires."""
        return self.whole(self.rows["op"] >> first_bit & ((1 << bits) - 1), where)

    def of_semaphore(self) -> Bools:
        fits: Bools = self.is_one_of(*TERMED) & (self.rows["mode"] == Mode.PERMITS)
        return fits

    def only_after(self) -> ExtensionArray:
        """The newest token after which alone an acquire was to be granted; 0: the first grant."""
        after = self.rows["op"] >> 8
        return self.whole(
            after - 1, self.is_one_of(*TERMED) & (self.rows["mode"] != Mode.PERMITS) & (after > 0)
        )

    def highest_before(self) -> ExtensionArray:
        """The highest token that the resource had admitted before a request."""
        tokens = np.where(self.f == Op.SERVED_WRITE, self.rows["aux"], self.rows["arg"])
        return self.whole(tokens, self.is_one_of(*SERVED) & (tokens != NO_TOKEN))

    def of_holder(self) -> Bools:
        """Responses to queries about the holder; their text in `err` is that of the hold."""
        fits: Bools = self.is_one_of(Op.HOLDER) & (self.rows["status"] == Status.OK)
        return fits

    def requests(self) -> ExtensionArray:
        """The row of the client's call that a row of the resource's log answers."""
        every = self.case.history.rows
        calls = self.case.history.of(Op.READ, Op.WRITE)
        names = every["process"][calls].astype(np.int64) << 32 | every["row"][calls]
        served = np.flatnonzero(self.is_one_of(*SERVED))
        wanted = self.rows["op"][served].astype(np.int64)
        call_of, there = np.zeros(len(self.rows), np.int64), np.zeros(len(self.rows), np.bool_)
        if len(names):
            order = np.argsort(names, kind="stable")
            at = np.searchsorted(names, wanted, sorter=order)
            at = order[np.minimum(at, len(names) - 1)]
            call_of[served], there[served] = calls[at], names[at] == wanted
        return self.whole(call_of, there)


def _asked(columns: FrameColumns) -> Bools:
    return columns.is_one_of(*ACQUIRES, Op.RENEW)


COLUMNS: Mapping[str, Callable[[FrameColumns], ExtensionArray]] = {
    "op": lambda c: c.enumerated("f", Op),
    "status": lambda c: c.enumerated("status", Status),
    "client": lambda c: c.clients(),
    "lock": lambda c: c.text(c.rows["key"]),
    "attempt": lambda c: c.attempts(),
    "token": lambda c: c.whole(c.rows["token"], c.rows["token"] != NO_TOKEN),
    "invoked": lambda c: c.since_start(c.called_ns()),
    "sent": lambda c: c.since_start(c.rows["t_inv"], (c.rows["flags"] & LEFT) > 0),
    "received": lambda c: c.since_start(
        c.rows["t_ret"], ((c.rows["flags"] & CAME) > 0) & c.completed()
    ),
    "returned": lambda c: c.since_start(c.returned_ns(), c.completed()),
    "latency": lambda c: c.seconds(c.returned_ns() - c.called_ns(), c.completed()),
    "late": lambda c: c.rows["late"] / 1e6,
    "mode": lambda c: c.enumerated("mode", Mode, c.is_one_of(*ACQUIRES)),
    "lease_requested": lambda c: c.seconds(c.rows["arg"], _asked(c) & (c.rows["arg"] > 0)),
    "lease_granted": lambda c: c.seconds(
        c.rows["res"],
        (_asked(c) | c.is_one_of(Op.HEARTBEAT))
        & (c.rows["status"] == Status.OK)
        & (c.rows["res"] > 0),
    ),
    "wait_limit": lambda c: c.seconds(
        c.rows["aux"], c.is_one_of(Op.ACQUIRE, Op.PROBE) & (c.rows["aux"] >= 0)
    ),
    "queued_for": lambda c: c.durations(False, Op.ACQUIRE, Op.TRY),
    "commit_took": lambda c: c.durations(True, Op.ACQUIRE, Op.TRY),
    "held_for": lambda c: c.durations(False, Op.HOLDER),
    "lease_left": lambda c: c.durations(True, Op.HOLDER),
    "renewals": lambda c: c.whole(c.rows["res"], c.answered(Op.HOLDER)),
    "metadata": lambda c: c.text(np.where(c.of_holder(), c.rows["err"], 0)),
    "place": lambda c: c.whole(c.rows["res"], c.answered(Op.WAITING, Op.PLACE)),
    "queue_length": lambda c: c.whole(c.rows["res"], c.answered(Op.LENGTH)),
    "entries_left": lambda c: c.whole(
        c.rows["res"] - 1, c.answered(Op.RELEASE) & (c.rows["res"] > 0)
    ),
    "arrived": lambda c: c.since_start(c.rows["res"], c.answered(Op.ARRIVED)),
    "session": lambda c: c.whole(c.rows["arg"], c.is_one_of(Op.HEARTBEAT)),
    "reenters": lambda c: c.terms(0, 1, c.is_one_of(*TERMED)),
    "priority": lambda c: c.terms(1, 7, c.is_one_of(*TERMED)),
    "permits": lambda c: c.terms(24, 39, c.of_semaphore()),
    "permits_of": lambda c: c.terms(8, 16, c.of_semaphore()),
    "only_after": lambda c: c.only_after(),
    "version": lambda c: c.whole(
        c.rows["res"], c.is_one_of(*VERSIONED) & (c.rows["res"] >= 0) & c.completed()
    ),
    "base_version": lambda c: c.whole(
        c.rows["arg"], c.is_one_of(Op.WRITE, Op.SERVED_WRITE) & (c.rows["arg"] >= 0)
    ),
    "resends": lambda c: c.whole(c.rows["aux"], c.is_one_of(Op.WRITE) & (c.rows["aux"] != ONCE)),
    "highest_token_before": lambda c: c.highest_before(),
    "request": lambda c: c.requests(),
    "reason": lambda c: c.text(np.where(c.is_one_of(Op.LOST, Op.CLOSED), c.rows["res"], 0)),
    "error": lambda c: c.text(np.where(c.of_holder(), 0, c.rows["err"])),
}
"""Column -> how it is built. Times are seconds since the workload began, durations seconds.

op, status, mode       words, as in `holdfast export`
client                 who made the call; of the resource's log whose request it was
attempt                the acquire that the row belongs to: "c5/33", "c5.1/2" after a restart
invoked, returned      the call and its return; NaN: it never returned
sent, received         the same edges on the connection, where the kernel timestamped them
late                   how long after it was due the call was made
queued_for, commit_took   of an acquire, as measured by the service
held_for, lease_left, renewals, metadata   of a holder query, as answered
place, queue_length    requests ahead in the queue, and all in it, as answered
entries_left           entries that the owner still has in the lock after a release, as answered
arrived                when the service read the request of an acquire, as answered
session                id of a heartbeat's session
reenters, priority     terms of an acquire: 1 if it may come in again, larger is granted first
permits, permits_of    of a semaphore's acquire: permits requested, of how many
only_after             of an acquire: granted only after this newest token, 0: as the first
version, base_version  of reads and writes of the resource: written or read, and built on
resends                of a write: how many times more it is sent; NA: it is named by its key
highest_token_before   of the resource's log: highest token admitted before the request
request                of the resource's log: index of the client's call
reason                 of a loss notification or a closed session
"""


def rows_where(
    case: Case,
    ops: Collection[str] | None,
    lock: str | None,
    client: str | None,
    between: tuple[float, float] | None,
) -> Ints:
    """Row numbers that fit every filter. between: seconds since the start, of the call."""
    rows = case.history.rows
    fits = np.ones(len(rows), np.bool_)
    if ops is not None:
        known = {word(op): int(op) for op in Op}
        wrong = sorted(set(ops) - known.keys())
        if wrong:
            raise UsageError(f"unknown op {wrong[0]!r}: expected {', '.join(known)}")
        fits &= np.isin(rows["f"], [known[op] for op in ops])
    if lock is not None:
        fits &= np.array([text == lock for text in case.history.strings], np.bool_)[rows["key"]]
    if client is not None:
        numbers = [n for n, name in case.nodes.items() if name == client]
        fits &= np.isin(rows["process"], numbers)
    if between is not None:
        first, last = (case.start_ns + round(edge * SECOND) for edge in between)
        fits &= (rows["t_inv"] >= first) & (rows["t_inv"] < last)
    chosen: Ints = np.flatnonzero(fits)
    return chosen


def frame(case: Case, chosen: Ints, columns: Collection[str] | None = None) -> DataFrame:
    """The data frame of some rows of a case. UsageError for a column that there is not."""
    names = list(COLUMNS) if columns is None else list(columns)
    wrong = [name for name in names if name not in COLUMNS]
    if wrong:
        raise UsageError(f"unknown column {wrong[0]!r}: expected {', '.join(COLUMNS)}")
    built = FrameColumns(case, chosen)
    index = built.pandas.Index(chosen, name="row")
    columns_of = {name: built.build(name) for name in names}
    # Every column is new: without copy=False pandas copies all of them into one block.
    data = built.pandas.DataFrame(columns_of, index=index, copy=False)
    data.attrs["holdfast"] = SCHEMA
    return data


def raw(case: Case, chosen: Ints) -> DataFrame:
    """The recorded columns as they are: numbers, ns of the run's clock, indices into strings."""
    pandas = extras.load("pandas", "a data frame")
    rows = case.history.rows[chosen]
    return pandas.DataFrame(
        {name: rows[name] for name in rows.dtype.names or ()},
        index=pandas.Index(chosen, name="row"),
    )
