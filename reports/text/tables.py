"""Tables for a terminal of any width: no column is dropped and no word is cut."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

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
