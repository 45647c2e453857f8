"""Lines and columns that fit the terminal; no column is dropped and no word is cut.

Where standard output is no terminal, `width` is 0 and each row stays on one line, for grep.
"""

from __future__ import annotations

import io
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

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


COMFORT = 12
"""Columns that a wrapping column needs, or its longest word or whole content if that is more or
less; with fewer the rows are printed as blocks."""
INDENT = 2


def buffered(width: int, *, colour: bool) -> tuple[Console, io.StringIO]:
    """A console and the text it has printed, without colour free of escape sequences."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    return console, out


def table(short: Sequence[str], *folding: str, title: Text | None = None) -> Table:
    """A table whose `short` columns stay on one line while the others wrap."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for column in short:
        made.add_column(column, no_wrap=True)
    for column in folding:
        made.add_column(column)
    return made


def show(console: Console, made: Table) -> None:
    """Print a table as it fits."""
    console.print(fitted(console, made))


def fitted(console: Console, made: Table) -> RenderableType:
    """The table with its widths set; where its columns have no room, each row as a block."""
    widths = _widths(console, made)
    if widths is None:
        return Group(*_blocks(made), "")
    for column, width in zip(made.columns, widths, strict=True):
        column.width = width
    return made


def _widths(console: Console, made: Table) -> list[int] | None:
    """Width of each column, none below its longest word; None if the table does not fit.

    rich alone would narrow the widest columns until the table fits, and cut their words.
    """
    sizes = [_size(console, column) for column in made.columns]
    least = [low for low, _ in sizes]
    # Of rich's own: a space on both sides of a cell, one between columns and one at each edge.
    spare = console.width - sum(least) - 3 * len(least) - 1
    if spare < 0:
        return None
    # The columns with the smallest wishes first: what they leave is for the others.
    for place in sorted(range(len(sizes)), key=lambda n: sizes[n][1] - least[n]):
        left = sum(sizes[n][1] > least[n] for n in range(len(sizes)))
        more = min(sizes[place][1] - least[place], spare // max(left, 1))
        least[place] += more
        spare -= more
        sizes[place] = (least[place], least[place])
    return least


def _size(console: Console, column: Column) -> tuple[int, int]:
    """The smallest and the largest useful width of a column."""
    cells = [Text(str(column.header)), *column.cells]
    found = [Measurement.get(console, console.options, cell) for cell in cells]
    whole = max(one.maximum for one in found)
    if column.no_wrap:
        return whole, whole
    return max(min(COMFORT, whole), *(one.minimum for one in found)), whole


def _blocks(made: Table) -> Iterator[RenderableType]:
    if made.title is not None:
        yield Text(str(made.title), style="italic")
    for first, *cells in zip(*(column.cells for column in made.columns), strict=True):
        yield Text(str(first), style="bold")
        named = list(zip(made.columns[1:], cells, strict=True))
        short = [_named(*pair) for pair in named if pair[0].no_wrap and str(pair[1])]
        long = [_named(*pair) for pair in named if not pair[0].no_wrap and str(pair[1])]
        # Where all other columns wrap, their cells are numbers or signs: one line has them all.
        lines = [short, *([each] for each in long)] if short else [long]
        for texts in filter(None, lines):
            yield Padding(Text(", ").join(texts), (0, 0, 0, INDENT))


def _named(column: Column, cell: RenderableType) -> Text:
    words = cell if isinstance(cell, Text) else Text(str(cell))
    return Text.assemble(f"{column.header}: ", words)
