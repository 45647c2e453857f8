"""Opportunities as verdicts.json has them, and the command that makes those that were missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import PropertyVerdict, Seen, Under, Verdict
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.plans.command_line import changed, run_command
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judgement, Opportunities

LONGEST_NS = 160 * SECOND
"""A run that exercised nothing is doubled up to here; the next seed is drawn in any case."""


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
    """The command of a plan that exercises what was missing: needs and opportunities of promised
    properties, else the opportunities of those that are not promised; "" if no change is known."""
    promised = {row.property for row in rows if row.promised}
    kept = [one for one in verdicts if one.property in promised]
    changes = [change for one in kept if one.verdict is Verdict.UNKNOWN for change in one.changes]
    changes += [change for one in kept for kind in one.under.values() for change in kind.changes]
    missing = [seen for one in kept for seen in _wanted(one, lacking=True)]
    if not changes and not missing:
        kept = [one for one in verdicts if any(_wanted(one, lacking=True))]
    # The rows that had an opportunity this time must have one in the next run as well.
    needed = [seen for one in kept for seen in _wanted(one)]
    aimed = {one.nemesis for one in changes if one.target}
    aimed |= {seen.change.nemesis for seen in needed if seen.change.target and not seen.count}
    for seen in needed:
        # Of several targets those count that a row lacks: one that is not struck requires nothing.
        had = seen.count and seen.change.nemesis in aimed
        changes += [replace(seen.change, target="") if had else seen.change, *seen.also]
    once = [one for n, one in enumerate(changes) if one not in changes[:n]]
    return run_command(_again(plan, changed(plan, once))) if once else ""


def _again(plan: Plan, asked: Plan) -> Plan:
    """What is asked for; if that was run, and the draw was unlucky: longer, with the next seed."""
    if replace(plan, faults=(), scenario="", must=()) != asked:
        return asked
    longer_ns = min(2 * asked.time_ns, LONGEST_NS)
    return replace(asked, time_ns=max(asked.time_ns, longer_ns), seed=asked.seed + 1)


def _wanted(verdict: PropertyVerdict, lacking: bool = False) -> Iterator[Seen]:
    """The rows that each kind of fault needs: those that it staged, else the first.

    lacking   only those without an opportunity, of kinds that are UNKNOWN
    """
    for under in verdict.under.values():
        every = list(under.seen.values())
        needed = [seen for seen in every if seen.staged] or every[:1]
        if not lacking:
            yield from needed
        elif under.verdict is Verdict.UNKNOWN:
            yield from (seen for seen in needed if not seen.count)
