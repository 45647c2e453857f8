"""A feature that looks at a run beside the judge, at each stage at which it may want to."""

from __future__ import annotations

from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged
from holdfast.harness.verdicts.section import Section


class Lens:
    """Base class: it sees nothing. Lenses are called in the order of the catalogue (LENSES), then
    those of plug-ins, each with what its predecessor returned. A lens changes no verdict."""

    def of_case(self, run: RunDir, manifest: Manifest, judged: Judged, case: Case) -> Judged:
        """The judged run with what the lens has seen in the history, while it is in memory.

        Not called for a run that is judged in parts.
        """
        return judged

    def after(
        self, run: RunDir, manifest: Manifest, judged: Judged, orders: bytes | None
    ) -> Judged:
        """The judged run with what it has seen; HoldfastError if the verdict may not be reported.

        orders   content of the file of orders; None for a run that was judged in parts
        """
        return judged

    def section(self, judged: Judged) -> Section | None:
        """What the report of the run has about it; None for nothing."""
        return None


def kept(lens: Lens, before: Judged, after: Judged) -> Judged:
    """What a lens returned; HoldfastError if it changed a verdict, or made a failed run pass."""
    worse = before.exit_code == 0 or after.exit_code == before.exit_code
    if (after.verdict, after.verdicts) != (before.verdict, before.verdicts) or not worse:
        raise HoldfastError(f"lens {type(lens).__name__} changed a verdict, which no lens may")
    return after
