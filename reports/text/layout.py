"""Lines and columns that fit the terminal; no column is dropped and no word is cut.

Where standard output is no terminal, `width` is 0 and each row stays on one line, for grep.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

import click

GAP = 2
LEAST_LAST = 24
"""Columns that the last cell needs beside the others; with fewer it starts on a line of its own."""


def width() -> int:
    """Columns of the terminal or of the variable COLUMNS; 0 if there is neither."""
    return shutil.get_terminal_size((0, 24)).columns


def wrapped(line: str, columns: int, indent: int = 0) -> str:
    """A line broken between words; further lines are indented. Longer words stay whole."""
    if len(line) <= columns or not columns:
        return line
    return textwrap.fill(
        line,
        columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def aligned(rows: Iterable[Sequence[str]], columns: int, indent: int = 0) -> list[str]:
    """Each row with its cells below those of the other rows; the last cell wraps in its column.

    A row whose other cells leave it too little room becomes a block: the short cells, then the last
    one indented. All become one if their columns together leave too little.
    """
    table = [list(row) for row in rows]
    # Without a width all fit; the widest cells of two columns may be those of two rows.
    room = columns - indent - LEAST_LAST if columns else sys.maxsize
    fitting = [row for row in table if _head(row) <= room]
    widths = [max(map(len, cells)) for cells in zip(*(row[:-1] for row in fitting), strict=True)]
    start = indent + sum(each + GAP for each in widths)
    if not fitting or start > indent + room:
        return [line for row in table for line in _block(row, columns, indent)]
    lines = []
    for row in table:
        if _head(row) > room:
            lines += _block(row, columns, indent)
            continue
        cells = [f"{cell:<{each}}" for cell, each in zip(row[:-1], widths, strict=True)]
        line = " " * indent + (" " * GAP).join([*cells, row[-1]])
        lines.append(wrapped(line.rstrip(), columns, start))
    return lines


def _head(row: Sequence[str]) -> int:
    """The width of all cells but the last, with the gaps after them."""
    return sum(len(cell) + GAP for cell in row[:-1])


def _block(row: Sequence[str], columns: int, indent: int) -> list[str]:
    head = " " * indent + (" " * GAP).join(row[:-1])
    inner = indent + GAP
    told = [wrapped(" " * inner + row[-1], columns, inner)] if row[-1] else []
    return [wrapped(head, columns, inner), *told]


def say(line: str, indent: int = 4) -> None:
    """Print a sentence, broken between words; what is to be copied is printed by click.echo."""
    click.echo(wrapped(line, width(), indent))
