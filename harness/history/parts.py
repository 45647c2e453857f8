"""A history that does not fit in memory, part by part, each with the rows that it still needs.

A part ends at a time at which all writers have been read, and is the history that a run would have
left if everything had ended then (docs/decisions/0040). It begins with what is kept of the parts
before it: attempts that are not over, and everything of the time in which a call, a fault or a hold
that goes on began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import MERGED_DTYPE, Columns, among, room
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import host_clocks, reader
from holdfast.harness.history.calls import narrowed
from holdfast.harness.history.distinct_values import LOW_32, numbered
from holdfast.harness.history.reader import Header
from holdfast.harness.recording.packed_format import whole_frames

BLOCK_ROWS = 1 << 14
"""Rows that are read of a writer at a time, at most."""
LONGEST_NS = 300 * SECOND
"""How far back a call, a fault or a hold that goes on keeps everything. What goes on for longer is
kept alone."""

_ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
_FOLLOWS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
_NOTICES = (Op.WAITING, Op.LOST, Op.CLOSED)
_SERVED = (Op.SERVED_READ, Op.SERVED_WRITE)

Numbers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a history.

    rows       what was recorded before `until_ns`, in order of t_inv
    numbers    of each row its number in the whole history
    attempts   number of its attempts, and of each row that of its one, as `numbered` has them
    carried    which rows the next part has too; all False in the last one
    until_ns   its end; INF in the last one
    late       how many of its attempts were dropped before it, and have more rows now
    unsure     locks of attempts of unknown outcome that were dropped before it
    since_ns   everything that went on since then is in it; -1 in the first; next_since_ns: in the
               next part
    """

    rows: Columns
    numbers: Numbers
    attempts: tuple[int, Numbers]
    carried: Bools
    until_ns: int
    late: int
    unsure: frozenset[int]
    since_ns: int
    next_since_ns: int

    @property
    def last(self) -> bool:
        return self.until_ns == reader.LAST_NS


@dataclass(slots=True)
class _Writer:
    """How far one writer has been read.

    numbers   the run's number of each of its texts
    stamps_ns until when its kernel timestamps count
    """

    order: int
    headers: list[Header]
    numbers: Numbers
    stamps_ns: int
    segment: int = 0
    at: int = 0
    read_ns: int = -1

    @property
    def done(self) -> bool:
        return self.segment == len(self.headers)

    def block(self, most_rows: int) -> Columns | None:
        """Its next rows, so many at most; None if a segment ended."""
        header = self.headers[self.segment]
        left = reader.at_most(header) - self.at
        most_rows = min(most_rows, left)
        if header.packed:
            most_rows = whole_frames(self.at, most_rows)
        raw = reader.block_at(header.path, self.at, most_rows)
        count = len(raw["status"])
        if not count:
            if header.rows is not None and self.at < header.rows:
                raise UsageError(
                    f"{header.path}: {self.at} of the {header.rows} rows that its writer"
                    " recorded; copy the run directory again"
                )
            self.segment, self.at = self.segment + 1, 0
            return None
        shifted = replace(header, first_row=header.first_row + self.at)
        rows = reader.merge_form(shifted, raw, self.order, self.numbers, skipped=self.at)
        self.at += count
        if len(rows):
            self.read_ns = max(self.read_ns, int(rows["t_inv"].max()))
        return narrowed(rows, self.stamps_ns)


