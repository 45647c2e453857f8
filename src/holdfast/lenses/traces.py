"""Traces: the steps that servers wrote down, validated against their specification."""

from __future__ import annotations

from dataclasses import replace

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.harness.judging.lens import Lens
from holdfast.harness.judging.recorded_trace import validated
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged


class Traces(Lens):
    """Asks for a trace where the plan has one recorded."""

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        """With the steps of the servers, if the plan has them recorded. A departure is no
        violation: it makes the exit code 3 at most."""
        row = catalogue.SYSTEMS.get(manifest.plan.system)
        options = manifest.options.system
        if row is None or not row.recorded or options.get("trace") != "yes":
            return judged
        entries = load(row.specification), load(row.recorded)
        traced = validated(run.path, judged, *entries, options, manifest.traits)
        departs = traced.departure is not None and judged.exit_code == 0
        return replace(judged, traced=traced, exit_code=3 if departs else judged.exit_code)


TRACES = Traces()
