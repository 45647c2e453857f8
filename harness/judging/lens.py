"""A feature that looks at a judged run, beside the judge."""

from __future__ import annotations

from typing import Protocol

from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged


class Lens(Protocol):
    """Called in the order of the catalogue (LENSES), each with what its predecessor returned."""

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        """The judged run with what it has seen; HoldfastError if the verdict may not be reported.

        orders   content of the file of orders; None for a run that was judged in parts
        """
        ...
