"""The verdict of a run from its history: each checker is asked, and what counts is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from holdfast.harness.core.case import Case, Checker
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import SCHEMA, PropertyVerdict, Verdict
from holdfast.harness.history.calls import every_acquire_failed
from holdfast.harness.judging import opportunities
from holdfast.harness.judging.judgement import (
    Certifies,
    Uncertified,
    judgement,
    observed_fault,
)
from holdfast.harness.judging.outcome import meant, overall, required
from holdfast.harness.judging.second_grant import happened
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.verdicts.causes import Between, unknown, with_causes
from holdfast.harness.verdicts.judged import Judged

OWNERS_ADMITTED = "no-false-rejection"
"""Judged in every run in which the resource refused an owner."""


def judge_case(
    manifest: Manifest,
    case: Case,
    checkers: Mapping[str, Checker],
    certifies: Certifies | None = None,
) -> Judged:
    """The verdict of a run whose history is in memory, without its evidence.

    certifies   makes its certificates; None: it has none
    """
    verdicts = [judge_one(prop, checkers[prop], case) for prop in case.asked]
    verdicts += _refused_owners(case, checkers)
    failing = every_acquire_failed(case.history, case.start_ns, case.nodes)
    between = partial(happened, case)
    return judged_of(manifest, case, verdicts, failing, certifies, between)


def _refused_owners(case: Case, checkers: Mapping[str, Checker]) -> list[PropertyVerdict]:
    """The verdict on no-false-rejection if the run does not ask for it, but its resource refused
    an owner inside its own hold, whichever service issued the tokens."""
    if OWNERS_ADMITTED in case.asked or OWNERS_ADMITTED not in checkers:
        return []
    rows = case.history.rows
    served = (rows["f"] == Op.SERVED_WRITE) | (rows["f"] == Op.SERVED_READ)
    if not (served & (rows["status"] == Status.FAIL)).any():
        return []
    verdict = judge_one(OWNERS_ADMITTED, checkers[OWNERS_ADMITTED], case)
    return [verdict] if any(f.kind == "false-rejection" for f in verdict.findings) else []


def judged_of(
    manifest: Manifest,
    case: Case,
    verdicts: Sequence[PropertyVerdict],
    failing: str,
    certifies: Certifies | None = None,
    between: Between = unknown,
) -> Judged:
    """The verdict of a run from those of its properties.

    failing   why every acquire failed, "" if one did not
    between   what happened before a second grant, where all rows are at hand
    """
    kinds = sorted({window.do for window in case.windows if window.effective})
    certifies = certifies or Uncertified()
    plan, own = manifest.plan, manifest.checkers
    rows = [
        required(judgement(verdict, case, kinds, certifies, own), plan.require)
        for verdict in verdicts
    ]
    problems = list(case.history.problems)
    if failing:
        # The properties' own reasons say less: nothing was exercised, and this is the cause.
        problems.append(failing)
        rows = [replace(r, reason=failing) if r.verdict is Verdict.UNKNOWN else r for r in rows]
    # A plan that names what it is for is also for what it requires, and for its own checkers.
    besides = (*plan.require, *(prop for prop in own if prop in case.promises.keeps))
    must = (*plan.must, *besides) if plan.must else ()
    rows, aside, untested = meant(rows, must)
    word, exit_code = overall(rows, problems, must)
    if untested and exit_code == 0:
        word, exit_code = Verdict.UNKNOWN, 3
    judged = Judged(
        schema=SCHEMA,
        run=manifest.run,
        system=plan.system,
        backend=plan.backend,
        workload=plan.workload,
        resource=plan.resource,
        seed=plan.seed,
        verdict=word,
        exit_code=exit_code,
        command=manifest.command,
        problems=tuple(problems),
        start_ns=case.start_ns,
        stop_ns=case.stop_ns,
        end_ns=case.end_ns,
        nodes={str(process): node for process, node in case.nodes.items()},
        servers=tuple(f"n{n}" for n in range(1, plan.nodes + 1)),
        verdicts=tuple(rows),
        aside=aside,
        faults=tuple(observed_fault(window) for window in case.windows),
        promises=manifest.promises,
        remedy=opportunities.remedy(plan, rows, verdicts),
    )
    return with_causes(judged, manifest.traits, between)


def judge_one(prop: str, checker: Checker, case: Case) -> PropertyVerdict:
    """The verdict of one checker; UNKNOWN if it crashes, never HOLDS."""
    try:
        return checker(case)
    except Exception as error:
        return PropertyVerdict(
            property=prop,
            verdict=Verdict.UNKNOWN,
            reason=f"the checker crashed: {type(error).__name__}: {error}; please report it",
        )
