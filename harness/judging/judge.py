"""Computes the verdict of a run directory from its files alone, without cluster or engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from holdfast.harness.core.case import Case, Checker, Window
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import (
    CALM,
    ENFORCED_BY_RESOURCE,
    PROPERTIES,
    READABLE,
    SCHEMA,
    Finding,
    Promises,
    PropertyVerdict,
    Verdict,
    worst,
)
from holdfast.harness.history.call_errors import every_acquire_failed
from holdfast.harness.history.reader import load
from holdfast.harness.history.tighten import share
from holdfast.harness.judging import opportunities
from holdfast.harness.judging.certificates import certificate, order_certificate
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.judging.second_grant import happened
from holdfast.harness.judging.server_record import compared
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.plans.manifest import Manifest, RecordedChecker
from holdfast.harness.runs import directory, files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.causes import Between, unknown, with_causes
from holdfast.harness.verdicts.evidence import Evidence
from holdfast.harness.verdicts.judged import (
    Judged,
    Judgement,
    ObservedFault,
    Shown,
    UnderKind,
    read,
)

OWNERS_ADMITTED = "no-false-rejection"
"""Judged in every run in which the resource refused an owner."""
Measure = Callable[[Case], Evidence]


def judge(
    run: RunDir,
    manifest: Manifest,
    checkers: Mapping[str, Checker],
    evidence: Measure,
    orders: bytearray,
) -> Judged:
    """The judged run; UsageError if its files are damaged.

    `manifest` is the run's, with the properties of further checkers if any; `checkers` has one per
    property. The content of the file of orders (`harness.verification.orders`) is added to
    `orders`.
    """
    recording = load(run.history)
    with files.shaped(run.path):
        case = case_of(manifest, recording, journal.marks(run), journal.faults(run))
    told = replace(evidence(case), narrowed=share(case.history.rows))
    judged = judge_case(manifest, case, checkers, orders)
    record = compared(run, case)
    return replace(judged, clocks=recording.clocks, evidence=told, server_record=record)


def stored(run: RunDir) -> Judged:
    """The judged run of its verdicts.json; UsageError if it is missing, damaged or of a newer
    schema. The causes of its findings are derived if a former version wrote it."""
    judged = read(directory.read_json(run.verdicts, *READABLE))
    return judged if judged.causes else with_causes(judged, run.read_manifest().traits)


def judge_case(
    manifest: Manifest,
    case: Case,
    checkers: Mapping[str, Checker],
    orders: bytearray | None = None,
) -> Judged:
    """The verdict of a run whose history is in memory, without its evidence."""
    verdicts = [judge_one(prop, checkers[prop], case) for prop in case.asked]
    verdicts += _refused_owners(case, checkers)
    failing = every_acquire_failed(case.history, case.start_ns, case.nodes)
    between = partial(happened, case)
    return judged_of(manifest, case, verdicts, failing, orders, between)


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
    orders: bytearray | None = None,
    between: Between = unknown,
) -> Judged:
    """The verdict of a run from those of its properties.

    failing   why every acquire failed, "" if one did not
    between   what happened before a second grant, where all rows are at hand
    """
    kinds = sorted({window.do for window in case.windows if window.effective})
    orders = bytearray() if orders is None else orders
    plan, own = manifest.plan, manifest.checkers
    rows = [
        _required(_judgement(verdict, case, kinds, orders, own), plan.require)
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
        faults=tuple(_fault(window) for window in case.windows),
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


def _judgement(
    verdict: PropertyVerdict,
    case: Case,
    kinds: Sequence[str],
    orders: bytearray,
    own: Mapping[str, RecordedChecker],
) -> Judgement:
    """own: what the manifest records of checkers of the user, by property."""
    user = None if verdict.property in PROPERTIES else own[verdict.property]
    return Judgement(
        checker=user.name if user else "",
        says=user.says if user else "",
        property=verdict.property,
        verdict=verdict.verdict,
        promised=promised(verdict.property, case.promises, case.options, kinds),
        severity=user.severity if user else PROPERTIES[verdict.property][0],
        reason=verdict.reason,
        exercised=dict(verdict.exercised),
        certificate=order_certificate(case, verdict, orders),
        findings=tuple(_shown(finding, case) for finding in verdict.findings),
        notes=tuple(_shown(finding, case) for finding in verdict.notes),
        either=verdict.either if verdict.verdict is Verdict.UNKNOWN else (),
        under={
            kinds: UnderKind(
                verdict=under.verdict,
                asked=kinds in case.kinds,
                promised=promised(verdict.property, case.promises, case.options, _kinds(kinds)),
                reason=under.reason,
                exercised=dict(under.exercised),
                findings=tuple(under.findings),
                opportunities=opportunities.shown(case, under),
                short=under.short,
            )
            for kinds, under in verdict.under.items()
        },
    )


def _required(row: Judgement, required: Collection[str]) -> Judgement:
    """The row, which counts like a promise if the plan requires its property."""
    if row.property not in required:
        return row
    under = {kinds: replace(one, promised=True) for kinds, one in row.under.items()}
    return replace(row, promised=True, required=True, under=under)


def _kinds(key: str) -> list[str]:
    """The kinds of fault in a key of `under`."""
    return [] if key == CALM else key.split("+")


def promised(
    prop: str, promises: Promises, options: Mapping[str, str], kinds: Sequence[str]
) -> bool:
    """Whether a system promises the property under these kinds of fault.

    options   of the run: its resource and workload decide too
    """
    if prop in ENFORCED_BY_RESOURCE and options["resource"] == "unfenced":
        return False
    if prop == "exactly-once-job" and options.get("mark", "0") != "0":
        return False
    return promises.promised(prop, kinds)


def _fault(window: Window) -> ObservedFault:
    """A fault for people and for JSON; of its traits only those that a report draws."""
    return ObservedFault(
        id=window.id,
        do=window.do,
        target=window.target,
        nodes=tuple(window.nodes),
        from_ns=window.from_ns,
        to_ns=window.to_ns,
        effective=window.effective,
        evidence=window.evidence,
        holder=window.holder,
        reason=window.reason,
        pattern=window.traits.pattern,
        requested_ns=window.requested_ns,
    )


def _shown(finding: Finding, case: Case) -> Shown:
    at = {witness: n for n, witness in enumerate(finding.witnesses)}
    return Shown(
        kind=finding.kind,
        sentence=finding.sentence,
        lock=finding.lock,
        t_ns=finding.t_ns,
        witnesses=tuple(event(case.history, witness, case.nodes) for witness in finding.witnesses),
        spans=tuple((s, e, label, at.get(row, -1)) for s, e, label, row in finding.spans),
        cause=finding.cause,
        certificate=certificate(case, finding),
    )


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
