"""Verdicts, findings and faults as verdicts.json has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.verdict import PROPERTIES, Finding, PropertyVerdict, Verdict
from holdfast.harness.judging import opportunities
from holdfast.harness.judging.certificates import certificate, order_certificate
from holdfast.harness.judging.outcome import kinds_in, promised
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.plans.manifest import RecordedChecker
from holdfast.harness.verdicts.judged import Judgement, ObservedFault, Shown, UnderKind


def judgement(
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
        findings=tuple(shown(finding, case) for finding in verdict.findings),
        notes=tuple(shown(finding, case) for finding in verdict.notes),
        either=verdict.either if verdict.verdict is Verdict.UNKNOWN else (),
        under={
            kinds: UnderKind(
                verdict=under.verdict,
                asked=kinds in case.kinds,
                promised=promised(verdict.property, case.promises, case.options, kinds_in(kinds)),
                reason=under.reason,
                exercised=dict(under.exercised),
                findings=tuple(under.findings),
                opportunities=opportunities.shown(case, under),
                short=under.short,
            )
            for kinds, under in verdict.under.items()
        },
    )


def observed_fault(window: Window) -> ObservedFault:
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


def shown(finding: Finding, case: Case) -> Shown:
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