@dataclass(slots=True)
class Parts:
    """The parts of the history in a folder, of about `most_rows` new rows each.

    faults      [from, to] of every fault, ns; to INF while it is not healed
    margin_ns   how long everything is kept that is over: longer than any time that the system
                promises something within
    kills       when the clients of a process were killed, ns
    expires     whether a lease or session ends the hold of a client that does nothing
    longest_ns  how far back a call, a fault or a hold that goes on keeps everything
    total       rows of all segments, those never begun included
    seen        rows read so far; kept: largest number of rows that one part took over
    unsure      attempts of unknown outcome that were dropped; unsure_locks: of these locks
    since_ns    everything that went on since then is in the next part too
    """

    directory: Path
    most_rows: int
    faults: Sequence[tuple[int, int]]
    margin_ns: int
    expires: bool
    kills: Mapping[int, Sequence[int]] = field(default_factory=dict)
    longest_ns: int = LONGEST_NS
    strings: Sequence[str] = ()
    writers: Sequence[str] = ()
    metas: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seen: int = 0
    kept: int = 0
    unsure: int = 0
    unsure_locks: set[int] = field(default_factory=set)
    since_ns: int = -1
    total: int = 0
    _all: list[_Writer] = field(default_factory=list)
    _over: dict[int, Bools] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if host_clocks.read(self.directory.parent / host_clocks.FILE) is not None:
            raise UsageError(
                f"{self.directory}: a run of several hosts is judged at once, not in parts: its"
                " clocks are compared over the whole run"
            )
        table = reader.Strings()
        metas: dict[str, Mapping[str, Json]] = {}
        for writer, headers in reader.by_writer(self.directory).items():
            self.problems += reader.gaps(writer, headers)
            texts = table.add(reader.read_strings(self.directory / f"{writer}.strings"))
            one = _Writer(len(metas), headers, texts, reader.newest(headers)[1])
            metas[writer] = headers[0].meta
            self.total += sum(map(reader.at_most, headers))
            self._all.append(one)
        self.strings, self.writers, self.metas = table.strings, tuple(metas), metas

    def __iter__(self) -> Iterator[Part]:
        """The parts in order. UsageError if a file is damaged, or if its rows are out of order."""
        empty = room(MERGED_DTYPE, 0)
        kept, numbers, waiting = empty, np.empty(0, np.int64), [empty]
        before_ns = -1
        while before_ns < reader.LAST_NS:
            until_ns = self._read(waiting)
            rows, waiting = _joined(kept, waiting, until_ns)
            new = rows["t_inv"][len(kept) :]
            if len(new) and int(new[0]) < before_ns:
                raise UsageError(
                    f"{self.directory}: its rows are not in order of time, so that it cannot be"
                    " judged in parts"
                )
            numbers = np.concatenate((numbers, self.seen + np.arange(len(new))))
            self.seen += len(new)
            attempts = numbered(rows["attempt"])
            # Every attempt begins with a row of its own, and a client counts them from 1.
            if len(rows) and int((attempts[0] & LOW_32).max()) > self.total:
                raise UsageError(
                    f"{self.directory}: a row names an attempt that no client can have counted to;"
                    " it is damaged: copy the run directory again"
                )
            late, unsure = self._late(attempts[0]), frozenset(self.unsure_locks)
            since_ns = self.since_ns
            stays = self._stays(rows, attempts, until_ns)
            kept, given = rows[stays].copy(), numbers
            shown, rows = _cut(rows, until_ns)
            numbers, before_ns = numbers[stays], until_ns
            self.kept = max(self.kept, len(kept))
            part = Part(
                rows=rows, numbers=given[shown], attempts=(len(attempts[0]), attempts[2][shown]),
                carried=stays[shown], until_ns=until_ns, late=late, unsure=unsure,
                since_ns=since_ns, next_since_ns=self.since_ns,
            )  # fmt: skip
            del rows, new, given, attempts, stays, shown  # while the part is judged
            yield part
            del part

    def _read(self, waiting: list[Columns]) -> int:
        """Reads until enough rows wait; the time before which all rows have been read."""
        enough = self.most_rows + sum(map(len, waiting))
        block = min(BLOCK_ROWS, max(1, self.most_rows // (4 * len(self._all))))
        while True:
            open_ = [one for one in self._all if not one.done]
            if not open_:
                return reader.LAST_NS
            behind = min(open_, key=lambda one: one.read_ns)
            if sum(map(len, waiting)) >= enough and behind.read_ns > 0:
                return behind.read_ns
            rows = behind.block(block)
            if rows is not None:
                waiting.append(rows)

    def _late(self, attempts: Numbers) -> int:
        """How many of these attempts, which are sorted, were dropped before."""
        late = 0
        for process, mine in _by_process(attempts):
            over = self._over.get(process)
            if over is not None:
                late += int(over[mine[mine < len(over)]].sum())
        return late

    def _stays(
        self, rows: Columns, known: tuple[Numbers, Numbers, Numbers], until_ns: int
    ) -> Bools:
        """Which rows the next part has too. known: `numbered` of their attempts."""
        if until_ns == reader.LAST_NS:
            return np.zeros(len(rows), bool)
        attempts, first, of = known
        last = np.maximum(rows["t_inv"], rows["t_ret"])
        newest, begun = np.full(len(attempts), -1), rows["t_inv"][first]
        np.maximum.at(newest, of, last)
        flags = _going_on(rows, of, len(attempts), until_ns, self._dead(rows, until_ns))
        open_, waits, unknown, let_go = flags
        # What goes on keeps everything since it began, unless it began too long ago. A lease that
        # is not renewed is over.
        long_ago_ns = until_ns - self.longest_ns
        held = open_ & ~let_go & (newest >= (until_ns - self.margin_ns if self.expires else -1))
        pins = begun[(held | waits) & (attempts != 0)]
        active = [a for a, b in self.faults if a < until_ns and b >= until_ns - self.margin_ns]
        recent_ns = min([until_ns, *pins[pins >= long_ago_ns].tolist(), *active]) - self.margin_ns
        recent_ns = max(recent_ns, long_ago_ns)
        # A finding that counts later has a row since then; its other rows may be of the time in
        # which the attempts of such rows began, and what went on then decides whether it is one.
        lately = begun[(newest >= recent_ns) & (begun >= long_ago_ns) & (attempts != 0)]
        self.since_ns = int(lately.min(initial=recent_ns))
        since = self.since_ns - self.margin_ns
        goes_on = waits | (open_ & (newest >= (since if self.expires else -1)))
        dropped = unknown & ~waits & (newest < long_ago_ns - self.margin_ns)
        self.unsure += int(dropped.sum())
        self.unsure_locks.update(rows["key"][dropped[of] & among(rows["f"], _FOLLOWS)].tolist())
        goes_on |= unknown & ~dropped
        keep = goes_on | (newest >= since)
        # Rows of no attempt, as heartbeats: since the oldest attempt that goes on or is recent.
        oldest = int(begun[keep & (attempts != 0)].min(initial=since))
        oldest = max(oldest, long_ago_ns - self.margin_ns)
        keep |= _newest_of_each_lock(rows, of, len(attempts))
        keep[attempts == 0] = False
        stays: Bools = keep[of]
        stays |= (rows["attempt"] == 0) & (last >= oldest)
        self._drop(attempts[~keep & (attempts != 0)])
        return stays

    def _dead(self, rows: Columns, until_ns: int) -> Bools:
        """Which calls never returned because their client was killed."""
        dead: Bools = (rows["status"] == Status.INVOKED) & (rows["t_ret"] == 0)
        for place in np.flatnonzero(dead).tolist():
            kills = self.kills.get(int(rows["process"][place]), ())
            sent_ns = int(rows["t_inv"][place])
            dead[place] = any(sent_ns <= kill_ns < until_ns for kill_ns in kills)
        return dead

    def _drop(self, attempts: Numbers) -> None:
        for process, mine in _by_process(attempts):
            over = self._over.get(process, np.zeros(0, bool))
            most = int(mine.max()) + 1
            if most > len(over):
                over = np.concatenate((over, np.zeros(max(most - len(over), len(over)), bool)))
            over[mine] = True
            self._over[process] = over


def _by_process(attempts: Numbers) -> Iterator[tuple[int, Numbers]]:
    """(process, numbers of its attempts) of attempts that are sorted."""
    process = attempts >> 32
    edges = np.flatnonzero(np.diff(process, prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(edges):
        yield int(process[begin]), attempts[begin:end] & LOW_32


def _joined(kept: Columns, read: Sequence[Columns], until_ns: int) -> tuple[Columns, list[Columns]]:
    """(what is kept and then what was read and begun before a time, in order of time; the rest)."""
    order = _in_order(*(_of_all(read, name) for name in ("t_inv", "writer", "row")))
    now = int(np.searchsorted(_of_all(read, "t_inv")[order], until_ns))
    rows, rest = room(MERGED_DTYPE, len(kept) + now), room(MERGED_DTYPE, len(order) - now)
    for name in MERGED_DTYPE.names or ():
        # Column by column: the whole would be in memory twice.
        rows[name][: len(kept)] = kept[name]
        if any(part[name].any() for part in read):
            column = _of_all(read, name)
            # Without `mode` numpy would gather somewhere else first, and copy.
            np.take(column, order[:now], out=rows[name][len(kept) :], mode="clip")
            np.take(column, order[now:], out=rest[name], mode="clip")
        else:
            # Many columns have no number in many runs.
            rows[name][len(kept) :] = rest[name] = 0
    return rows, [rest]


def _of_all(read: Sequence[Columns], name: str) -> Numbers:
    return np.concatenate([rows[name] for rows in read])


def _in_order(t_inv: Numbers, writer: Numbers, row: Numbers) -> Numbers:
    """The order of time; of rows of one moment by writer and row, as `reader.recording` has it."""
    order = np.argsort(t_inv, kind="stable")
    ordered = t_inv[order]
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = ordered[1:] == ordered[:-1]
    # Times 4 6 6 9: only the places 1 and 2 are still to be ordered, and stay those two.
    tied = np.flatnonzero(same[1:] | same[:-1])
    rows = order[tied]
    order[tied] = rows[np.lexsort((row[rows], writer[rows], t_inv[rows]))]
    return order


def _cut(rows: Columns, until_ns: int) -> tuple[Bools | slice, Columns]:
    """Which rows had been recorded before a time, and these rows as they were then: `rows`, changed
    in place, if all had been."""
    late = rows["t_ret"] >= until_ns
    shown: Bools | slice = slice(None)
    if (hidden := late & among(rows["f"], _NOTICES)).any():
        shown = ~hidden
        rows, late = rows[shown].copy(), late[shown]
    reader.without_return(rows, late)
    return shown, rows


def _going_on(
    rows: Columns, of: Numbers, count: int, until_ns: int, dead: Bools
) -> tuple[Bools, Bools, Bools, Bools]:
    """Per attempt whether it was granted and neither given back nor lost; whether a response is
    missing at `until_ns`; whether it has an outcome that will stay unknown; whether its client sent
    a release. dead: calls whose client was killed."""
    kind, status = rows["f"], rows["status"]
    answered = (status > Status.INVOKED) & (rows["t_ret"] < until_ns)
    ended = answered & (
        ((kind == Op.RELEASE) & ((status == Status.OK) | (status == Status.NOT_OWNER)))
        | (kind == Op.LOST)
    )
    granted, over, waits, unknown, let_go = (np.zeros(count, bool) for _ in range(5))
    granted[of[answered & among(kind, _ASKS) & (status == Status.OK)]] = True
    over[of[ended]] = True
    waits[of[among(kind, _FOLLOWS) & ~answered & ~dead]] = True
    unknown[of[among(kind, _FOLLOWS) & ((answered & (status == Status.INFO)) | dead)]] = True
    let_go[of[kind == Op.RELEASE]] = True
    return granted & ~over, waits, unknown, let_go


def _newest_of_each_lock(rows: Columns, of: Numbers, count: int) -> Bools:
    """Per attempt whether it has the largest token of a lock or of a resource so far, is the last
    that asked for its lock, or the last that a resource accepted."""
    is_newest = np.zeros(count, bool)
    kind, ok = rows["f"], rows["status"] == Status.OK
    asked, served = among(kind, _ASKS), among(kind, _SERVED)
    for which in (asked, asked & ok, served & ok):
        places = np.flatnonzero(which)
        keys = rows["key"][places]
        for by in (rows["t_inv"][places], rows["token"][places]):
            most = np.full(int(keys.max(initial=0)) + 1, -1)
            np.maximum.at(most, keys, by)
            # Of several with the largest value the last one: an assignment to one place keeps it.
            equal = by == most[keys]
            newest = np.full(len(most), -1)
            newest[keys[equal]] = places[equal]
            is_newest[of[newest[newest >= 0]]] = True
    return is_newest
