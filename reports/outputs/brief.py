"""The verdict of a run without its tables: at most ten lines for a pass or a limit, 16 for a
question left open, whose reason must be readable, 25 for a violation.

Each part has variants, the longest first. Where all together are too long, the parts that a reader
misses least become shorter, one after the other; what a reader has to copy is never shortened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from holdfast.harness.verdicts.judged import Judged, Outcome
from holdfast.reports.run import coverage_table, story
from holdfast.reports.run.at_a_glance import kinds_named
from holdfast.reports.text import formatting
from holdfast.reports.text.layout import aligned, wrapped

STYLES = {
    Outcome.HOLDS: "bold green",
    Outcome.LIMIT: "bold yellow",
    Outcome.UNKNOWN: "bold magenta",
    Outcome.BROKEN: "bold red",
    Outcome.FAILED: "bold magenta",
}
ENTRIES = 2
"""Causes that are printed without -v."""
MOST = {Outcome.HOLDS: 10, Outcome.LIMIT: 10, Outcome.UNKNOWN: 16}
MOST_BROKEN = 25
"""Lines of a run that broke a promise or failed."""
LEAST_ROOM = 24


class Line(NamedTuple):
    """One line. whole: not broken, however long: a command or a path."""

    text: str
    style: str = ""
    whole: bool = False
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Some lines in variants, the longest first. kept: how long it stays as it is when the text is
    too long; of equal ones the later part becomes shorter first."""

    variants: tuple[tuple[Line, ...], ...]
    kept: int


def show(console: Console, run: Judged, why: str) -> None:
    """Print the verdict. why: the command that explains it, "" for none."""
    parts = list(_parts(run, console.width, why))
    for line in fitted(parts, MOST.get(run.outcome(), MOST_BROKEN)):
        shown = Text(line.text, style="" if line.label else line.style)
        if line.label:
            shown = Text.assemble((line.label, line.style), line.text)
        console.print(shown, soft_wrap=line.whole)


def fitted(parts: Sequence[Part], most: int) -> list[Line]:
    """The lines of all parts, at most `most` if their shortest variants allow it."""
    chosen = [list(part.variants) for part in parts]
    while sum(len(each[0]) for each in chosen) > most:
        left = [n for n, each in enumerate(chosen) if len(each) > 1]
        if not left:
            break
        least = min(left, key=lambda n: (parts[n].kept, -n))
        chosen[least].pop(0)
    return [line for each in chosen for line in each[0]]


def _parts(run: Judged, width: int, why: str) -> Iterator[Part]:
    word = run.outcome()
    yield _headline(run, width)
    yield _answers(run, width)
    yield from _causes(run, width)
    yield from (_fixed(_wrapped(sentence, width)) for sentence in story.servers(run))
    if word is Outcome.UNKNOWN:
        yield from _open(run, width)
    elif word is Outcome.HOLDS:
        chance = coverage_table.sentence(run)
        yield Part(variants=_shrinking([("tried", chance)] if chance else [], width), kept=2)
    else:
        yield from _scope(run, width)
    yield from _errors(run, width)
    if run.verified.unverifiable:
        names = ", ".join(run.verified.unverifiable)
        text = formatting.plain(f"not independently verified: checker of the user: {names}", 600)
        yield _fixed(_wrapped(text, width))
    yield from _end(run, why)


def _headline(run: Judged, width: int) -> Part:
    """The claim; of a limit, in its shorter variant, without the name of the lock."""
    style, whole = STYLES[run.outcome()], story.headline(run)
    texts = [whole]
    if run.outcome() is Outcome.LIMIT:
        texts.append(f"{whole.partition('. ')[0]}: never promised.")
    return Part(variants=tuple(tuple(_wrapped(text, width, style)) for text in texts), kept=3)


def _fixed(lines: Sequence[Line]) -> Part:
    return Part(variants=(tuple(lines),), kept=9)


def _wrapped(text: str, width: int, style: str = "") -> list[Line]:
    return [Line(text=line, style=style) for line in wrapped(text, width).splitlines()]


def _rows(rows: Sequence[tuple[str, str]], width: int) -> tuple[Line, ...]:
    lines = [line for row in aligned(rows, width, 2) for line in row.splitlines()]
    return tuple(Line(text=line) for line in lines)


