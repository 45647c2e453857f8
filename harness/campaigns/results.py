"""Result of one judged run, small enough to keep thousands: the unit of campaigns.

Matrix and gate use nothing else. `run` leads to the run directory with all details.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json, current
from holdfast.harness.core.verdict import CALM as CALM
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.verdicts.evidence import Dist, Evidence, Number
from holdfast.harness.verdicts.judged import Cause, Judged, Judgement, UnderKind
from holdfast.harness.verdicts.left_unknown import Tried
from holdfast.harness.verification.rules import PATTERNS
from holdfast.harness.verification.stroke_opportunities import DECIDERS, StrokePattern

EXCLUSION = "mutual-exclusion"
EFFICIENCY = "efficiency"
"""The purpose of a lock that saves work: a duplicate does no harm, if there are few."""
AT_DECIDERS = {
    row
    for row, pattern in PATTERNS.items()
    if isinstance(pattern, StrokePattern) and pattern.struck == DECIDERS
}
"""Rows about faults that struck the servers that decide."""
RANK = {0: 0, 3: 1, 4: 2, 1: 3}
"""The worst of several exit codes: 1 before 4 before 3."""
_HASH = re.compile(r"^([^ ]+)@[0-9a-f]{8}(?= |$)")
"""The first word of a user's system: its name, and the hash of its description."""
NOT_THE_SYSTEM = ("sim_", "election_ms", "snapshot_every")
"""Options of the environment, which do not make it another system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Verdict of one property in one run; kind and sentence of the first finding.

    cause   sentence of the cause that this finding belongs to
    under   kind of fault, or kinds joined by "+" -> verdict under it; empty in results of older
            versions
    lacks   planned kinds under which it is promised and was not exercised -> reason
    seen    kind of fault -> row of the table of opportunities -> those of the run
    short   kinds under which it is UNKNOWN for lack of opportunities alone
    counts  what the run exercised of it, by name; findings: their number. Empty and 0 in results
            of older versions
    """

    verdict: Verdict
    promised: bool
    severity: str = ""
    reason: str = ""
    kind: str = ""
    sentence: str = ""
    under: Mapping[str, Verdict] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, Mapping[str, Tried]] = field(default_factory=dict)
    short: tuple[str, ...] = ()
    cause: str = ""
    counts: Mapping[str, Number] = field(default_factory=dict)
    findings: int = 0

    @property
    def exercised(self) -> bool:
        """Whether the property was exercised, under every planned kind of fault."""
        return self.verdict is not Verdict.UNKNOWN and not self.lacks


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One run.

    key        names the run within its campaign; the name of its directory elsewhere
    system     with options that make it another lock: "redis persistence=always unfenced"; of a
               user's system, name and hash of its description: "mylock@1f3a9c07"
    nemesis    planned kinds, joined by "+"; "none"; "swarm": sampled from the seed
    effective  kinds that took effect
    measures   of performance: see MEASURES
    scenario   the scenario of its plan, "" for none
    purpose    "correctness", or "efficiency" if a duplicate is harmless; "" if an older version
               kept the result
    duplicates number of grants that overlap another hold, by mutual-exclusion's findings
    grants     number of grants judged for it; 0 if it was not judged
    remedy     the command that exercises what it left open, "" for none
    checkers   fingerprint of the checkers that judged it; version: of a simulated system's code;
               "" if unknown
    run        its directory, "" if only the command is kept
    seconds    length of the run; 0 if an older version kept the result
    exit_code  4 if it could not be executed: then `problems` has the reason
    """

    key: str
    system: str
    backend: str
    workload: str
    nemesis: str
    seed: int
    verdict: str
    exit_code: int
    command: str
    effective: tuple[str, ...] = ()
    properties: Mapping[str, Outcome] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    digest: str = ""
    run: str = ""
    scenario: str = ""
    purpose: str = ""
    duplicates: int = 0
    grants: int = 0
    remedy: str = ""
    checkers: str = ""
    version: str = ""
    seconds: float = 0.0

    @property
    def cell(self) -> str:
        """The cell of the run: everything but the seed."""
        faults = staged(self.scenario) if self.scenario else self.nemesis
        return f"{self.system} / {self.backend} / {self.workload} / {faults}"

    def broken(self) -> list[tuple[str, Outcome]]:
        """The promises it broke."""
        return [
            (prop, one)
            for prop, one in self.properties.items()
            if one.promised and one.verdict is Verdict.VIOLATED
        ]


MEASURES = {
    "p50": "acquire latency p50",
    "p90": "acquire latency p90",
    "p99": "acquire latency p99",
    "failover": "longest time without a grant after a fault on servers",
    "grants": "grants per second (fewer is worse)",
    "ops": "ok calls per second (fewer is worse)",
}
"""Measures of a run: durations in ns, and rates."""
RATES = ("grants", "ops")


def variant(system: str, options: Mapping[str, str], resource: str) -> str:
    """The name of a system with these options and this resource."""
    telling = [
        f"{name}={value}"
        for name, value in sorted(options.items())
        if not name.startswith(NOT_THE_SYSTEM)
    ]
    # The folder of a user's own file differs from machine to machine.
    name = system.rpartition("/")[2]
    return " ".join([name, *telling, *([resource] if resource == "unfenced" else [])])


def without_hash(name: str) -> str:
    """A system or a cell without the hash of the system's description: the declared name."""
    return _HASH.sub(r"\1", name, count=1)


