"""A section of a report about one feature of a run: sentences, and rows by kind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionRow:
    """One row. t_ns: of the run's clock."""

    t_ns: int
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """What the page and the terminal show alike; all text is plain. The terminal shows all the
    sentences and of each kind the first three rows, without their times.

    anchor     its name in links of the page
    short      its name in the page's navigation
    result     the result in one sentence
    sentences  what was looked at, and what could not be
    about      what the rows are, for readers that hear the page; heads: of their columns
    rows       (kind, its meaning, the rows of that kind)
    """

    anchor: str
    title: str
    short: str
    result: str
    sentences: tuple[str, ...] = ()
    about: str = ""
    heads: tuple[str, str, str] = ("Kind", "Time", "What")
    rows: tuple[tuple[str, str, tuple[SectionRow, ...]], ...] = ()
