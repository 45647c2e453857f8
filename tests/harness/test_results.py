"""The result that a campaign keeps of a judged run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.harness.campaigns.results import (
    of_verdicts,
    planned,
    variant,
    without_hash,
    worst_code,
)
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.verdicts.evidence import Asked, Dist, Evidence, Failover
from holdfast.harness.verdicts.judged import Judged, Judgement, ObservedFault, Shown, UnderKind
from tests.manifests import manifest

PAUSE = Fault(id="f1", do="pause", target="holder", at_ns=1, for_ns=1)
KILL = replace(PAUSE, id="f2", do="kill")


def judged(*verdicts: Judgement, evidence: Evidence | None = None) -> Judged:
    """A run of 4 s with two faults, of which the pause took effect."""
    shown = ObservedFault(
        id="f1", do="pause", target="holder", nodes=("c1",), from_ns=0, to_ns=1, effective=True
    )
    return Judged(
        run="run-1",
        system="reference",
        backend="sim",
        workload="critical-section",
        resource="unfenced",
        seed=7,
        verdict=Verdict.VIOLATED,
        exit_code=1,
        command="holdfast run --seed 7",
        problems=("c2 exited",),
        start_ns=SECOND,
        stop_ns=5 * SECOND,
        end_ns=6 * SECOND,
        faults=(shown, replace(shown, id="f2", do="kill", effective=False)),
        verdicts=verdicts,
        evidence=evidence or Evidence(),
    )


def given(identity: str = "", **options: str) -> Manifest:
    """The manifest of a run with both faults and with options, one of them by the run itself."""
    made = manifest()
    return replace(
        made,
        identity=identity,
        plan=replace(made.plan, faults=(KILL, PAUSE, PAUSE), options=options, scenario="crash"),
        options=replace(made.options, system={**options, "folder": "/tmp/x"}),
    )


def row(prop: str, verdict: Verdict, *sentences: str, **under: Verdict) -> Judgement:
    return Judgement(
        property=prop,
        verdict=verdict,
        promised=True,
        severity=Severity.CRITICAL,
        reason="told",
        exercised={"grants": 30},
        findings=tuple(
            Shown(kind=f"kind of {text}", sentence=text, lock="a", t_ns=1) for text in sentences
        ),
        under={
            kind: UnderKind(verdict=one, asked=True, promised=True, reason=f"no {kind}")
            for kind, one in under.items()
        },
    )


def test_a_result_names_the_run_its_faults_and_the_first_finding_of_each_property() -> None:
    found = of_verdicts(
        judged(
            row("mutual-exclusion", Verdict.VIOLATED, "two held", "three held"),
            row("ownership", Verdict.HOLDS, pause=Verdict.HOLDS, kill=Verdict.UNKNOWN),
        ),
        given(queue="racing", sim_network="3"),
        key="k",
        run="runs/1",
    )
    assert (found.key, found.run, found.seed, found.exit_code) == ("k", "runs/1", 7, 1)
    assert found.system == "reference queue=racing unfenced"
    assert (found.nemesis, found.effective) == ("kill+pause", ("pause",))
    assert found.cell == "reference queue=racing unfenced / sim / critical-section / scenario crash"
    assert (found.duplicates, found.grants, found.problems) == (2, 30, ("c2 exited",))
    exclusion, ownership = found.properties["mutual-exclusion"], found.properties["ownership"]
    assert (exclusion.kind, exclusion.sentence) == ("kind of two held", "two held")
    assert found.broken() == [("mutual-exclusion", exclusion)] and exclusion.exercised
    assert ownership.under == {"pause": Verdict.HOLDS, "kill": Verdict.UNKNOWN}
    assert ownership.lacks == {"kill": "no kill"} and not ownership.exercised


def test_a_violated_property_lacks_no_kind_of_fault() -> None:
    violated = row("ownership", Verdict.VIOLATED, "taken", kill=Verdict.UNKNOWN)
    found = of_verdicts(judged(violated), given())
    assert found.properties["ownership"].lacks == {} and found.duplicates == 0
    assert found.key == "run-1"


def test_a_user_s_system_is_named_by_its_description() -> None:
    found = of_verdicts(judged(), given(identity="mine.py:Lock@0123abcd"))
    assert found.system == "mine.py:Lock@0123abcd unfenced"
    assert without_hash(found.system) == "mine.py:Lock unfenced"
    assert without_hash("reference / sim / a@0123abcd") == "reference / sim / a@0123abcd"


def test_measures_are_quantiles_the_longest_failover_and_rates_per_second() -> None:
    gaps = (None, 3, 9, 4)
    told = Evidence(
        acquire=Asked(granted=10),
        latency_ns={"acquire": Dist(n=10, p50=5, p99=50), "write": Dist(n=30)},
        failovers=tuple(Failover(fault="f1", kind="kill", t_ns=0, gap_ns=gap) for gap in gaps),
    )
    found = of_verdicts(judged(evidence=told), given()).measures
    assert found == {"p50": 5, "p99": 50, "failover": 9, "grants": 2.5, "ops": 10.0}
    assert of_verdicts(judged(), given()).measures == {}
    stopped = replace(judged(evidence=told), stop_ns=SECOND)
    assert {"grants", "ops"}.isdisjoint(of_verdicts(stopped, given()).measures)


@pytest.mark.parametrize(
    ("system", "options", "resource", "name"),
    [
        ("redis", {}, "fenced", "redis"),
        ("redis", {}, "unfenced", "redis unfenced"),
        ("redis", {"b": "2", "a": "1"}, "strict", "redis a=1 b=2"),
        ("reference", {"election_ms": "9", "snapshot_every": "2", "sim_x": "1"}, "", "reference"),
        ("/home/me/locks/mine.py:Lock", {}, "", "mine.py:Lock"),
    ],
)
def test_a_variant_is_the_system_with_what_makes_it_another_lock(
    system: str, options: dict[str, str], resource: str, name: str
) -> None:
    assert variant(system, options, resource) == name


def test_kinds_of_faults_and_exit_codes_of_several_runs_are_one() -> None:
    assert planned(["pause", "kill", "pause"]) == "kill+pause" and planned([]) == "none"
    assert [worst_code(codes) for codes in ([], [0, 3], [3, 4], [0, 4, 1], [0])] == [3, 3, 4, 1, 0]
