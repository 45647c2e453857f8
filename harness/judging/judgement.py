"""Verdicts, findings and faults as verdicts.json has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Finding, PropertyVerdict, Verdict, promised
from holdfast.harness.judging import opportunities
from holdfast.harness.judging.outcome import kinds_in
from holdfast.harness.judging.shown_rows import event
from holdfast.harness.plans.manifest import RecordedChecker
from holdfast.harness.properties import PROPERTIES
from holdfast.harness.verdicts.judged import Judgement, ObservedFault, Shown, UnderKind


class Certifies(Protocol):
    """Makes what a second program accepts or refuses of a verdict, as JSON-ready objects."""

    @property
    def orders(self) -> bytearray:
        """The content of the file of orders, which is stored beside the verdicts."""

    def of_finding(self, case: Case, finding: Finding) -> Mapping[str, Json] | None:
        """The certificate of a finding, None if it has no proof."""

    def of_pass(self, case: Case, verdict: PropertyVerdict) -> Mapping[str, Json] | None:
        """The certificate of a property that holds, None if it has none; adds to `orders`."""


class Uncertified:
    """Makes no certificates: of a run that is judged in parts, or while it goes on."""

    orders = bytearray()

    def of_finding(self, case: Case, finding: Finding) -> None:
        """None."""

    def of_pass(self, case: Case, verdict: PropertyVerdict) -> None:
        """None."""


def judgement(
    verdict: PropertyVerdict,
    case: Case,
    kinds: Sequence[str],
    certifies: Certifies,
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
        severity=user.severity if user else PROPERTIES[verdict.property].severity,
        reason=verdict.reason,
        exercised=dict(verdict.exercised),
        certificate=certifies.of_pass(case, verdict),
        findings=tuple(shown(finding, case, certifies) for finding in verdict.findings),
        notes=tuple(shown(finding, case, certifies) for finding in verdict.notes),
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


def shown(finding: Finding, case: Case, certifies: Certifies) -> Shown:
    """A finding with its witnesses and its certificate."""
    at = {witness: n for n, witness in enumerate(finding.witnesses)}
    return Shown(
        kind=finding.kind,
        sentence=finding.sentence,
        lock=finding.lock,
        t_ns=finding.t_ns,
        witnesses=tuple(event(case.history, witness, case.nodes) for witness in finding.witnesses),
        spans=tuple((s, e, label, at.get(row, -1)) for s, e, label, row in finding.spans),
        cause=finding.cause,
        certificate=certifies.of_finding(case, finding),
    )