def planned(kinds: Iterable[str]) -> str:
    """Kinds of faults as one word."""
    return "+".join(sorted(set(kinds))) or CALM


def staged(scenario: str) -> str:
    """Name of the faults of a scenario."""
    return f"scenario {scenario}"


def of_verdicts(judged: Judged, manifest: Manifest, *, key: str = "", run: str = "") -> Result:
    """The result of a judged run, from its verdicts.json and its manifest."""
    # What the run itself adds, such as the folder of a client program, is no option of the plan.
    given = manifest.plan.options
    options = {k: v for k, v in manifest.options.system.items() if k in given}
    system = manifest.identity or judged.system
    exclusion = [row for row in judged.verdicts if row.property == EXCLUSION]
    return Result(
        key=key or judged.run,
        system=variant(system, options, judged.resource),
        backend=judged.backend,
        workload=judged.workload,
        nemesis=planned(fault.do for fault in manifest.plan.faults),
        seed=judged.seed,
        verdict=str(judged.verdict),
        exit_code=judged.exit_code,
        command=judged.command,
        effective=tuple(sorted({fault.do for fault in judged.faults if fault.effective})),
        properties={
            row.property: _outcome(row, manifest, judged.causes) for row in judged.verdicts
        },
        measures=_measures(judged),
        problems=tuple(judged.problems),
        run=run,
        scenario=manifest.plan.scenario,
        purpose=manifest.promises.purpose,
        seconds=max(judged.end_ns - judged.start_ns, 0) / SECOND,
        duplicates=sum(len(row.findings) for row in exclusion),
        grants=sum(int(row.exercised.get("grants", 0)) for row in exclusion),
        remedy=judged.remedy,
    )


def _outcome(row: Judgement, manifest: Manifest, causes: Sequence[Cause]) -> Outcome:
    first = row.findings[0] if row.findings else None
    cause = next((one for one in causes if 0 in one.findings.get(row.property, ())), None)
    return Outcome(
        verdict=row.verdict,
        promised=row.promised,
        severity=row.severity,
        reason=row.reason,
        kind=first.kind if first else "",
        sentence=first.sentence if first else "",
        under={kinds: one.verdict for kinds, one in row.under.items()},
        lacks=row.not_exercised() if row.verdict is not Verdict.VIOLATED else {},
        seen={
            kinds: _tried(one, anywhere=_anywhere(manifest, kinds))
            for kinds, one in row.under.items()
            if one.opportunities
        },
        short=tuple(kinds for kinds, one in row.under.items() if one.short),
        cause=cause.sentence if cause else "",
        counts=dict(row.exercised),
        findings=len(row.findings),
    )


def _anywhere(manifest: Manifest, kind: str) -> bool:
    """Whether the plan leaves open which servers a kind of fault strikes."""
    given = dict(manifest.plan.nemeses).get(kind)
    return given is not None and not given.get("target")


def _tried(under: UnderKind, *, anywhere: bool) -> dict[str, Tried]:
    return {
        one.row: Tried(
            count=one.count,
            sentence=one.sentence,
            staged=one.staged,
            nearest=one.nearest,
            asked=anywhere and one.row in AT_DECIDERS,
        )
        for one in under.opportunities
    }


def _measures(judged: Judged) -> dict[str, float]:
    """Measures from the run's evidence; {} without evidence."""
    evidence = judged.evidence
    waited = evidence.latency_ns.get("acquire", Dist())
    quantiles = {"p50": waited.p50, "p90": waited.p90, "p99": waited.p99}
    measures = {name: value for name, value in quantiles.items() if value is not None}
    gaps = [row.gap_ns for row in evidence.failovers if row.gap_ns is not None]
    if gaps:
        measures["failover"] = max(gaps)
    span_s = (judged.stop_ns - judged.start_ns) / SECOND
    if evidence != Evidence() and span_s > 0:
        measures["grants"] = round(evidence.acquire.granted / span_s, 3)
        answered = sum(spans.n for spans in evidence.latency_ns.values())
        measures["ops"] = round(answered / span_s, 3)
    return measures


def failed(result: Result) -> bool:
    """Whether the run could not be executed."""
    return result.exit_code == 4


def table(result: Result) -> dict[str, Any]:
    """The result as plain values, for JSON."""
    return asdict(result)


def read(row: Mapping[str, Json], where: str) -> Result:
    """The result that `table` wrote, in any version. UsageError names an invalid field."""
    try:
        return msgspec.convert(current(row), type=Result, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: not a result of this version: {error}") from error


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several results; 3 of none."""
    return max(codes, key=lambda code: RANK[code], default=3)
