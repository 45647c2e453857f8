"""What one judged run comes to, small enough to keep by the thousand: the unit of campaigns.

A matrix and a gate look at nothing else. Whoever wants more follows `run` to its directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import CALM as CALM
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.judging.judge import not_exercised

SCHEMA = "holdfast-result/1"
EXCLUSION = "mutual-exclusion"
EFFICIENCY = "efficiency"
"""The purpose of a lock that saves work: a duplicate does no harm, if there are few."""
RANK = {0: 0, 3: 1, 4: 2, 1: 3}
"""Of several exit codes the worst counts: 1 before 4 before 3."""
_HASH = re.compile(r"^([^ ]+)@[0-9a-f]{8}(?= |$)")
"""The first word of a system of the user's own: its name, and the hash of its description."""
NOT_THE_SYSTEM = ("sim_", "election_ms", "snapshot_every")
"""Options that turn a knob of the surroundings and make no other system of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What was judged of one property in one run; kind and sentence are of the first finding.

    under   per kind of fault, or kinds joined by "+", what was judged under it; of results that
            were kept by an older Holdfast nothing
    lacks   kinds that were asked for, under which it is promised and was not exercised -> why not
    """

    verdict: Verdict
    promised: bool
    severity: str = ""
    reason: str = ""
    kind: str = ""
    sentence: str = ""
    under: Mapping[str, Verdict] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)

    @property
    def exercised(self) -> bool:
        """Whether the run says something, and of every kind of fault that it asked for."""
        return self.verdict is not Verdict.UNKNOWN and not self.lacks


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One run.

    key        names the run within its campaign; the name of its directory elsewhere
    system     with what makes another lock of it: "redis persistence=always unfenced"; of a
               user's own its name and the hash of its description: "mylock@1f3a9c07"
    nemesis    kinds that were planned, "+" between them; "none"; "swarm": drawn from the seed
    bit        kinds that were seen to bite
    measures   of performance: see MEASURES
    scenario   the named scenario whose plan it had, "" for none
    purpose    "correctness", or "efficiency" where a harmless duplicate is tolerable; "" where an
               older Holdfast kept the result
    duplicates of all grants those that fell into another's hold, by mutual-exclusion's findings
    grants     those that were judged for it; 0 where it was not
    run        its directory, "" where only the command is kept
    exit_code  4 where it could not be carried out: then `problems` says why
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
    bit: tuple[str, ...] = ()
    properties: Mapping[str, Outcome] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    digest: str = ""
    run: str = ""
    scenario: str = ""
    purpose: str = ""
    duplicates: int = 0
    grants: int = 0

    @property
    def cell(self) -> str:
        """What it is one run of: everything but the seed."""
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
    "p50": "half of the acquires were granted within",
    "p90": "nine of ten acquires were granted within",
    "p99": "99 of 100 acquires were granted within",
    "failover": "the longest time without a grant after a fault on servers",
    "grants": "grants per second (fewer is worse)",
    "ops": "calls answered ok per second (fewer is worse)",
}
"""What a run is measured by: spans in ns, and rates."""
RATES = ("grants", "ops")


def variant(system: str, options: Mapping[str, str], resource: str) -> str:
    """The name that a system has with these options and such a resource."""
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
    """What the faults of a scenario are called together."""
    return f"scenario {scenario}"


def of_verdicts(
    verdicts: Mapping[str, Any], manifest: Mapping[str, Any], *, key: str = "", run: str = ""
) -> Result:
    """The result of a judged run, from its verdicts.json and its manifest."""
    # What the run itself adds, such as the folder of a client program, is no option of the plan.
    given = manifest["plan"]["options"]
    options = {k: v for k, v in manifest["options"]["system"].items() if k in given}
    system = manifest.get("identity", verdicts["system"])
    exclusion = [row for row in verdicts["verdicts"] if row["property"] == EXCLUSION]
    return Result(
        key=key or verdicts["run"],
        system=variant(system, options, verdicts["resource"]),
        backend=verdicts["backend"],
        workload=verdicts["workload"],
        nemesis=planned(fault["do"] for fault in manifest["plan"]["faults"]),
        seed=verdicts["seed"],
        verdict=verdicts["verdict"],
        exit_code=verdicts["exit_code"],
        command=verdicts["command"],
        bit=tuple(sorted({fault["do"] for fault in verdicts["faults"] if fault["bit"]})),
        properties={row["property"]: _outcome(row) for row in verdicts["verdicts"]},
        measures=_measures(verdicts),
        problems=tuple(verdicts["problems"]),
        run=run,
        scenario=manifest["plan"].get("scenario", ""),
        purpose=str(manifest.get("promises", {}).get("purpose", "")),
        duplicates=sum(len(row["findings"]) for row in exclusion),
        grants=sum(int(row.get("exercised", {}).get("grants", 0)) for row in exclusion),
    )


def _outcome(row: Mapping[str, Any]) -> Outcome:
    first = row["findings"][0] if row["findings"] else {"kind": "", "sentence": ""}
    return Outcome(
        verdict=Verdict(row["verdict"]),
        promised=row["promised"],
        severity=row["severity"],
        reason=row["reason"],
        kind=first["kind"],
        sentence=first["sentence"],
        under={kinds: Verdict(one["verdict"]) for kinds, one in row.get("under", {}).items()},
        lacks=not_exercised(row) if row["verdict"] != Verdict.VIOLATED else {},
    )


def _measures(verdicts: Mapping[str, Any]) -> dict[str, float]:
    """What the run's evidence says of its speed; without evidence nothing."""
    told = verdicts.get("evidence") or {}
    waited = told.get("latency_ns", {}).get("acquire", {})
    found = {name: waited[name] for name in ("p50", "p90", "p99") if waited.get(name) is not None}
    gaps = [gap for row in told.get("failovers", ()) if (gap := row["gap_ns"]) is not None]
    if gaps:
        found["failover"] = max(gaps)
    span_s = (verdicts["stop_ns"] - verdicts["start_ns"]) / SECOND
    if told and span_s > 0:
        found["grants"] = round(told["acquire"]["granted"] / span_s, 3)
        answered = sum(spans["n"] for spans in told.get("latency_ns", {}).values())
        found["ops"] = round(answered / span_s, 3)
    return found


def failed(result: Result) -> bool:
    """Whether the run could not be carried out, which says nothing about the lock."""
    return result.exit_code == 4


def table(result: Result) -> dict[str, Any]:
    """The result as plain values, for JSON."""
    return asdict(result)


def read(row: Mapping[str, Any], where: str) -> Result:
    """The result that `table` wrote. UsageError names what does not fit."""
    try:
        return msgspec.convert(row, type=Result, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: not a result of this Holdfast: {error}") from error


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several; 3 of none, for nothing was shown."""
    return max(codes, key=lambda code: RANK[code], default=3)
