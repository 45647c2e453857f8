"""Decides whether runs pass: no new violation, no lost coverage, nothing slower.

Pure: results, a baseline, rules and today's date in; problems out. An inconclusive result is never
a pass: of several problems the worst decides, 1 before 4 before 3.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.baseline import Baseline, KnownIssue
from holdfast.harness.campaigns.results import (
    EFFICIENCY,
    EXCLUSION,
    MEASURES,
    RATES,
    Result,
    failed,
    without_hash,
    worst_code,
)
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.statistics import chance_of_greater, clopper_pearson, least_chance
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import suggest
from holdfast.harness.verdicts.left_unknown import LeftUnknown

SCHEMA = "holdfast-gate/1"
CHANCE = 0.05
LIMITS = "limits"
DUPLICATES = "duplicates"
_RULE = re.compile(r"([a-z0-9]+):([0-9]+(?:\.[0-9]+)?)%")
PASSED, FAILED, INCONCLUSIVE, ENVIRONMENT = 0, 1, 3, 4
NOT_EXERCISED = "not-exercised"
"""Kind of the problem that no run exercised a promise."""
WORDS = {PASSED: "passed", FAILED: "FAILED", INCONCLUSIVE: "INCONCLUSIVE", ENVIRONMENT: "NOT RUN"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Regressions other than violations.

    slower   measure -> allowed change in %
    limits   also fail on new violations of properties that were never promised
    duplicates   for efficiency locks: allowed share, in %, of grants that overlap another hold;
                 None: none are allowed
    """

    slower: Mapping[str, float]
    limits: bool = False
    duplicates: float | None = None


