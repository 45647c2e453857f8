"""The verdict of a run as an earlier command stored it."""

from __future__ import annotations

from holdfast.harness.core.verdict import READABLE
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.causes import with_causes
from holdfast.harness.verdicts.judged import Judged, read


def stored(run: RunDir) -> Judged:
    """The judged run of its verdicts.json; UsageError if it is missing, damaged or of a newer
    schema. The causes of its findings are derived if a former version wrote it."""
    judged = read(directory.read_json(run.verdicts, *READABLE))
    return judged if judged.causes else with_causes(judged, run.read_manifest().traits)
