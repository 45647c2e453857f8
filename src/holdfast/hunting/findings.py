"""What the runs of a hunt showed: the same finding is listed once, the worst ones first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.engine.trials import ENDED
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.judged import Shown as Finding
from holdfast.hunting.releases import Span

SEVERITIES = tuple(Severity)
NAME = re.compile(r"'[^']*'|\"[^\"]*\"|\b(?:lock|n|c|f|s)-?\d+\b")
NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*(?:\s?(?:ns|us|ms|s|m|%)\b)?")
NO_CALL = ""
ACQUIRES = {"try": "acquire"}
"""Operations that are the same call of the library."""
CALLS = ("acquire", "try", "renew", "release", "write")


@dataclass(frozen=True, kw_only=True, slots=True)
class Occurrence:
    """A finding of one run.

    prop "" and kind ENDED: a node exited unexpectedly, as in `trials.Shown`
    call      the operation that shows it: acquire, release, write; "" if unknown
    needs     options of the library that the run had apart from the default
    faults    kinds of fault that took effect before it
    """

    prop: str
    kind: str
    promised: bool
    severity: Severity
    sentence: str
    call: str
    after_ns: int
    lock: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    situation: str = ""
    release: str = ""
    run: str = ""

    @property
    def name(self) -> str:
        """Property and kind as text."""
        return f"{self.prop}: {self.kind}" if self.prop else f"a node {self.kind}"

    @property
    def shape(self) -> str:
        """What the sentence says happened, without numbers and names.

        What follows a colon is why the checker is certain, which depends on the run: "c2's lease
        had not expired" or "c2's lease could not end before 2.030 s".
        """
        return NUMBER.sub("0", NAME.sub("_", self.sentence.partition(": ")[0]))


@dataclass(kw_only=True, slots=True)
class Found:
    """One finding of a hunt: its simplest occurrence first, and what is known about it.

    also         findings that came with it: of the same moment, or never promised and seen only in
                 runs that showed this one
    again        runs of the same plan that showed it, of `runs`, the first one included
    span         its releases, None if they are unknown; unbisected: the reason
    shrunk       path of the smallest plan found, "" for none; size: of that plan, as text
    """

    seen: list[Occurrence]
    also: list[Found] = field(default_factory=list)
    again: int = 1
    runs: int = 1
    span: Span | None = None
    unbisected: str = ""
    shrunk: str = ""
    size: str = ""

    @property
    def first(self) -> Occurrence:
        """The occurrence that needed least."""
        return self.seen[0]

    @property
    def faults(self) -> list[str]:
        """The kinds of fault under which it was seen, each once; "none" for none."""
        words = ("+".join(one.faults) or "none" for one in self.seen)
        return list(dict.fromkeys(words))


def occurrences(judged: Judged) -> list[Occurrence]:
    """The findings of a judged run, one per property, kind, shape and call."""
    by_shape: dict[tuple[str, str, str, str], Occurrence] = {}
    for row in judged.verdicts:
        for each in row.findings if row.verdict is Verdict.VIOLATED else ():
            one = Occurrence(
                prop=row.property,
                kind=each.kind,
                promised=row.promised,
                severity=row.severity,
                sentence=each.sentence,
                call=_call(each),
                after_ns=max(0, each.t_ns - judged.start_ns),
                lock=each.lock,
                faults=_faults(judged, _over_ns(judged, each)),
            )
            by_shape.setdefault((one.prop, one.kind, one.shape, one.call), one)
    for text in judged.problems:
        if ENDED in text:
            one = Occurrence(
                prop="",
                kind=ENDED,
                promised=True,
                severity=SEVERITIES[0],
                sentence=text,
                call=NO_CALL,
                after_ns=judged.stop_ns - judged.start_ns,
                faults=_faults(judged, judged.stop_ns),
            )
            by_shape.setdefault((one.prop, one.kind, one.shape, one.call), one)
    return list(by_shape.values())


def _call(finding: Finding) -> str:
    """The operation that returned at the moment of the violation, else the last one of a client
    before the probe."""
    at = [one.op for one in finding.witnesses if one.t_ret_ns == finding.t_ns]
    known = [one.op for one in finding.witnesses if one.op in CALLS]
    chosen = next((op for op in at if op in CALLS), known[-1] if known else NO_CALL)
    return ACQUIRES.get(chosen, chosen)


def _over_ns(judged: Judged, finding: Finding) -> int:
    """When the violation was complete: for a request that hung, its end."""
    ends = [one.t_ret_ns or judged.stop_ns for one in finding.witnesses]
    begun = [one.t_inv_ns for one in finding.witnesses]
    hung = (end for end, at in zip(ends, begun, strict=True) if at == finding.t_ns)
    return max(hung, default=finding.t_ns)


def _faults(judged: Judged, before_ns: int) -> tuple[str, ...]:
    kinds = {one.do for one in judged.faults if one.effective and one.from_ns <= before_ns}
    return tuple(sorted(kinds))


def distinct(seen: Sequence[Occurrence]) -> list[Found]:
    """Each finding once, the worst ones first.

    Two occurrences are the same finding if property, kind, shape of the sentence and call agree,
    and the way of using the library that one needed is part of the other's. Two with the same
    sentence but different options (a lock without a lease, a lock used by `with`) stay two. Of a
    property that is not promised one finding per shape is enough.
    """
    findings: list[Found] = []
    simplest = sorted(seen, key=lambda one: (not one.promised, len(one.needs), len(one.faults)))
    for one in simplest:
        same = next((other for other in findings if _same(other.first, one)), None)
        if same is None:
            findings.append(Found(seen=[one]))
        else:
            same.seen.append(one)
    return _folded(sorted(findings, key=rank))


def _folded(ranked: Sequence[Found]) -> list[Found]:
    """The findings without those that came with a worse one, which are listed with it."""
    kept: list[Found] = []
    for one in ranked:
        cause = next((other for other in kept if _came_with(one, other)), None)
        if cause is None:
            kept.append(one)
        else:
            cause.also.append(one)
    return kept


def _came_with(one: Found, worse: Found) -> bool:
    if not worse.first.promised:
        return False
    if one.first.promised:
        moments = {(each.run, each.lock, each.after_ns) for each in worse.seen}
        return all((each.run, each.lock, each.after_ns) in moments for each in one.seen)
    runs = {each.run for each in worse.seen}
    return all(each.run in runs for each in one.seen)


def _same(first: Occurrence, other: Occurrence) -> bool:
    if (first.prop, first.kind, first.shape, first.call) != (
        other.prop,
        other.kind,
        other.shape,
        other.call,
    ):
        return False
    if not other.promised:
        return True
    return first.needs.items() <= other.needs.items()


def rank(found: Found) -> tuple[bool, int, int, int]:
    """Sorts findings: violated promises first, then by severity, then what needs least."""
    one = found.first
    grave = SEVERITIES.index(one.severity)
    return (not one.promised, grave, len(one.needs) + len(one.faults), -len(found.seen))


def shows(seen: Sequence[Occurrence], wanted: Occurrence) -> bool:
    """Whether a run shows a finding: the property and kind, promised if `wanted` is."""
    return any(
        (one.prop, one.kind) == (wanted.prop, wanted.kind) and one.promised >= wanted.promised
        for one in seen
    )


def exit_code(found: Sequence[Found], *, tested: bool) -> int:
    """1 if a promised property was violated, 3 if no run tested any property, else 0.

    A node that exited unexpectedly is listed first and violates no property.
    """
    if any(one.first.promised and one.first.prop for one in found):
        return 1
    return 0 if tested else 3
