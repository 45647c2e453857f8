"""Opportunities as verdicts.json has them, and the command that makes those that were missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import PropertyVerdict, Seen, Under, Verdict
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.plans.command_line import changed, run_command
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judgement, Opportunities


def shown(case: Case, under: Under) -> tuple[Opportunities, ...]:
    """The opportunities of a property under one kind of fault."""
    return tuple(
        Opportunities(
            row=row,
            count=seen.count,
            sentence=seen.sentence,
            staged=seen.staged,
            fault=seen.fault,
            witnesses={
                role: event(case.history, at, case.nodes) for role, at in seen.roles.items()
            },
            nearest=seen.nearest,
        )
        for row, seen in under.seen.items()
    )


def remedy(plan: Plan, rows: Sequence[Judgement], verdicts: Sequence[PropertyVerdict]) -> str:
    """The command of a plan that exercises the promised properties which are UNKNOWN, "" if no
    change of the plan is known to."""
    counted = {row.property: row for row in rows if row.promised}
    asked = [one for one in verdicts if one.property in counted]
    changes = [change for one in asked if one.verdict is Verdict.UNKNOWN for change in one.changes]
    missing = any(counted[one.property].not_exercised() for one in asked)
    if not changes and not missing:
        return ""
    # The rows that had an opportunity this time must have one in the next run as well.
    changes += [seen.change for one in asked for seen in _wanted(one)]
    once = [one for n, one in enumerate(changes) if one not in changes[:n]]
    return run_command(changed(plan, once)) if once else ""


def _wanted(verdict: PropertyVerdict) -> Iterator[Seen]:
    """The rows that each kind of fault needs: those that it staged, else the first."""
    for under in verdict.under.values():
        every = list(under.seen.values())
        yield from [seen for seen in every if seen.staged] or every[:1]
