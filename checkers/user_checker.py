"""A checker of the user: a function from a Case to a verdict, with the property that it judges.

It is judged like a built-in one: HOLDS only with counts of what was exercised, VIOLATED only with
findings whose witnesses are rows of the history, UNKNOWN in every other case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import PropertyVerdict, Severity, Verdict
from holdfast.harness.plans.manifest import RecordedChecker
from holdfast.harness.properties import PROPERTIES

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class UserChecker:
    """Implements the port `Checker`. What the function raises or returns wrongly is UNKNOWN."""

    function: Callable[[Case], PropertyVerdict]
    property: str
    says: str
    severity: Severity

    def __call__(self, case: Case) -> PropertyVerdict:
        """The verdict on its property."""
        try:
            verdict = self.function(case)
        except Exception as error:
            return self._unknown(f"the checker crashed: {type(error).__name__}: {error}")
        if not isinstance(verdict, PropertyVerdict):
            return self._unknown(f"the checker returned a {type(verdict).__name__}")
        # The independent verifier has no rule for it: what looks like a proof is none.
        verdict = replace(
            verdict,
            property=self.property,
            findings=tuple(replace(finding, proof=None) for finding in verdict.findings),
        )
        shown = (*verdict.findings, *verdict.notes)
        rows = [witness for finding in shown for witness in finding.witnesses]
        if any(not 0 <= row < len(case.history.rows) for row in rows):
            return self._unknown("a witness of the checker is no row of the history")
        if (verdict.verdict is Verdict.VIOLATED) != bool(verdict.findings):
            return self._unknown("the checker's verdict contradicts its findings")
        if verdict.verdict is Verdict.HOLDS and not any(verdict.exercised.values()):
            return self._unknown("the checker counted nothing that it judged")
        return verdict

    def recorded(self, name: str) -> RecordedChecker:
        """What the manifest of a run records of it; `name` is that of the plan."""
        return RecordedChecker(name=name, severity=self.severity, says=self.says)

    def _unknown(self, reason: str) -> PropertyVerdict:
        return PropertyVerdict(property=self.property, verdict=Verdict.UNKNOWN, reason=reason)


def checker(
    name: str, *, says: str, severity: str = "medium"
) -> Callable[[Callable[[Case], PropertyVerdict]], UserChecker]:
    """Decorates a checker of the property `name`. says: the property in one sentence; severity of a
    violation: "critical", "high", "medium" or "low". Errors: UsageError."""
    problems = []
    if not NAME.fullmatch(name):
        problems.append(f"property {name!r}: expected lower-case words joined by hyphens")
    if name in PROPERTIES:
        problems.append(f"property {name!r} is built in: choose another name")
    if severity not in list(Severity):
        problems.append(f"severity {severity!r}: expected one of {', '.join(Severity)}")
    if problems:
        raise UsageError(*problems)

    def made(function: Callable[[Case], PropertyVerdict]) -> UserChecker:
        return UserChecker(function=function, property=name, says=says, severity=Severity(severity))

    return made
