"""The servers' own record against the clients' responses, in sentences.

What was compared, how much of it, and what differs. It changes no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.harness.verdicts.judged import Difference, Judged, ServerRecord
from holdfast.harness.verdicts.section import Section, SectionRow
from holdfast.reports.text.formatting import count, plain, seconds, stopped

SHOWN_GAPS = 3
KINDS = {
    "granted-not-recorded": "granted by the response, but the record has no such hold",
    "granted-early": "granted by the response, before the hold begins in the record",
    "refused-but-held": "refused by the response, but held in the record after it",
    "released-but-held": "released by the response, but held in the record after it",
    "not-owner-but-held": "not the owner by the response, but held in the record after it",
    "renewed-not-held": "renewed by the response, after the end of the hold in the record",
    "released-not-held": "released by the response, after the end of the hold in the record",
    "lost": "ended in the record before its lease, without a release",
    "token-differs": "the token of the response is not that of the record",
    "two-holders": "the record itself has two holders at once",
}
"""Kinds of difference, and what each means."""


def section(run: Judged, record: ServerRecord) -> Section:
    """All of it, as the page and the terminal show it."""
    return Section(
        anchor="server-record",
        title="Servers' own record",
        short="Servers' record",
        result=result(record),
        sentences=(*compared(record), *gaps(run, record)),
        about="Differences between the servers' record and the responses",
        heads=("Difference", "Time", "What differs"),
        rows=tuple(
            (kind, meaning, tuple(SectionRow(t_ns=one.t_ns, sentence=one.sentence) for one in rows))
            for kind, meaning, rows in kinds(record)
        ),
    )


def result(record: ServerRecord) -> str:
    """The result in one sentence."""
    if record.problem:
        return f"The servers' record cannot be compared: {stopped(record.problem, 400)}"
    if record.total:
        return (
            f"The servers' record and the responses differ in {count(record.total, 'place')}."
            " No verdict counts this."
        )
    if not record.matched:
        return "No grant could be compared with the servers' record."
    return f"The servers' record and the responses agree on {count(record.matched, 'grant')}."


def compared(record: ServerRecord) -> list[str]:
    """What was compared, and what could not be, in sentences."""
    if record.problem:
        return []
    told = [
        f"Source: {plain(record.source or 'unknown', 200)}:"
        f" {count(record.events, 'event')}, {count(record.holds, 'hold')}.",
        f"Of {count(record.granted, 'granted acquire')} {record.matched:,} have their hold in the"
        f" record{_uncovered(record)}.",
    ]
    if record.unknown:
        told.append(
            f"Of {count(record.unknown, 'acquire')} with an unknown outcome {record.took_effect:,}"
            f" took effect by the record, {record.no_effect:,} did not"
            f"{f', {record.undecided:,} remain unknown' if record.undecided else ''}."
        )
    if record.undone:
        told.append(
            f"{count(record.undone, 'refused acquire')} held the lock for a moment before the"
            " response: the client had undone it."
        )
    if record.strangers:
        told.append(
            f"{count(record.strangers, 'hold')} of the record name no acquire of a client, and were"
            " not compared."
        )
    if not record.whole:
        told.append("The record ends before the run: what is later was not compared.")
    return told


def _uncovered(record: ServerRecord) -> str:
    if not record.uncovered:
        return ""
    return f"; {record.uncovered:,} could not be compared, in a gap or after its end"


def gaps(run: Judged, record: ServerRecord) -> list[str]:
    """The first gaps, and how many more there are."""
    told = [
        f"Gap from {seconds(run.at(gap.from_ns))} to {seconds(run.at(gap.to_ns))}:"
        f" {stopped(gap.reason, 200)}"
        for gap in record.gaps[:SHOWN_GAPS]
    ]
    rest = len(record.gaps) - SHOWN_GAPS
    return [*told, f"{count(rest, 'more gap')}."] if rest > 0 else told


def kinds(record: ServerRecord) -> list[tuple[str, str, Sequence[Difference]]]:
    """(kind, its meaning, the differences) of each kind that the record shows."""
    found: dict[str, list[Difference]] = {}
    for one in record.differences:
        found.setdefault(one.kind, []).append(one)
    return [(kind, KINDS.get(kind, ""), several) for kind, several in found.items()]