NO_RULES = Rules(slower={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """One problem found by the gate. code: its exit code; 0 for a note. exercise: the command that
    exercises what was not, "" for none."""

    code: int
    kind: str
    cell: str
    sentence: str
    property: str = ""
    result: Result | None = None
    exercise: str = ""


def rules(expressions: Iterable[str]) -> Rules:
    """Rules from `--fail-on`: "p99:25%,duplicates:1%,limits". UsageError lists all mistakes."""
    slower: dict[str, float] = {}
    limits, duplicates = False, None
    problems = []
    for part in (part.strip() for text in expressions for part in text.split(",")):
        match = _RULE.fullmatch(part)
        name = part.partition(":")[0]
        if part == LIMITS:
            limits = True
        elif name not in (*MEASURES, DUPLICATES):
            names = (*MEASURES, DUPLICATES, LIMITS)
            problems.append(f"--fail-on: {suggest(name, names, 'measure')}")
        elif match is None:
            problems.append(f"invalid --fail-on {part!r}: expected {name}:PERCENT, like {name}:25%")
        elif name == DUPLICATES:
            duplicates = float(match[2])
        else:
            slower[name] = float(match[2])
    if problems:
        raise UsageError(*problems)
    return Rules(slower=slower, limits=limits, duplicates=duplicates)


def judge(
    results: Sequence[Result], baseline: Baseline, given: Rules, today: date
) -> list[Trouble]:
    """All problems of these runs, the worst first."""
    troubles = [*alone(results, baseline.known, today, given)]
    changed = _changed(results, baseline)
    troubles += _changes(changed, results, baseline)
    # Runs of two different descriptions of a system are not comparable.
    same = replace(
        baseline,
        exercised={key: n for key, n in baseline.exercised.items() if key[0] not in changed},
        measures={key: one for key, one in baseline.measures.items() if key[0] not in changed},
    )
    troubles += _lost_exercise(results, same)
    troubles += _new_limits(results, baseline, given)
    new = set(changed.values())
    troubles += _slower([result for result in results if result.cell not in new], same, given)
    order = {FAILED: 0, ENVIRONMENT: 1, INCONCLUSIVE: 2, PASSED: 3}
    return sorted(troubles, key=lambda trouble: order[trouble.code])


def alone(
    results: Sequence[Result],
    known: Sequence[KnownIssue],
    today: date,
    given: Rules = NO_RULES,
) -> list[Trouble]:
    """Problems that need no baseline."""
    if not results:
        return [_trouble(INCONCLUSIVE, "no-runs", "", "no runs to judge")]
    troubles: list[Trouble] = []
    for result in results:
        if failed(result):
            why = result.problems[0] if result.problems else "no reason recorded"
            says = f"seed {result.seed} could not be executed: {why}"
            troubles.append(_trouble(ENVIRONMENT, "environment", result.cell, says, result=result))
        elif result.problems:
            says = f"seed {result.seed} is incomplete: {result.problems[0]}"
            troubles.append(_trouble(INCONCLUSIVE, "incomplete", result.cell, says, result=result))
    return [*troubles, *_violations(results, known, today, given), *_duplicates(results, given),
            *_excuses(results, known, today),
            *_not_exercised(results)]  # fmt: skip


def exit_code(troubles: Sequence[Trouble]) -> int:
    """0 only if the runs have no problem."""
    return worst_code([PASSED, *(trouble.code for trouble in troubles)])


def table(troubles: Sequence[Trouble], results: Sequence[Result]) -> dict[str, Json]:
    """The outcome as one JSON-ready object."""
    code = exit_code(troubles)
    return {
        "schema": SCHEMA,
        "exit_code": code,
        "outcome": WORDS[code],
        "runs": len(results),
        "troubles": [
            {
                "code": one.code,
                "kind": one.kind,
                "cell": one.cell,
                "property": one.property,
                "sentence": one.sentence,
                "run": one.result.run if one.result else "",
                "command": one.result.command if one.result else "",
                "exercise": one.exercise,
            }
            for one in troubles
        ],
    }


def _trouble(
    code: int, kind: str, cell: str, sentence: str, prop: str = "", result: Result | None = None
) -> Trouble:
    return Trouble(code=code, kind=kind, cell=cell, sentence=sentence, property=prop, result=result)


def _violations(
    results: Sequence[Result], known: Sequence[KnownIssue], today: date, given: Rules
) -> Iterable[Trouble]:
    """Each broken promise once per cell and property, unless it is a known issue today, or a
    duplicate that is judged by rate."""
    broken: dict[tuple[str, str], list[tuple[Result, str]]] = {}
    for result in results:
        for prop, one in result.broken():
            if prop == EXCLUSION and _by_rate(result, given):
                continue
            broken.setdefault((result.cell, prop), []).append((result, one.sentence or one.reason))
    made = Counter(result.cell for result in results if not failed(result))
    for (cell, prop), runs in broken.items():
        first, sentence = runs[0]
        says = f"violated in {len(runs)} of {made[cell]} runs, first with seed {first.seed}:"
        says = f"{says} {sentence}"
        excuses = (one for one in known if one.property == prop and one.covers(first))
        excuse = next(excuses, None)
        if excuse is None:
            yield _trouble(FAILED, "violation", cell, says, prop, first)
        elif excuse.expires < today:
            ended = (
                f"{says}; known issue, suppression expired on {excuse.expires} ({excuse.reason})"
            )
            yield _trouble(FAILED, "expired-excuse", cell, ended, prop, first)
        else:
            why = f"{says}; known issue, suppressed until {excuse.expires}: {excuse.reason}"
            yield _trouble(PASSED, "excused", cell, why, prop, first)


def _by_rate(result: Result, given: Rules) -> bool:
    """Whether duplicates of a run are judged by their rate: of a lock for efficiency, where a rate
    is given. For correctness one is too many."""
    return given.duplicates is not None and result.purpose == EFFICIENCY


def _duplicates(results: Sequence[Result], given: Rules) -> Iterable[Trouble]:
    """Per cell whether the rate of duplicates is certainly above the limit, below, or unknown."""
    by_rate = [result for result in results if _by_rate(result, given)]
    for cell, runs in _by_cell(by_rate).items():
        events, grants = sum(r.duplicates for r in runs), sum(r.grants for r in runs)
        limit = given.duplicates or 0.0
        low, high = (100 * edge for edge in clopper_pearson(min(events, grants), grants))
        first = next((run for run in runs if run.duplicates), runs[0])
        says = (
            f"{events} of {grants} grants were duplicates: {low:.3g}% to {high:.3g}%"
            f" (95% confidence), allowed {limit:g}%"
        )
        if low > limit:
            says += f"; first with seed {first.seed}"
            yield _trouble(FAILED, DUPLICATES, cell, says, EXCLUSION, first)
        elif high > limit:
            more = f"{says}; more grants are needed"
            yield _trouble(INCONCLUSIVE, DUPLICATES, cell, more, EXCLUSION, first)
        elif events:
            yield _trouble(PASSED, DUPLICATES, cell, says, EXCLUSION, first)


def _excuses(
    results: Sequence[Result], known: Sequence[KnownIssue], today: date
) -> Iterable[Trouble]:
    """Suppressions of issues that no longer occur: they would hide the next failure."""
    for one in known:
        where = one.cell or one.system
        judged = [
            result.properties[one.property].verdict
            for result in results
            if one.covers(result) and one.property in result.properties
        ]
        if Verdict.VIOLATED in judged:
            continue
        if Verdict.HOLDS in judged:
            says = f"held in {judged.count(Verdict.HOLDS)} runs: remove its [[known]] entry"
            yield _trouble(FAILED, "stale-excuse", where, says, one.property)
        else:
            says = "known issue, but not tested in any run"
            yield _trouble(INCONCLUSIVE, "untried-excuse", where, says, one.property)


def _not_exercised(results: Sequence[Result]) -> Iterable[Trouble]:
    """Promises of a system that none of its runs exercised, and kinds of fault for which all of
    them together did not; each cause once."""
    systems: dict[str, list[Result]] = {}
    for result in results:
        systems.setdefault(result.system, []).append(result)
    for system, runs in systems.items():
        for part in sums.left_unknown(runs):
            judged = [run for run in runs if part.properties[0] in run.properties]
            first = next((run for run in judged if _lacks(run, part)), judged[0])
            says = part.over(len(judged))
            prop = ", ".join(part.properties)
            trouble = _trouble(INCONCLUSIVE, NOT_EXERCISED, system, says, prop, first)
            yield replace(trouble, exercise=part.command)


def _lacks(run: Result, part: LeftUnknown) -> bool:
    """Whether a run shows what a part is about."""
    return bool({*part.faults} & {*run.properties[part.properties[0]].lacks})


def _lost_exercise(results: Sequence[Result], baseline: Baseline) -> Iterable[Trouble]:
    """Properties that most runs of the baseline exercised, and none does now."""
    by_cell = _by_cell(results)
    for (cell, prop), (before, runs) in baseline.exercised.items():
        if 2 * before <= runs:
            continue
        now = [run for run in by_cell.get(cell, ()) if prop in run.properties]
        if not now:
            says = f"tested in {before} of {runs} runs of the baseline, now not judged"
            yield _trouble(INCONCLUSIVE, "lost-exercise", cell, says, prop)
        elif not any(run.properties[prop].exercised for run in now) and not _summed(now, prop):
            parts = sums.of_properties(now)[prop].left_unknown(prop)
            why = parts[0].cause if parts else now[0].properties[prop].reason
            counted = baseline.opportunities.get((cell, prop), 0)
            with_ = f" with {counted} opportunities" if counted else ""
            says = (
                f"tested in {before} of {runs} runs of the baseline{with_}, now in 0 of"
                f" {len(now)}: {why}"
            )
            trouble = _trouble(INCONCLUSIVE, "lost-exercise", cell, says, prop, now[0])
            yield replace(trouble, exercise=parts[0].command if parts else "")


def _summed(runs: Sequence[Result], prop: str) -> bool:
    """Whether runs exercised a property together, under each planned kind of fault."""
    one = sums.of_properties(runs)[prop]
    return not one.open and not one.lacking()


def _changed(results: Sequence[Result], baseline: Baseline) -> dict[str, str]:
    """Cells of the baseline whose system's description has changed -> the present cell."""
    now = {without_hash(result.cell): result.cell for result in results}
    current = {result.cell for result in results}
    before = {cell for cell, _ in (*baseline.exercised, *baseline.measures)}
    return {
        cell: now[without_hash(cell)]
        for cell in sorted(before - current)
        if without_hash(cell) in now and without_hash(cell) != cell
    }


def _changes(
    changed: Mapping[str, str], results: Sequence[Result], baseline: Baseline
) -> Iterable[Trouble]:
    """A problem for each system whose description differs from the baseline's."""
    pairs = {(_system(old), _system(new)) for old, new in changed.items()}
    names = {result.system for result in results}
    for one in baseline.known:
        new = next((name for name in names if without_hash(name) == without_hash(one.system)), "")
        if new and one.system not in names and without_hash(one.system) != one.system:
            pairs.add((one.system, new))
    for old, new in sorted(pairs):
        says = (
            f"the system's description changed from {old} (baseline) to {new} (these runs), so"
            " nothing was compared; if the change is intended, regenerate the baseline with"
            f" --update-baseline, and name {new.partition(' ')[0]} in its [[known]] entries"
        )
        yield _trouble(INCONCLUSIVE, "changed-description", new, says)


def _system(cell: str) -> str:
    return cell.partition(" / ")[0]


def _new_limits(results: Sequence[Result], baseline: Baseline, given: Rules) -> Iterable[Trouble]:
    """Violated documented limits: a note, or a failure if `--fail-on limits` is given."""
    reported: set[tuple[str, str]] = set()
    for result in results:
        for prop, one in result.properties.items():
            if (
                one.promised
                or one.verdict is not Verdict.VIOLATED
                or (result.cell, prop) in reported
            ):
                continue
            reported.add((result.cell, prop))
            excused = any(k.property == prop and k.covers(result) for k in baseline.known)
            code = FAILED if given.limits and not excused else PASSED
            says = f"violated, never promised: {one.sentence or one.reason}"
            yield _trouble(code, "limit", result.cell, says, prop, result)


def _slower(results: Sequence[Result], baseline: Baseline, given: Rules) -> Iterable[Trouble]:
    """Measures significantly worse than the baseline's, by more than the given percentage."""
    by_cell = _by_cell(results)
    for cell, (name, percent) in itertools.product(by_cell, given.slower.items()):
        new = [run.measures[name] for run in by_cell[cell] if name in run.measures]
        old = list(baseline.measures.get((cell, name), ()))
        if not new and not old:
            continue
        if not new or not old or least_chance(len(new), len(old)) > CHANCE:
            says = (
                f"{name} cannot be compared: {len(new)} runs with it now, {len(old)} in the"
                " baseline; at least 3 on each side are needed"
            )
            yield _trouble(INCONCLUSIVE, "too-few-runs", cell, says)
            continue
        fewer = name in RATES
        chance = chance_of_greater(old, new) if fewer else chance_of_greater(new, old)
        before, now = median(old), median(new)
        worse = (before / now if fewer else now / before) if now and before else float("inf")
        if chance <= CHANCE and worse > 1 + percent / 100:
            says = (
                f"{name}: median {_shown(name, now)}, in the baseline {_shown(name, before)}"
                f" ({len(new)} and {len(old)} runs, p = {chance:.2g}): {MEASURES[name]}"
            )
            yield _trouble(FAILED, "slower", cell, says)


def _by_cell(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The executed runs, by their cell."""
    results_of: dict[str, list[Result]] = {}
    for result in results:
        if not failed(result):
            results_of.setdefault(result.cell, []).append(result)
    return results_of


def _shown(name: str, value: float) -> str:
    return f"{value:.1f} per s" if name in RATES else f"{value / 1e6:.1f} ms"
