"""The newest part of a history that is still being written, as a history of its own.

A history that is cut at a time T is what a run would have left if everything had ended then: a call
without a response may have taken effect or not. So a safety violation in it is one of the whole
history, unless later rows refute an assumption that it rests on.

Memory is bounded: the oldest attempts that are over are dropped, each with all of its rows. That
can hide a violation between an old and a new attempt, and never makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import MERGED_DTYPE, stacked
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import reader
from holdfast.harness.history.reader import ROW_DTYPE, Header, Recording, rows_at, segment_files

MOST_ROWS = 10_000
"""Rows that are kept. To read, merge and judge them takes about 20 ms of CPU."""
LOOK_ROWS = 4_096
"""Rows of a segment that are read at a time."""
_GRANTS = (Op.ACQUIRE, Op.TRY)
_ENDS = (Op.RELEASE, Op.LOST)

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
"""as recorded: of ROW_DTYPE"""


@dataclass
class _Followed:
    """One segment: how many of its rows were read, and those that are kept, with their numbers."""

    header: Header
    read: int = 0
    rows: Rows = field(default_factory=lambda: np.empty(0, ROW_DTYPE))
    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))


class Growing:
    """Follows the segments of a run whose writers are on this machine.

    most_rows   how many rows are kept, unless more of them belong to attempts that go on
    seen        rows read so far
    dropped     of these, the rows that are no longer kept
    """

    def __init__(self, directory: Path, most_rows: int = MOST_ROWS) -> None:
        self._directory = directory
        self._most_rows = most_rows
        self._segments: dict[Path, _Followed] = {}
        self.seen = 0
        self.dropped = 0

    def until(self, cut_ns: int) -> Recording | None:
        """What had been recorded by a time that has passed, of the rows that are kept; None if
        there are no rows yet.

        What was invoked before `cut_ns` and is not in the files yet has no effect so far: a writer
        records a call before it sends the request. UsageError if a file is damaged.
        """
        for path in segment_files(self._directory):
            if path not in self._segments:
                # UsageError: its writer has only just made the file.
                with suppress(UsageError):
                    self._segments[path] = _Followed(reader.read_header(path))
        # Also one that was not listed: some file systems miss a name whose file is replaced.
        for segment in self._segments.values():
            self._follow(segment)
        if not self.seen:
            return None
        self._drop()
        return self._merged(cut_ns)

    def _follow(self, one: _Followed) -> None:
        """Reads a segment's new rows, and again those that had not returned."""
        waited = np.flatnonzero(one.rows["status"] == Status.INVOKED)
        if one.read == one.header.capacity and not len(waited):
            return
        for at in waited.tolist():
            one.rows[at] = _stable(one.header.path, int(one.numbers[at]), 1)[0]
        parts, numbers = [one.rows], [one.numbers]
        while len(rows := _stable(one.header.path, one.read, LOOK_ROWS)):
            parts.append(rows)
            numbers.append(np.arange(one.read, one.read + len(rows)))
            one.read += len(rows)
            self.seen += len(rows)
        one.rows, one.numbers = np.concatenate(parts), np.concatenate(numbers)

    def _drop(self) -> None:
        """Drops the oldest attempts that are over, if there are too many rows."""
        followed = list(self._segments.values())
        rows = np.concatenate([one.rows for one in followed])
        if len(rows) <= self._most_rows:
            return
        keep = _kept(rows, _over(rows, self._most_rows // 2))
        self.dropped += int(len(keep) - keep.sum())
        bounds = np.cumsum([len(one.rows) for one in followed])[:-1]
        for one, mine in zip(followed, np.split(keep, bounds), strict=True):
            one.rows, one.numbers = one.rows[mine], one.numbers[mine]

    def _merged(self, cut_ns: int) -> Recording:
        by_writer: dict[str, list[_Followed]] = {}
        for one in self._segments.values():
            by_writer.setdefault(one.header.writer, []).append(one)
        table, parts = reader.Strings(), []
        metas: dict[str, Mapping[str, Json]] = {}
        for writer, segments in by_writer.items():
            # After the rows: a text is in its file before the first row that names it.
            texts = reader.read_strings(self._directory / f"{writer}.strings")
            numbers, order = table.add(texts), len(metas)
            metas[writer] = segments[0].header.meta
            for one in sorted(segments, key=lambda one: one.header.first_row):
                part = reader.merge_form(one.header, one.rows, order, numbers)
                part["row"] = one.numbers + one.header.first_row
                # Not narrowed by kernel timestamps: t_inv and t_ret are those of the call itself.
                for column in ("tx", "rx", "flags"):
                    part[column] = 0
                parts.append(reader.cut(part, cut_ns))
        rows = stacked(MERGED_DTYPE, parts)
        return reader.recording(rows, table, metas, dict.fromkeys(metas, 0), [])


def _stable(path: Path, at: int, count: int) -> Rows:
    """The rows of a segment from number `at` on that have begun, each as of one moment.

    A writer stores the status of a row last. So a row whose status was final in one reading is
    whole in the next; of one that was not, only the call counts.
    """
    first = rows_at(path, at, count)
    empty = np.flatnonzero(first["status"] == Status.EMPTY)
    first = first[: empty[0]] if len(empty) else first
    rows: Rows = rows_at(path, at, len(first)).copy()
    reader.without_return(rows, first["status"] == Status.INVOKED)
    return rows


def _over(rows: Rows, count: int) -> Numbers:
    """The attempts to drop so that about `count` rows are left: the oldest that are over.

    Those that wait for a response or hold a lock stay, unless they alone are too many.
    """
    attempts, of = np.unique(rows["attempt"], return_inverse=True)
    last = np.maximum(rows["t_inv"], rows["t_ret"])
    newest = np.zeros(len(attempts), np.int64)
    np.maximum.at(newest, of, last)
    recent = newest >= np.partition(last, len(last) - count)[len(last) - count]
    going_on = np.zeros(len(attempts), bool)
    answered = rows["status"] > Status.INVOKED
    going_on[of[np.isin(rows["f"], _GRANTS) & (rows["status"] == Status.OK)]] = True
    going_on[of[np.isin(rows["f"], _ENDS) & answered]] = False
    going_on[of[~answered]] = True
    if np.count_nonzero((recent | going_on)[of]) <= 2 * count:
        recent |= going_on
    over: Numbers = attempts[~recent & (attempts != 0)]
    return over


def _kept(rows: Rows, over: Numbers) -> npt.NDArray[np.bool_]:
    """Which rows stay: those of other attempts, and those without one since these began."""
    alone = rows["attempt"] == 0
    keep: npt.NDArray[np.bool_] = ~np.isin(rows["attempt"], over)
    since = rows["t_inv"][keep & ~alone].min(initial=np.iinfo(np.int64).max)
    keep[alone] = rows["t_inv"][alone] >= since
    return keep
