"""Compares two histories: the first row that differs."""

from __future__ import annotations

from itertools import zip_longest

from holdfast.harness.core.case import History
from holdfast.harness.core.operations import Op, Status

SHOWN = ("t_ret", "attempt", "token", "arg", "res", "aux", "op", "mode")


def first_difference(one: History, other: History) -> str:
    """One sentence about the first row that differs, "" if there is none.

    Rows are compared by writer and meaning, whatever the numbering of strings.
    """
    for left, right in zip_longest(_rows(one), _rows(other)):
        if left != right:
            return f"first difference: {_words(left)}, against {_words(right)}"
    return ""


def _rows(history: History) -> list[tuple[int | str, ...]]:
    """Every row by its meaning, in order of its call."""
    rows, strings = history.rows, history.strings
    explained = (int(Op.LOST), int(Op.CLOSED))
    meanings = []
    for row in rows:
        values = tuple(
            strings[int(row[name])]
            if name == "res" and int(row["f"]) in explained
            else int(row[name])
            for name in SHOWN
        )
        where = (int(row["t_inv"]), history.writers[int(row["writer"])], int(row["row"]))
        kind = (int(row["f"]), int(row["process"]), int(row["status"]))
        meanings.append(
            (*where, *kind, strings[int(row["key"])], strings[int(row["err"])], *values)
        )
    return sorted(meanings)


def _words(row: tuple[int | str, ...] | None) -> str:
    if row is None:
        return "no such row"
    t_ns, writer, number, f, _, status, key, error, *values = row
    rest = " ".join(f"{name}={value}" for name, value in zip(SHOWN, values, strict=True))
    reason = f" ({error})" if error else ""
    op, outcome = Op(int(f)).name.lower().replace("_", "-"), Status(int(status)).name
    return f"row {number} of {writer}: {op} {key} at {t_ns} ns, {outcome}, {rest}{reason}"