def _shrinking(rows: Sequence[tuple[str, str]], width: int) -> tuple[tuple[Line, ...], ...]:
    """Rows as they are, then each on one line."""
    whole = _rows(rows, width)
    head = 2 + max((len(label) + 2 for label, _ in rows), default=0)
    short = [(label, cut(text, width - head)) for label, text in rows]
    return (whole, _rows(short, width))


def cut(text: str, room: int) -> str:
    """A text on one line of `room` columns: cut after a clause that fits, else after a word."""
    if len(text) <= room or room < LEAST_ROOM:
        return text
    for sign in (". ", "; ", ", "):
        clause = text[: room + 1].rpartition(sign)[0]
        if len(clause) > room // 2:
            return f"{clause}."
    return f"{text[: room - 1].rpartition(' ')[0]}…"


def both_ends(text: str, room: int) -> str:
    """Several clauses as the first and the last of them: what began it and what was wrong. Cut as
    other texts if even those need more than `room` columns."""
    first, *between, last = [*text.split("; "), ""][: max(2, text.count("; ") + 1)]
    short = f"{first}; … {last}" if between else text
    return short if len(short) <= room else cut(text, room)


def few_names(sentence: str) -> str:
    """A reason of several properties with their number instead of their names: "Ownership, loss
    notice and token order: no grant" -> "3 properties: no grant"."""
    names, colon, reason = sentence.partition(": ")
    several = [name for part in names.split(", ") for name in part.split(" and ")]
    if not colon or len(several) <= 2:
        return sentence
    # The first line has said already that they were not tested.
    _, untested, why = reason.partition("not tested. ")
    return why if untested else f"{len(several)} properties: {reason}"


def _answers(run: Judged, width: int) -> Part:
    """What every reader asks. A pass says in the same place what it left out."""
    whole = story.answers(run)
    if run.outcome() is Outcome.LIMIT:
        whole[-1] = (story.REALLY_TRIED, _tried(run))
    short = [*whole[:-1], (story.REALLY_TRIED, _tried(run))]
    return Part(variants=(_rows(whole, width), *_shrinking(short, width)), kept=2)


def _tried(run: Judged) -> str:
    """Duration, grants and faults, and which properties were not tested."""
    kinds = Counter(fault.do for fault in run.faults if fault.effective)
    missed = len(run.faults) - kinds.total()
    faults = "no effective fault"
    if kinds:
        one = len(kinds) == 1
        counted = f"{kinds.total():,} {kinds_named(kinds)}" if one else kinds_named(kinds)
        faults = f"{counted} {'fault' if kinds.total() == 1 else 'faults'}"
    faults += f" and {missed:,} without effect" if missed else ""
    grants = formatting.count(run.evidence.acquire.granted, "grant")
    lasted = formatting.seconds(run.end_ns - run.start_ns, 1)
    text = f"One run of {lasted}: {grants}, {faults}"
    left = [sentence.rstrip(".") for sentence in story.not_tested(run)]
    left = [] if run.outcome() is Outcome.UNKNOWN else left
    return f"{'; '.join([text, *(one[:1].lower() + one[1:] for one in left)])}."


def _causes(run: Judged, width: int) -> Iterator[Part]:
    entries = story.entries(run)
    limit = run.outcome() is Outcome.LIMIT
    for n, entry in enumerate(entries[: 1 if limit else ENTRIES]):
        if limit:
            yield from _limit(run, entry, width)
        else:
            yield _entry(entry, width, first=n == 0)
    more = len(entries) - (1 if limit else ENTRIES)
    if more > 0:
        text = f"  {formatting.count(more, 'more cause')}: -v, or the report"
        yield Part(variants=((Line(text=text),), ()) if limit else ((Line(text=text),),), kept=3)


def _entry(entry: story.Entry, width: int, *, first: bool) -> Part:
    """One cause: its title, what happened, how often and, of the first, what to do."""
    word = Outcome.BROKEN if entry.cause.broken else Outcome.LIMIT
    title = Line(label=word.value, text=f"  {entry.title}", style=STYLES[word])
    rows = [("cause", entry.sentence), ("extent", entry.extent)]
    short = [("cause", entry.brief), ("extent", entry.extent)]
    remedy = [("do", entry.remedy)] if first else []
    variants = [rows + remedy, short + remedy]
    wrapped_rows = [(title, *_rows(each, width)) for each in variants]
    two = [("cause", both_ends(entry.brief, 2 * (width - 10))), ("extent", entry.often), *remedy]
    one = (title, *_shrinking([*short, *remedy], width)[1])
    return Part(variants=(*wrapped_rows, (title, *_rows(two, width)), one), kept=7 if first else 1)


