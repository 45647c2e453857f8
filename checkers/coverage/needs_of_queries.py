"""Needs of a run about queries: holders, ages, places and lengths that were reported."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.checkers.coverage.need import Met, Need
from holdfast.checkers.facts.latency_breakdown import SAID
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Op, Status


def _queries(case: Case) -> Met:
    rows = case.history.rows
    asked = case.history.of(Op.HOLDER, Op.PLACE, Op.LENGTH)
    answered = rows[asked[rows["status"][asked] == Status.OK]]
    holders = int(((answered["f"] == Op.HOLDER) & (answered["token"] != NO_TOKEN)).sum())
    places = int(((answered["f"] == Op.PLACE) & (answered["res"] >= 0)).sum())
    lengths = int(((answered["f"] == Op.LENGTH) & (answered["res"] > 0)).sum())
    aged = int(((answered["f"] == Op.HOLDER) & (answered["spent"] & SAID > 0)).sum())
    lacks, checks = [], _checks(case)
    told = _entries_told(case)
    if told and not asked.size and not checks:
        inner, last = told["releases with entries left"], told["full releases"]
        return told, [] if inner and last else [
            "no release reported entries left, or none reported that none are"
        ]
    checks |= told
    if checks and not asked.size:
        return checks, [] if checks["over when queried"] else ["no hold was queried after its end"]
    # What a lock does not report at all fails each time, and cannot be wrong.
    reported = set(rows["f"][asked[rows["status"][asked] != Status.FAIL]].tolist())
    never = set(rows["f"][asked].tolist()) - reported
    if asked.size and not reported and not checks:
        lacks.append(f"no query was answered: 0 of {len(asked)}")
    if Op.HOLDER not in never and not holders:
        lacks.append(f"no response named a holder: 0 of {len(asked)} queries")
    if Op.PLACE not in never and not places:
        lacks.append(f"no response gave a queue position: 0 of {len(asked)} queries")
    if Op.LENGTH in reported and not lengths:
        lacks.append(f"no response gave a queue length: 0 of {len(asked)} queries")
    named = {"holders named": holders, "hold ages": aged, "queue positions": places}
    named["lengths above 0"] = lengths
    return checks | {"queries": len(asked)} | named, lacks


def _entries_told(case: Case) -> dict[str, int]:
    """Releases that reported their owner's remaining entries, if there are any."""
    rows = rows_of(case, Op.RELEASE)
    told = column(case, "res")[rows][column(case, "status")[rows] == Status.OK]
    if not (told > 0).any():
        return {}
    return {
        "releases with entries left": int((told > 1).sum()),
        "full releases": int((told == 1).sum()),
    }


def _checks(case: Case) -> dict[str, int]:
    """Queries whether a hold is in force, if there are any."""
    rows = case.history.of(Op.CHECK)
    status = column(case, "status")[rows]
    answered = rows[(status == Status.OK) | (status == Status.FAIL)]
    entry = table(case).of_rows(answered)
    known = entry >= 0
    late = table(case).end[entry[known]] < column(case, "t_inv")[answered[known]]
    return (
        {"holds queried": len(answered), "over when queried": int(late.sum())} if len(rows) else {}
    )


NEEDS: Mapping[str, Need] = {
    "queries": (
        "responses that name a holder, that give a queue position and, where lengths are queried,"
        " that give the length of a queue that is not empty; where only releases report entries"
        " left, some that leave one and some that leave none",
        _queries,
    ),
}
