"""Judges the rows so far of a running run, in its own process, and prints JSON.

Run: `python -m holdfast.serve.live_verdict RUN`. Only what can be violated before the end is
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
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.reader import Recording
from holdfast.harness.history.reader import load as load_history
from holdfast.harness.judging.judge import case_of, judge_case
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judgement

BEFORE_THE_END = (
    "mutual-exclusion",
    "no-stale-write",
    "no-expired-write",
    "token-order",
    "applied-once",
)
"""Properties whose violation stays one in a longer history."""


def so_far(run: RunDir) -> dict[str, Any]:
    """Present state of a running run: counts, and the first finding per violated property.

    UsageError if nothing was recorded yet.
    """
    instant = now_ns()
    manifest = run.read_manifest()
    faults = [row for row in journal.faults(run) if (row.t_ns or 0) <= instant]
    recording = _until(load_history(run.history), instant)
    case = case_of(manifest, recording, journal.marks(run), faults)
    case = replace(
        case,
        asked=[prop for prop in case.asked if prop in BEFORE_THE_END],
        end_ns=max(case.end_ns, instant),
    )
    checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in case.asked}
    rows = case.history.rows
    granted = np.isin(rows["f"], [Op.ACQUIRE, Op.TRY]) & (rows["status"] == Status.OK)
    judged = judge_case(manifest, case, checkers).verdicts if len(rows) else ()
    return {
        "ops": len(rows),
        "grants": int(granted.sum()),
        "t_ns": instant - case.start_ns,
        "judged": list(case.asked),
        "violated": [_violated(row, case.start_ns) for row in judged if row.findings],
    }


def _until(recording: Recording, instant: int) -> Recording:
    """The history at an instant: without later rows, and with later responses missing.

    Segments are read one after the other; without this, a release could be missed while the grant
    that followed it is seen.
    """
    rows = recording.history.rows[recording.history.rows["t_inv"] <= instant].copy()
    late = rows["t_ret"] > instant
    rows["status"][late] = Status.INVOKED
    rows["t_ret"][late] = 0
    found = recording.history
    kept = History(rows=rows, strings=found.strings, writers=found.writers, problems=found.problems)
    return replace(recording, history=kept)


def _violated(row: Judgement, start_ns: int) -> dict[str, Json]:
    first = min(row.findings, key=lambda finding: finding.t_ns)
    return {
        "property": row.property,
        "promised": row.promised,
        "findings": len(row.findings),
        "kind": first.kind,
        "sentence": first.sentence,
        "at_ns": first.t_ns - start_ns,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(so_far(RunDir(Path(sys.argv[1]).resolve()))))