def _limit(run: Judged, entry: story.Entry, width: int) -> Iterator[Part]:
    """The first cause of a run that kept its promises: what happened, how often, what to do."""
    fail = formatting.plain(story.violated(run)[0].property, 60)
    room = width - 10
    causes = (entry.brief, both_ends(entry.brief, 2 * room), both_ends(entry.brief, room))
    rows = tuple(_rows([("cause ", text)], width) for text in causes)
    yield Part(variants=rows, kept=4)
    often = (f"{entry.often}; to fail: --require {fail}", entry.often)
    rows = tuple(_rows([("extent", text)], width) for text in often)
    yield Part(variants=rows if len(rows[1]) < len(rows[0]) else rows[:1], kept=3)
    do = _shrinking([("do    ", entry.remedy)], width)[1]
    yield Part(variants=(do, ()), kept=3)


def _open(run: Judged, width: int) -> Iterator[Part]:
    """How much an inconclusive run left open, why, and the command that does not."""
    left, questions = story.left_open(run), coverage_table.open_questions(run)
    more = f" {formatting.count(len(left) - 1, 'more reason')}: -v." if len(left) > 1 else ""
    held = [sentence.removeprefix("Held: ") for sentence in story.held(run)]
    yield Part(variants=(_rows([("held", one) for one in held], width), ()), kept=0)
    if questions:
        yield Part(variants=(_rows([("open", questions)], width),), kept=9)
    if left:
        room = width - 8
        brief = few_names(left[0])
        shown = (left[0], brief, cut(brief, 2 * room - 8 - len(more)), cut(brief, room - len(more)))
        variants = tuple(_rows([("why ", f"{text}{more}")], width) for text in shown)
        yield Part(variants=variants, kept=8)
    if run.remedy:
        text = f"{story.EXERCISE}:"
        command = formatting.plain(run.remedy, 1200)
        below = (Line(text=text), Line(text=f"  {command}", whole=True))
        beside = (Line(text=f"  run   {command}", whole=True),)
        yield Part(variants=(below, beside), kept=1)


def _scope(run: Judged, width: int) -> Iterator[Part]:
    """What else held, and what could not have failed."""
    if run.outcome() is Outcome.LIMIT:
        return
    for sentence in (*story.held(run), *story.not_tested(run)):
        text = cut(sentence, width)
        yield Part(
            variants=(tuple(_wrapped(sentence, width)), tuple(_wrapped(text, width))), kept=2
        )


def _errors(run: Judged, width: int) -> Iterator[Part]:
    """How many calls ended with an error, with the first of them, where it may explain the verdict:
    it may be of the user's own code, and no fault's doing."""
    errors = run.evidence.errors
    passed = run.outcome() in (Outcome.HOLDS, Outcome.LIMIT)
    if not errors or (passed and run.evidence.acquire.granted):
        return
    first = min(errors, key=lambda one: one.first_ns)
    calls = sum(one.n for one in errors)
    error = formatting.plain(first.error, 160).rstrip(" :")
    text = f"Call errors: {calls:,} (-v), the first of {formatting.plain(first.op, 20)}: {error}"
    yield Part(variants=(tuple(_wrapped(text, width)), (Line(text=text, whole=True),)), kept=1)


def _end(run: Judged, why: str) -> Iterator[Part]:
    """The report, the command that repeats the run, the one that explains it."""
    report = Line(text=f"report  {formatting.plain(run.report_path(), 300)}", whole=True)
    yield _fixed([report])
    again = (Line(text=f"again   {formatting.plain(run.command, 1200)}", whole=True),)
    # The command of an inconclusive run is not the one to repeat.
    inconclusive = run.outcome() is Outcome.UNKNOWN and run.remedy
    yield Part(variants=(again, ()) if inconclusive else (again,), kept=1)
    if why and run.outcome() is not Outcome.LIMIT:
        explain = Line(text=f"why     {formatting.plain(why, 300)}", whole=True)
        yield Part(variants=((explain,),), kept=9)
