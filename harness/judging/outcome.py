"""What counts for the verdict of a run: promises, requirements, and what was exercised."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from holdfast.harness.core.verdict import (
    CALM,
    Verdict,
    worst,
)
from holdfast.harness.verdicts.judged import Judgement


def kinds_in(key: str) -> list[str]:
    """The kinds of fault in a key of `under`."""
    return [] if key == CALM else key.split("+")


def required(row: Judgement, required: Collection[str]) -> Judgement:
    """The row, which counts like a promise if the plan requires its property."""
    if row.property not in required:
        return row
    under = {kinds: replace(one, promised=True) for kinds, one in row.under.items()}
    return replace(row, promised=True, required=True, under=under)


def meant(
    rows: Sequence[Judgement], must: Collection[str]
) -> tuple[list[Judgement], dict[str, str], list[str]]:
    """The rows that count for a run with the required properties `must`, () for all of them.

    Then those set aside, with the reason: not required and not exercised. And those of `must` that
    it did not exercise either, promised or not.
    """
    if not must:
        return list(rows), {}, []
    unknown = {row.property: row.reason for row in rows if row.verdict is Verdict.UNKNOWN}
    aside = {prop: reason for prop, reason in unknown.items() if prop not in must}
    kept = [row for row in rows if row.property not in aside]
    return kept, aside, [prop for prop in unknown if prop in must]


def overall(
    rows: Sequence[Judgement], problems: Sequence[str], must: Collection[str] = ()
) -> tuple[Verdict, int]:
    """The verdict of the whole run and its exit code: only promised properties count.

    A run passes only if every kind of fault that it requested was exercised for every required
    property (`must`, else all that are promised): see docs/decisions/0012.
    """
    judged = [row for row in rows if row.promised] or rows
    word = worst(row.verdict for row in judged)
    if word is Verdict.VIOLATED:
        return word, 1 if any(row.promised for row in judged) else 0
    if problems or (word is Verdict.UNKNOWN and any(row.promised for row in judged)):
        return Verdict.UNKNOWN, 3
    wanted = [row for row in rows if row.promised and (not must or row.property in must)]
    if any(row.not_exercised() for row in wanted):
        return Verdict.UNKNOWN, 3
    return word, 0
