"""Judges the rows so far of a running run, in its own process, and prints JSON.

Run: `python -m holdfast.serve.judged_so_far RUN`. Only what can be violated before the end is
judged, from a consistent snapshot: rows written after one instant are ignored.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import catalogue
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.reader import cut
from holdfast.harness.history.reader import load as load_history
from holdfast.harness.judging.judge import judge_case
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judgement
from holdfast.lenses.live_verdicts import case_so_far, promised_throughout


def so_far(run: RunDir) -> dict[str, Any]:
    """Present state of a running run: counts, and the first finding per violated property.

    UsageError if nothing was recorded yet.
    """
    instant = now_ns()
    manifest = run.read_manifest()
    recording = load_history(run.history)
    # Segments are read one after the other: without this, a release could be missed while the
    # grant that followed it is seen.
    earlier = cut(recording.history.rows, instant)
    recording = replace(recording, history=replace(recording.history, rows=earlier))
    case = case_so_far(run, manifest, recording, instant)
    checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in case.asked}
    rows = case.history.rows
    granted = np.isin(rows["f"], [Op.ACQUIRE, Op.TRY]) & (rows["status"] == Status.OK)
    judged = judge_case(manifest, case, checkers).verdicts if len(rows) else ()
    return {
        "ops": len(rows),
        "grants": int(granted.sum()),
        "t_ns": instant - case.start_ns,
        "judged": list(case.asked),
        "violated": [_violated(row, case.start_ns, manifest) for row in judged if row.findings],
    }


def _violated(row: Judgement, start_ns: int, manifest: Manifest) -> dict[str, Json]:
    """The first finding of a property."""
    first = min(row.findings, key=lambda finding: finding.t_ns)
    return {
        "property": row.property,
        "promised": promised_throughout(manifest, row.property),
        "findings": len(row.findings),
        "kind": first.kind,
        "sentence": first.sentence,
        "at_ns": first.t_ns - start_ns,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(so_far(RunDir(Path(sys.argv[1]).resolve()))))
