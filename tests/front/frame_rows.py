"""Recorded columns that a frame does not show: each is changed in a row, the frame must differ.

The columns of each operation are those that `harness.core.operations.COLUMNS` documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from holdfast.api import history_frame
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import COLUMNS, Op, Status

OF_EVERY_ROW = ("t_inv", "t_ret", "attempt", "key", "err", "late", "status", "process")
SERVED = (Op.SERVED_READ, Op.SERVED_WRITE)
TERMED = (Op.ACQUIRE, Op.TRY)
MEASURED = (*TERMED, Op.HOLDER)
SAMPLE = 3
"""Rows of each kind that are changed."""
TERMS = (1, 1 << 1, 1 << 8, 1 << 24)
"""A bit of each field of an acquire's terms."""


def unshown(case: Case) -> set[tuple[str, str]]:
    """(operation, column) of recorded values that the frame of a case does not tell apart."""
    rows = np.asarray(case.history.rows)
    changed = list(_changes(case, rows))
    more = np.array([row for _, _, _, row in changed], rows.dtype)
    wide = replace(case, memo={}, history=replace(case.history, rows=np.concatenate((rows, more))))
    frame = history_frame.frame(wide, np.arange(len(rows) + len(more)))
    texts = frame.astype(object).where(frame.notna(), None)
    shown = list(texts.itertuples(index=False, name=None))
    return {
        (history_frame.word(op), column)
        for n, (op, column, of, _) in enumerate(changed, len(rows))
        if shown[n] == shown[of]
    }


def seen(case: Case) -> Counter[Op]:
    """How many rows of each operation a case has."""
    return Counter(Op(f) for f in case.history.rows["f"].tolist())


def _changes(case: Case, rows: npt.NDArray[np.void]) -> Iterator[tuple[Op, str, int, np.void]]:
    """(operation, column, number of the row, a copy in which only that column is another)."""
    for op in Op:
        for n in case.history.of(op)[:SAMPLE].tolist():
            for column in dict.fromkeys((*OF_EVERY_ROW, *COLUMNS[op], "spent")):
                for value in _others(case, op, column, rows[n]):
                    copy = rows[n].copy()
                    copy[column] = value
                    yield op, column, n, copy


def _others(case: Case, op: Op, column: str, row: np.void) -> Iterator[int]:
    """Other values that this column might have had in this row; none if it says nothing there."""
    value, rows = int(row[column]), case.history.rows
    answered = row["status"] == Status.OK or (op in SERVED and row["t_ret"] > 0)
    if column == "key" or column == "err" or (column == "res" and op in (Op.LOST, Op.CLOSED)):
        texts = {text: n for n, text in enumerate(case.history.strings) if text}
        yield from [n for n in texts.values() if n != value][:1]
    elif column == "process":
        same = case.nodes.get(value)
        yield from [n for n, node in case.nodes.items() if node != same and n in rows["process"]][
            :1
        ]
    elif column == "status":
        yield next(int(one) for one in Status if one != value and one != Status.INVOKED)
    elif column == "t_ret":
        yield from [value + 7] * (value > 0)
    elif column == "spent":
        yield from (value + 1, value + (1 << 16)) if op in MEASURED and answered else ()
    elif column == "op" and op in SERVED:
        calls = rows[case.history.of(Op.READ, Op.WRITE)]
        names = {int(call["process"]) << 32 | int(call["row"]) for call in calls}
        yield from sorted(names - {value})[:1]
    elif column == "op":
        yield from (value ^ bit for bit in TERMS)
    elif column in ("res", "aux", "arg") and not answered:
        return
    elif COLUMNS[op].get(column) != "0":
        yield max(value, 0) + 1
