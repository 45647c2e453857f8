"""Packing: full segments of a run become small while it goes on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from holdfast import catalogue
from holdfast.harness.history.segment_packer import Packer
from holdfast.harness.judging.lens import Lens, Watch
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir


class Packing(Lens):
    """Packs the history where it is written on this machine."""

    def during(
        self, run: RunDir, manifest: Manifest, watch: Watch
    ) -> AbstractContextManager[object]:
        """Looks for full segments until the run has ended."""
        row = catalogue.BACKENDS[manifest.plan.backend]
        written_here = not row.virtual_time and not row.hosts_file
        return Packer(run.history) if written_here else nullcontext()


PACKING = Packing()
