"""Judges a run directory from its files alone, without cluster or engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.harness.core.case import Case, Checker
from holdfast.harness.history.calls import share
from holdfast.harness.history.reader import load
from holdfast.harness.judging.judge import judge_case
from holdfast.harness.judging.judgement import Certifies
from holdfast.harness.judging.lens import Lens, kept
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs import files, journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.evidence import Evidence
from holdfast.harness.verdicts.judged import Judged

Measure = Callable[[Case], Evidence]


def judge(
    run: RunDir,
    manifest: Manifest,
    checkers: Mapping[str, Checker],
    evidence: Measure,
    certifies: Certifies,
    lenses: Sequence[Lens] = (),
) -> Judged:
    """The judged run; UsageError if its files are damaged.

    `manifest` is the run's, with the properties of further checkers if any; `checkers` has one per
    property. Each of `lenses` sees the history while it is in memory.
    """
    recording = load(run.history)
    with files.shaped(run.path):
        case = case_of(manifest, recording, journal.marks(run), journal.faults(run))
    measured = replace(evidence(case), narrowed=share(case.history.rows))
    judged = judge_case(manifest, case, checkers, certifies)
    judged = replace(judged, clocks=recording.clocks, evidence=measured)
    for lens in lenses:
        judged = kept(lens, judged, lens.of_case(run, manifest, judged, case))
    return judged
